//! `weir sim` as a program.
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

const STEPS: &str = r#"
name = "steps"
[grid]
name = "two"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[workload]]
kind = "matrix"
sizes = ["1 MB", "100 MB"]
"#;

/// Steps would be passed over, or the report dated 1970.
#[test]
fn steps_run_in_virtual_time() {
    let dir = tempfile::tempdir().unwrap();
    let output = simulate(dir.path(), STEPS);
    assert!(output.status.success(), "{output:?}");
    let run = std::fs::read_dir(dir.path().join("weir-runs")).unwrap().next().unwrap();
    let report = std::fs::read(run.unwrap().path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let cells = report["workloads"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 12);
    assert!(cells.iter().all(|cell| cell["ok"] == true), "{cells:?}");
    assert_eq!(report["started_at"], "T+0s");
}

/// A plan of steps that fills the memory would not be refused.
#[test]
fn more_steps_than_can_be_simulated_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = simulate(dir.path(), &format!("{STEPS}repeat = 1000000\n"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("transfers; at most 5000000 ") && said.contains("repeat"),
        "{said}"
    );
}

/// The comparison would not be what it says, for people or for programs, or differ from one time to the next.
#[test]
fn compare_prints_and_writes_its_pages() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c.toml"), CHALLENGE).unwrap();
    let compare = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["sim", "compare", "c.toml"])
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = compare(&["--html", "c.html"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("of the optimum") && text.contains("wrote c.html"),
        "{text}"
    );
    let page = std::fs::read_to_string(dir.path().join("c.html")).unwrap();
    assert!(page.contains("weir sim compare c.toml --scale 1 --seed 7"), "{page}");
    compare(&["--html", "again.html"]);
    assert!(page == std::fs::read_to_string(dir.path().join("again.html")).unwrap());
    let json: serde_json::Value = serde_json::from_str(&compare(&["--json"])).unwrap();
    let data = &json["data"];
    assert_eq!(data["policies"].as_array().unwrap().len(), 4);
    assert!(data["optimum_bps"].as_u64().unwrap() >= data["policies"][0]["totals"]["achieved_bps"].as_u64().unwrap());
    assert_eq!(data["sites"][0]["policies"].as_array().unwrap().len(), 4);
}
