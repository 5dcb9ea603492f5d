//! A whole challenge by the real binary: its verdict, its run folder, its report in a browser.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;
use weir_tests::{Daemon, peers, run, steadily, wait_for, weir, weir_binary};

/// Two sites, both ways; small enough for a busy machine.
const SMALL: &str = r#"
name = "small"
seed = 7
[phases]
ramp = "2 s"
hold = "6 s"
drain = "30 s"
[grid]
name = "small"
[grid.storage]
durability = "cache"
[[grid.rse]]
name = "ALPHA"
[[grid.rse]]
name = "BETA"
[[workload]]
kind = "rates"
lifetime = "3 s"
rates = [
    { source = "ALPHA", destination = "BETA", rate = "40 Mb/s" },
    { source = "BETA", destination = "ALPHA", rate = "20 Mb/s" },
]
[[threshold]]
total = true
metric = "failed_ratio"
max = 0.0
[[threshold]]
total = true
metric = "crosscheck_difference"
max = 0.001
"#;

fn challenge(folder: &Path) -> Result<PathBuf> {
    let file = folder.join("small.toml");
    fs::write(&file, SMALL)?;
    Ok(file)
}

/// The newest run folder below `runs`: their names end with the time.
fn run_folder(runs: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(runs)?.map(|entry| Ok(entry?.path()));
    let newest = entries.collect::<Result<Vec<_>>>()?.into_iter().max();
    newest.context("there is no run folder")
}

fn report(folder: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(folder.join("report.json"))?)?)
}

/// The columns of a CSV without quoted commas in front of those that are asked for.
fn column(text: &str, name: &str) -> Vec<String> {
    let mut lines = text.lines();
    let at = lines
        .next()
        .unwrap_or_default()
        .split(',')
        .position(|title| title == name)
        .unwrap();
    lines
        .map(|line| line.split(',').nth(at).unwrap_or_default().to_owned())
        .collect()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// The names in a report, each with the way to it. Places in lists do not count, nor do names that a challenge gives.
fn names(value: &Value, way: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (name, entry) in entries {
                let given = ["/series/sites", "/series/links", "/stability/cv_sites", "/parameters"].contains(&way)
                    || way.ends_with("/modes");
                let way = format!("{way}/{}", if given { "*" } else { name });
                names(entry, &way, found);
                found.insert(way);
            }
        }
        Value::Array(entries) => entries.iter().for_each(|entry| names(entry, way, found)),
        _ => {}
    }
}

/// The page of a run without its data.
fn frame(folder: &Path) -> Result<String> {
    let page = fs::read_to_string(folder.join("report.html"))?;
    let (before, rest) = page.split_once("id=\"weir-report\">").context("no data in the page")?;
    let (_, after) = rest.split_once("</script>").context("data without an end")?;
    Ok(format!("{before}{after}"))
}

/// The same challenge in virtual time; returns its run folder.
fn simulated_alike(file: &Path, real: &Path) -> Result<PathBuf> {
    let runs = file.with_file_name("simulated");
    weir(
        &["sim", "run", "--rows", "all", "--out"]
            .map(std::ffi::OsStr::new)
            .into_iter()
            .chain([runs.as_os_str(), file.as_os_str()])
            .collect::<Vec<_>>(),
    )?
    .expect_ok()?;
    let simulated = run_folder(&runs)?;
    let names = [real, &simulated].map(|folder| {
        let mut found = BTreeSet::new();
        names(&report(folder).unwrap(), "", &mut found);
        // Only a real run reads files back, tells of its windows as events, and has first bytes and gauges; only a simulated one divides
        // what is missing.
        let of_one = ["/audit/", "/events/", "/deficits", "/gauges"];
        found.retain(|name| !of_one.iter().any(|part| name.starts_with(part)) && !name.contains("/first_byte_s/"));
        found
    });
    let first_byte = &report(real)?["totals"]["times"]["first_byte_s"]["p50"];
    assert!(first_byte.is_number(), "no copy says when its first byte moved");
    let differ: Vec<_> = names[0].symmetric_difference(&names[1]).collect();
    assert_eq!(differ, Vec::<&String>::new(), "one report says what the other does not");
    assert!(
        names[0].contains("/series/links/*/achieved_bps") && names[0].len() > 100,
        "{names:?}"
    );
    assert!(frame(real)? == frame(&simulated)?, "another page");
    for rows in ["transfers.csv", "ledger.csv"] {
        let heading =
            |folder: &Path| fs::read_to_string(folder.join(rows)).map(|text| text.lines().next().map(str::to_owned));
        assert_eq!(heading(real)?, heading(&simulated)?);
    }
    Ok(simulated)
}

