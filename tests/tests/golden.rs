//! Reports of simulated runs stay the same, byte for byte: people compare reports that they keep, and a refactoring must not change a figure.
//!
//! `WEIR_GOLDEN=write` writes them anew, where a change is meant.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use weir_tests::{run, weir_binary};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The report of a challenge in virtual time, without what a build brings in.
fn report(challenge: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(weir_binary());
    command.args(["sim", "run"]).arg(challenge);
    command.args(["--rows", "none", "--out"]).arg(folder.path());
    let ran = run(&mut command).unwrap();
    // A verdict may be that the challenge fails.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let entry = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(entry.path().join("report.json")).unwrap();
    let name = challenge.file_name().unwrap().to_str().unwrap();
    let mut report = String::new();
    for line in text.lines() {
        let line = if line.starts_with("    \"commit\": ") {
            "    \"commit\": null"
        } else {
            line
        };
        report += &line.replace(challenge.to_str().unwrap(), name);
        report.push('\n');
    }
    ["signals", "deficits", "ledger"]
        .iter()
        .fold(report, |report, list| digest(&report, list))
}

/// The report with a list of many thousand numbers as a digest: FNV-1a, which shows any change.
fn digest(report: &str, list: &str) -> String {
    let begin = format!("\n  \"{list}\": [\n");
    // A run without rates has no deficits.
    let Some((before, rest)) = report.split_once(&begin) else {
        return report.to_owned();
    };
    let (numbers, after) = rest.split_once("\n  ],\n").unwrap();
    let hash = numbers.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{before}\n  \"{list}\": \"{hash:016x}\",\n{after}")
}

fn is_golden(challenge: &Path) {
    let name = challenge.file_stem().unwrap().to_str().unwrap();
    let golden = here(&format!("tests/golden/{name}.json"));
    let report = report(challenge);
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|what| what == "write") {
        fs::write(&golden, report).unwrap();
        return;
    }
    let expected = fs::read_to_string(&golden).unwrap();
    let differs = expected
        .lines()
        .zip(report.lines())
        .position(|(one, other)| one != other);
    if let Some(line) = differs {
        let around = |text: &str| {
            let lines = text.lines().skip(line.saturating_sub(3)).take(7);
            lines.collect::<Vec<_>>().join("\n")
        };
        panic!(
            "{name}, line {}: was\n{}\nand is\n{}",
            line + 1,
            around(&expected),
            around(&report)
        );
    }
    assert_eq!(expected.len(), report.len(), "{name}: one of the two is longer");
}

/// Rates of thirty links, in bins of a second.
#[test]
fn rates() {
    is_golden(&here("../challenges/minidc-uk.toml"));
}

/// Two workloads of rates with times of their own, in bins of more than ten seconds, and much that is withdrawn.
#[test]
fn hours() {
    is_golden(&here("../challenges/dune-burst.toml"));
}

/// A loop of rules: each is made when the one before is gone.
#[test]
fn loops() {
    is_golden(&here("../challenges/belle2.toml"));
}

/// Cells: a run without rates, which ends with the last of them.
#[test]
fn steps() {
    is_golden(&here("../challenges/juno-matrix.toml"));
}

/// Failures of several classes, repeated attempts, and rates beside steps.
#[test]
fn failures() {
    is_golden(&here("tests/golden/faults.toml"));
}
