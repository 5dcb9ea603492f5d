//! The shell examples of docs/grid.md, run as they stand against a grid, with other people's programs.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use weir_tests::{Run, RunningGrid, peers, run, wait_for};

/// The grid that the examples name.
const TWO: &str = "name = \"two\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n";

const DOCUMENT: &str = include_str!("../../docs/grid.md");

/// The shell code below a heading, up to the next one.
fn example(heading: &str) -> String {
    let section = DOCUMENT
        .split(&format!("\n### {heading}\n"))
        .nth(1)
        .expect("the document has this heading");
    let section = section.split("\n### ").next().unwrap();
    let blocks: Vec<&str> = section
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(!blocks.is_empty(), "no example below {heading}");
    blocks.concat()
}

/// Runs the example in the environment that `weir grid env` makes; any command that fails ends it.
fn run_example(grid: &RunningGrid, heading: &str) -> Run {
    let scratch = grid.scratch();
    fs::write(
        scratch.join("data.bin"),
        (0..3_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>(),
    )
    .unwrap();
    // curl tells of refusals by its exit code only if asked to.
    fs::write(scratch.join(".curlrc"), "fail\nsilent\nshow-error\n").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = format!(
        "{}:{}",
        root.join(".peers/bin").display(),
        std::env::var("PATH").unwrap()
    );
    let script = format!("set -euo pipefail\n{}", example(heading));
    let mut bash = grid.command("bash").unwrap();
    run(bash.arg("-c").arg(script).env("PATH", path).env("HOME", scratch))
        .unwrap()
        .expect_ok()
        .unwrap()
}

#[test]
fn the_document_shows_the_grid_that_is_tested() {
    assert!(DOCUMENT.contains(TWO));
}

#[test]
fn the_examples_with_curl_and_gfal_work() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(TWO).unwrap();
    let told = run_example(&grid, "curl").stdout;
    assert!(
        told.to_lowercase().contains("digest: adler32=") && told.contains("success"),
        "{told}"
    );
    let same =
        |file: &str| fs::read(grid.scratch().join(file)).unwrap() == fs::read(grid.scratch().join("data.bin")).unwrap();
    assert!(same("back.bin"));

    let told = run_example(&grid, "gfal2").stdout;
    for word in ["data.bin", "DELETED", "3000000"] {
        assert!(told.contains(word), "no {word} in {told}");
    }
    for copy in ["pushed.bin", "streamed.bin"] {
        grid.curl(&["-o", copy, &format!("{}/g/{copy}", grid.rse_url("BETA"))])
            .unwrap()
            .expect_ok()
            .unwrap();
        assert!(same(copy), "{copy}");
    }
}

#[test]
fn the_examples_with_davix_and_rclone_work() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(TWO).unwrap();
    run_example(&grid, "davix");
    let same = fs::read(grid.scratch().join("back.bin")).unwrap() == fs::read(grid.scratch().join("data.bin")).unwrap();
    assert!(same);
    let told = run_example(&grid, "rclone");
    assert!(
        told.stdout.contains("3000000") && told.stderr.contains("0 differences"),
        "{told:?}"
    );
}

#[test]
fn the_examples_with_the_fts3_client_work() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(TWO).unwrap();
    let source = format!("{}/d/data.bin", grid.rse_url("ALPHA"));
    fs::write(grid.scratch().join("seed.bin"), vec![5; 1_000_000]).unwrap();
    grid.curl(&["-T", "seed.bin", &source]).unwrap().expect_ok().unwrap();
    let told = run_example(&grid, "The fts3 client").stdout;
    assert!(told.contains("Request ID:") || told.contains("Job ID"), "{told}");
}

#[test]
fn the_examples_without_a_token_work() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(TWO).unwrap();
    let told = run_example(&grid, "Without a token").stdout;
    assert!(told.contains("data.bin"), "{told}");
    let content = fs::read(grid.scratch().join("data.bin")).unwrap();
    assert!(fs::read(grid.scratch().join("certified.bin")).unwrap() == content);
    let moved = format!("{}/c/moved.bin", grid.rse_url("BETA"));
    let arrived = || Ok(grid.curl(&["-o", "moved.bin", &moved])?.ok().then_some(()));
    wait_for(Duration::from_secs(60), arrived).unwrap();
    assert!(fs::read(grid.scratch().join("moved.bin")).unwrap() == content);
}
