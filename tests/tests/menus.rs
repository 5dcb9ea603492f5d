//! The challenge files that stand for real data challenges, run by rules at a scale of seconds.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;
use weir_tests::{run, steadily, weir_binary};

/// Runs a shipped challenge with these arguments; gives the report.
fn report_of(name: &str, arguments: &[&str]) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../challenges/{name}.toml"));
    let outcome = steadily(|| {
        let mut command = Command::new(weir_binary());
        command.args(["challenge", "run"]).arg(&file).args(arguments);
        run(command.args(["--out", "runs"]).current_dir(folder.path()))
    })?;
    // A busy machine may miss a rate; the test only asks that everything arrives.
    anyhow::ensure!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
    let newest = fs::read_dir(folder.path().join("runs"))?
        .map(|entry| entry.unwrap().path())
        .max();
    Ok(serde_json::from_slice(&fs::read(newest.unwrap().join("report.json"))?)?)
}

/// Everything went through rules, came, and was deleted; assumptions are reported.
fn is_whole(report: &Value) {
    let chain = &report["chain"];
    assert_eq!(
        (&chain["ok"], &chain["refused"]),
        (&chain["rules"], &0.into()),
        "{chain}"
    );
    assert!(chain["rules"].as_u64().unwrap() > 50, "{chain}");
    assert_eq!(report["totals"]["failed"], 0, "{}", report["errors"]);
    let deletions = &chain["deletions"];
    assert_eq!(deletions["done"], deletions["due"], "{deletions}");
    assert_eq!(deletions["due"], report["totals"]["finished"]);
    assert!(
        report["description"].as_str().unwrap().contains("Assumed: "),
        "{}",
        report["description"]
    );
}

#[test]
fn lhcb_to_the_disks() -> Result<()> {
    // Wrong: the file asks for other rates than LHCb did, or a grid of its sites does not carry a part of them.
    let report = report_of("dc24-lhcb", &["--scale", "0.001", "--duration", "10s"])?;
    is_whole(&report);
    assert_eq!(report["totals"]["asked_bps"], 111_330_000);
    Ok(())
}

#[test]
fn the_tier_0_exports_to_each_and_to_all() -> Result<()> {
    // Wrong: Tier-1s are not alone, or the rate of all together is not their sum.
    let report = report_of("dc24-t0-rerun", &["--scale", "0.0005"])?;
    is_whole(&report);
    let together = report["workloads"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&together["name"], &together["asked_bps"]),
        (&"together".into(), &128_500_000.into())
    );
    Ok(())
}

#[test]
fn a_week_at_a_tier_1() -> Result<()> {
    // Wrong: a day of the schedule is left out, or two run at once.
    let report = report_of("minidc-t1-week", &["--scale", "0.0005"])?;
    is_whole(&report);
    let names: Vec<&str> = report["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["export", "export-again", "ingress", "egress", "checksums"]);
    Ok(())
}

/// The rate that the workloads are asked for whose names begin so, in b/s.
fn asked(report: &Value, begin: &str) -> u64 {
    let all = report["workloads"].as_array().unwrap().iter();
    let of_it = all.filter(|one| one["name"].as_str().unwrap().starts_with(begin));
    of_it.map(|one| one["asked_bps"].as_u64().unwrap()).sum()
}

#[test]
fn cms_in_four_scenarios() -> Result<()> {
    // Wrong: a scenario has another rate than 250 Gb/s, or all at once are not 1 Tb/s.
    let report = report_of("dc24-cms", &["--scale", "0.0001"])?;
    is_whole(&report);
    let rates = ["t0-export", "t1-export", "output", "aaa", "all-"].map(|begin| asked(&report, begin));
    assert_eq!(rates, [25_000_000, 25_000_000, 25_000_000, 25_000_000, 100_000_000]);
    Ok(())
}

#[test]
fn atlas_alone_minimal_and_flexible() -> Result<()> {
    // Wrong: the legs of a scenario do not add up to its total: 257 Gb/s, 682 Gb/s, 1.4 Tb/s.
    let report = report_of("dc24-atlas", &["--scale", "0.0001"])?;
    is_whole(&report);
    let totals = [
        ("alone-", 25_700_000),
        ("minimal-", 68_200_000),
        ("flexible-", 140_000_000),
    ];
    for (begin, total) in totals {
        // The rates of links are rounded to Mb/s.
        assert!(
            asked(&report, begin).abs_diff(total) < total / 1000,
            "{begin}: {}",
            asked(&report, begin)
        );
    }
    Ok(())
}

/// Two links, each with one rule at a time on ten files.
const LOOP: &str = r#"
name = "loop"
[grid]
name = "g"
[grid.storage]
durability = "cache"
[grid.catalog]
poll = "200 ms"
[[grid.rse]]
name = "KEK"
[[grid.rse]]
name = "BNL"
[[grid.rse]]
name = "DESY"
[phases]
ramp = "1 s"
hold = "14 s"
drain = "20 s"
[[workload]]
kind = "rates"
file_size_min = "300 kB"
file_size_max = "300 kB"
loop = true
source_files = 10
lifetime = "10 m"
rates = [
  { source = "KEK", destination = "BNL", rate = "4 Mb/s" },
  { source = "KEK", destination = "DESY", rate = "4 Mb/s" },
]
"#;

#[test]
fn a_loop_makes_a_rule_when_the_one_before_is_gone() -> Result<()> {
    // Wrong: a rule is made beside the one before, lives on when it is done, or the link stops after the first.
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("loop.toml"), LOOP)?;
    let mut command = Command::new(weir_binary());
    command.args(["challenge", "run", "loop.toml", "--out", "runs"]);
    let outcome = run(command.current_dir(folder.path()))?;
    anyhow::ensure!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
    let newest = fs::read_dir(folder.path().join("runs"))?
        .map(|entry| entry.unwrap().path())
        .max()
        .unwrap();
    let report: Value = serde_json::from_slice(&fs::read(newest.join("report.json"))?)?;
    let chain = &report["chain"];
    assert_eq!(chain["ok"], chain["rules"], "{chain}");
    assert_eq!(report["totals"]["failed"], 0, "{}", report["errors"]);
    // A rule takes a second or so, its deletion one or two.
    assert!(chain["rules"].as_u64().unwrap() >= 4, "{chain}");
    assert_eq!(chain["deletions"]["done"], chain["deletions"]["due"], "{chain}");
    let rules = fs::read_to_string(newest.join("rules.csv"))?;
    let mut last = std::collections::BTreeMap::<String, f64>::new();
    for line in rules.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [asked, ended]: [f64; 2] = [fields[6].parse()?, fields[8].parse()?];
        assert_eq!(fields[4], "10", "{line}");
        let before = last.insert(fields[3].to_owned(), ended).unwrap_or(0.0);
        assert!(before <= asked, "asked before the last one was done: {line}");
    }
    Ok(())
}
