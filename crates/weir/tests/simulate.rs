//! `weir sim run` as a program.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

const CHALLENGE: &str = r#"
name = "two"
seed = 7
[grid]
name = "two"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[phases]
ramp = "1 min"
hold = "10 min"
drain = "5 min"
[[workload]]
kind = "rates"
rates = [{ source = "A", destination = "B", rate = "1 Gb/s" }]
file_size_min = "100 MB"
file_size_max = "100 MB"
"#;

fn simulate(dir: &Path, challenge: &str) -> Output {
    let file = dir.join("c.toml");
    std::fs::write(&file, challenge).unwrap();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["sim", "run", "--rows", "all", "c.toml"])
        .current_dir(dir)
        .output()
        .unwrap()
}

/// A report of which no second run says the same proves nothing.
#[test]
fn the_same_seed_gives_the_same_report_byte_for_byte() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let folders = dirs.each_ref().map(|dir| {
        let output = simulate(dir.path(), CHALLENGE);
        assert!(output.status.success(), "{output:?}");
        let mut runs = std::fs::read_dir(dir.path().join("weir-runs")).unwrap();
        runs.next().unwrap().unwrap().path()
    });
    for name in ["report.json", "report.html", "transfers.csv", "ledger.csv"] {
        let [one, other] = folders
            .each_ref()
            .map(|folder| std::fs::read(folder.join(name)).unwrap());
        assert!(one == other && !one.is_empty(), "{name}");
    }
}

/// One byte a file is a slip; it must not fill the memory until the system ends the process.
#[test]
fn more_transfers_than_can_be_simulated_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = simulate(dir.path(), &CHALLENGE.replace("100 MB", "1 B"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("transfers; at most") && said.contains("file_size_min"),
        "{said}"
    );
    assert!(!dir.path().join("weir-runs").exists());
}