/// The states of attempts in `report.json` are those of the rows: each was counted once, and none was lost between two readings.
fn signals_agree(report: &Value, rows: &str) {
    let of_rows: f64 = column(rows, "waits")
        .iter()
        .flat_map(|waits| waits.split(' '))
        .filter_map(|part| part.split_once('='))
        .filter(|(state, _)| !state.starts_with("store"))
        .filter_map(|(_, micros)| micros.parse::<f64>().ok())
        .sum();
    let signals = report["signals"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(!signals.is_empty(), "nothing is known of what transfers waited for");
    let in_queue = [
        "catalogue",
        "turn",
        "slots",
        "optimiser",
        "bandwidth-limit",
        "pause",
        "halt",
        "retry",
    ];
    let mut of_report = 0.0;
    for link in signals {
        assert_eq!(link["known"], serde_json::json!(["queue", "begin", "data", "end"]));
        for wait in link["waits"].as_array().into_iter().flatten() {
            let state = wait["wait"].as_str().unwrap_or_default();
            // The report adds up what the queue and the attempts waited for the store.
            if !in_queue.contains(&state) && state != "store" {
                of_report += wait["total_s"].as_f64().unwrap_or_default();
            }
        }
    }
    let of_rows = of_rows / 1e6;
    // The report rounds each sum to a millisecond.
    let rounding = 0.001 * 20.0 * signals.len() as f64;
    assert!(
        of_rows > 0.0 && (of_rows - of_report).abs() <= rounding,
        "{of_rows} s of rows, {of_report} s of the report"
    );
}

/// A pass would be claimed that rows, ledger and independent counters do not bear out, or shown otherwise on the page.
#[test]
fn a_challenge_passes_and_its_figures_agree_everywhere() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let file = challenge(scratch.path())?;
    let runs = scratch.path().join("runs");
    let run_it = ["challenge", "run", "--json", "--audit", "20%", "--out"].map(std::ffi::OsStr::new);
    let arguments: Vec<_> = run_it.into_iter().chain([runs.as_os_str(), file.as_os_str()]).collect();
    let ended = steadily(|| weir(&arguments))?.expect_ok()?;
    assert_eq!(ended.envelope()?["ok"], true, "{ended:?}");
    let folder = run_folder(&runs)?;
    let report = report(&folder)?;
    assert_eq!(report["verdict"], "pass", "{report}");
    assert_eq!(report["schema"], "weir-report/1");

    let rows = fs::read_to_string(folder.join("transfers.csv"))?;
    let sizes = column(&rows, "size_bytes");
    let states = column(&rows, "state");
    let finished: u64 = sizes
        .iter()
        .zip(&states)
        .filter(|(_, state)| *state == "finished")
        .map(|(size, _)| size.parse::<u64>().unwrap())
        .sum();
    assert_eq!(states.len() as u64, number(&report, "/totals/transfers"));
    assert_eq!(finished, number(&report, "/totals/verified_bytes"));
    let ledger = fs::read_to_string(folder.join("ledger.csv"))?;
    let injected: u64 = column(&ledger, "injected")
        .iter()
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    let cancelled = states.iter().filter(|state| *state == "cancelled").count();
    assert_eq!(
        injected,
        states.len() as u64,
        "every injection is a row ({cancelled} of them withdrawn)"
    );
    for check in report["crosschecks"].as_array().context("no cross-checks")? {
        assert_eq!(check["pass"], true, "{check}");
    }
    assert_eq!(number(&report, "/audit/failed"), 0);
    assert!(number(&report, "/audit/files") > 0, "{}", report["audit"]);
    for name in ["report.html", "challenge.toml", "run.log"] {
        assert!(folder.join(name).metadata()?.len() > 0, "{name} is empty");
    }
    signals_agree(&report, &rows);
    let simulated = simulated_alike(&file, &folder)?;
    if peers() {
        let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/test/browser.mjs");
        for folder in [&folder, &simulated] {
            run(Command::new("node").arg(&browser).arg(folder))?.expect_ok()?;
        }
    }
    // The recorded command can be run again, to the letter.
    let resolved = folder.join("challenge.toml");
    weir(&["challenge".as_ref(), "check".as_ref(), resolved.as_os_str()])?.expect_ok()?;
    Ok(())
}

/// Ctrl-C would lose the report, or leave the grid running.
#[test]
fn an_interrupted_challenge_still_reports() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let file = challenge(scratch.path())?;
    let runs = scratch.path().join("runs");
    let mut command = Command::new(weir_binary());
    command
        .args(["challenge", "run", "--duration", "10m"])
        .arg(&file)
        .arg("--out")
        .arg(&runs);
    let mut running = Daemon::start(command, &scratch.path().join("out"))?;
    wait_for(Duration::from_secs(60), || {
        anyhow::ensure!(running.ended()?.is_none(), "it ended by itself:\n{}", running.said());
        let counts = |line: &str| {
            line.split("finished ")
                .nth(1)
                .is_some_and(|rest| !rest.starts_with('0'))
        };
        Ok(running.said().lines().any(counts).then_some(()))
    })?;
    running.signal(Signal::INT)?;
    let code = wait_for(Duration::from_secs(60), || running.ended())?;
    assert_eq!(code, Some(130), "{}", running.said());
    let report = report(&run_folder(&runs)?)?;
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "/totals/transfers") > 0);
    Ok(())
}

/// A machine that cannot carry what is asked would be failed without a word of advice.
#[test]
fn too_much_is_a_fail_with_advice() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let file = challenge(scratch.path())?;
    let runs = scratch.path().join("runs");
    let text =
        fs::read_to_string(&file)?.replace("metric = \"failed_ratio\"\nmax = 0.0", "metric = \"ratio\"\nmin = 0.9");
    fs::write(&file, text)?;
    let ended = run(Command::new(weir_binary())
        .args(["challenge", "run", "--scale", "5000"])
        .arg(&file)
        .arg("--out")
        .arg(&runs))?;
    assert!(matches!(ended.code, Some(1..=3)), "{ended:?}");
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("--scale"), "{said}");
    Ok(())
}

/// The page of a comparison would show other figures than its data hold, or not fit a phone.
#[test]
fn a_comparison_opens_in_a_browser() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let page = scratch.path().join("burst.html");
    let challenge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../challenges/dune-burst.toml");
    let compare = ["sim", "compare", "--html"].map(std::ffi::OsStr::new);
    let arguments: Vec<_> = compare
        .into_iter()
        .chain([page.as_os_str(), challenge.as_os_str()])
        .collect();
    weir(&arguments)?.expect_ok()?;
    assert!(fs::read_to_string(&page)?.contains("\"schema\":\"weir-comparison/1\""));
    if peers() {
        let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/test/browser.mjs");
        run(Command::new("node").arg(&browser).arg(&page))?.expect_ok()?;
    }
    Ok(())
}
