//! A fault that is added to a run under way is named while it goes on, and in the report.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use weir_tests::{Daemon, wait_for, weir, weir_binary};

/// Three sites, and a link between each two of them. Files live as long as the run: none is given up for its lifetime.
const CHALLENGE: &str = r#"
name = "named"
[phases]
ramp = "2 s"
hold = "60 s"
drain = "40 s"
[grid]
name = "named"
[grid.storage]
durability = "cache"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[[workload]]
kind = "rates"
file_size_min = "500 kB"
file_size_max = "500 kB"
cycle = "1 s"
rates = [
  { source = "A", destination = "B", rate = "16 Mb/s" },
  { source = "A", destination = "C", rate = "16 Mb/s" },
  { source = "B", destination = "C", rate = "16 Mb/s" },
  { source = "C", destination = "B", rate = "16 Mb/s" },
]
"#;

#[test]
fn a_slow_disk_is_named_while_it_lasts_and_in_the_report() -> Result<()> {
    // Wrong: a run says nothing until it is over, or blames links and services for one slow storage.
    let scratch = tempfile::tempdir()?;
    let (file, out) = (scratch.path().join("named.toml"), scratch.path().join("runs"));
    fs::write(&file, CHALLENGE)?;
    let mut command = std::process::Command::new(weir_binary());
    command
        .args(["challenge", "run", "--breakable", "--json", "--out"])
        .args([&out, &file]);
    let log = scratch.path().join("said");
    let mut run = Daemon::start(command, &log)?;
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let in_hold = || -> Result<Option<PathBuf>> {
        let entry = fs::read_dir(&out).ok().and_then(|mut entries| entries.next());
        let folder = entry.and_then(Result::ok).map(|entry| entry.path());
        let log = |folder: &PathBuf| fs::read_to_string(folder.join("run.log")).unwrap_or_default();
        Ok(folder.filter(|folder| log(folder).contains("hold begins")))
    };
    let folder = wait_for(Duration::from_secs(60), in_hold)?;
    let folder = folder.to_str().context("a path of letters")?;
    // The links must be well for a while: that is what their waits are held against.
    std::thread::sleep(Duration::from_secs(12));
    let fault = [
        "add",
        folder,
        "slow-disk",
        "--rse",
        "B",
        "--rate",
        "8 Mb/s",
        "--for",
        "40 s",
    ];
    let added = weir(&[&["fault"], &fault[..]].concat())?;
    assert_eq!(added.code, Some(0), "{added:?}");

    let names_it = |statement: &Value| statement["place"].as_str().is_some_and(|place| place.ends_with(":B"));
    let told = || -> Result<Option<Value>> {
        let why = weir(&["why", folder, "--json"])?;
        let data: Value = serde_json::from_str(&why.stdout)?;
        let statements = data["data"]["statements"].as_array().cloned().unwrap_or_default();
        Ok(statements.into_iter().find(names_it))
    };
    let early = wait_for(Duration::from_secs(40), told).with_context(said)?;
    ensure!(early["said_s"].as_f64().is_some(), "{early:#}");
    let metrics = fs::read_to_string(format!("{folder}/why.prom"))?;
    ensure!(
        metrics.contains("weir_attribution_probability{challenge=\"named\""),
        "{metrics}"
    );

    let code = wait_for(Duration::from_secs(150), || run.ended())?;
    ensure!(matches!(code, Some(0 | 1)), "{code:?} {}", said());
    let report: Value = serde_json::from_slice(&fs::read(format!("{folder}/report.json"))?)?;
    let statements = report["statements"].as_array().context("statements")?;
    let first = statements.first().with_context(said)?;
    ensure!(
        names_it(first)
            && ["storage-data-path", "admission"]
                .map(Value::from)
                .contains(&first["class"]),
        "{statements:#?}"
    );
    ensure!(first["said_s"].as_f64().is_some(), "{first:#}");
    let events = said();
    let mut why = events.lines().filter(|line| line.contains("\"event\":\"why\""));
    ensure!(why.next().is_some(), "{events}");
    Ok(())
}
