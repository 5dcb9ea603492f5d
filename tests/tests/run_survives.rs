//! A challenge whose process is killed, or whose disk is full: what it measured is there all the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_tests::{Daemon, Run, wait_for, weir, weir_binary};

/// Two sites, both ways, for three seconds.
const SMALL: &str = r#"
name = "small"
[phases]
ramp = "1 s"
hold = "2 s"
drain = "10 s"
[grid]
name = "small"
[grid.storage]
durability = "cache"
quota = "100 MB"
[[grid.rse]]
name = "ALPHA"
[[grid.rse]]
name = "BETA"
[[workload]]
kind = "rates"
lifetime = "1 s"
rates = [
    { source = "ALPHA", destination = "BETA", rate = "40 Mb/s" },
    { source = "BETA", destination = "ALPHA", rate = "20 Mb/s" },
]
"#;

/// The one run folder below `runs`.
fn run_folder(runs: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(runs)?;
    Ok(entries.next().context("there is no run folder")??.path())
}

fn report(folder: &Path) -> Result<Run> {
    weir(&["report".as_ref(), "--json".as_ref(), folder.as_os_str()])
}

fn json(path: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Starts a challenge in a folder of its own.
fn start(scratch: &Path, number: usize) -> Result<(Daemon, PathBuf)> {
    let runs = scratch.join(format!("runs-{number}"));
    let mut command = Command::new(weir_binary());
    command.args(["challenge", "run", "small.toml", "--out"]).arg(&runs);
    command.current_dir(scratch).env_remove("WEIR_LOG");
    let run = Daemon::start(command, &scratch.join(format!("out-{number}")))?;
    Ok((run, runs))
}

#[test]
fn a_run_that_is_killed_at_any_moment_has_its_report() -> Result<()> {
    // Wrong: hours of measurements go with the process, or the report shows other transfers than the rows.
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("small.toml"), SMALL)?;
    let mut with_transfers = 0;
    for number in 0..10 {
        let (mut run, runs) = start(scratch.path(), number)?;
        let begun = || {
            Ok(run_folder(&runs)
                .ok()
                .filter(|folder| folder.join("series.csv").exists()))
        };
        let folder = wait_for(Duration::from_secs(60), begun)?;
        std::thread::sleep(Duration::from_millis(number as u64 * 310));
        run.kill()?;
        let rows = lines(&folder.join("transfers.csv")).saturating_sub(1);
        assert!(!folder.join("report.json").exists(), "the run had ended");
        let built = report(&folder)?;
        if !built.ok() {
            // Killed while source files went to their places.
            assert!(built.stdout.contains("before its first transfer"), "{built:?}");
            assert!(number < 3, "{built:?}");
            continue;
        }
        assert_eq!(built.envelope()?["data"]["incomplete"], true);
        let report = json(&folder.join("report.json"))?;
        let counted = report["totals"]["transfers"].as_u64().unwrap();
        assert!(counted.abs_diff(rows as u64) <= 1, "{counted} of {rows} rows");
        with_transfers += usize::from(counted > 0);
        assert_eq!(report["verdict"], "unstable");
        let reason = report["verdict_reasons"][0].as_str().unwrap();
        assert!(reason.starts_with("the run ended without a report"), "{reason}");
        assert!(fs::read_to_string(folder.join("report.html"))?.contains("weir-report"));
    }
    assert!(
        with_transfers >= 5,
        "{with_transfers} of ten runs were killed with transfers done"
    );
    Ok(())
}

#[test]
fn a_run_that_goes_on_shows_how_far_it_is() -> Result<()> {
    // Wrong: nobody can look at the figures of a run of days, or the look replaces the report of the run itself.
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("small.toml"), SMALL)?;
    let (mut run, runs) = start(scratch.path(), 0)?;
    let interim = || {
        let Ok(folder) = run_folder(&runs) else { return Ok(None) };
        Ok(report(&folder)?.ok().then_some(folder))
    };
    let folder = wait_for(Duration::from_secs(60), interim)?;
    let interim = json(&folder.join("report.json"))?;
    let reason = interim["verdict_reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("the run still goes on"), "{reason}");
    let ended = || run.ended();
    assert_eq!(
        wait_for(Duration::from_secs(60), ended)?,
        Some(0),
        "no threshold, no failure"
    );
    let last = json(&folder.join("report.json"))?;
    assert_eq!(last["incomplete"], false);
    report(&folder)?.expect_ok()?;
    assert_eq!(
        json(&folder.join("report.json"))?,
        last,
        "what is whole is not built again"
    );
    Ok(())
}
