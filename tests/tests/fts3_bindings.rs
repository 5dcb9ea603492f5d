//! The fts3 client's Python bindings against a running grid. What they must return is said in Python, in
//! `tests/fts3/test_easy.py`; here is the grid, and the proof that all of it ran.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use weir_tests::{Draw, Peer, RunningGrid, TWO_SITES, adler32, peers, run};

/// More than a handshake and some answers, less than the file.
const PASSED: usize = 400_000;
const SIZE: usize = 2_000_000;

#[test]
fn the_bindings_return_what_they_do_with_fts3() {
    // Rucio and the experiments' own tools use these bindings, not the command line.
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let content = Draw::new(1).bytes(SIZE);
    fs::write(grid.scratch().join("file"), &content).unwrap();
    let alpha = grid.rse_url("ALPHA");
    grid.curl(&["-T", "file", &format!("{alpha}/file")])
        .unwrap()
        .expect_ok()
        .unwrap();
    // On the storage's own address, which is what its certificate names.
    let behind: std::net::SocketAddr = alpha["https://".len()..].parse().unwrap();
    let slow = Peer::StallsAfter(behind, PASSED).start(behind.ip()).unwrap();

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let told = run(grid
        .command(root.join("../.peers/bin/python").to_str().unwrap())
        .unwrap()
        .arg(root.join("fts3/test_easy.py"))
        .env_remove("BEARER_TOKEN")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SLOW", format!("https://{slow}"))
        .env("SIZE", SIZE.to_string())
        .env("ADLER32", adler32(&content).trim_start_matches("ADLER32:")))
    .unwrap()
    .expect_ok()
    .unwrap();
    let cases = include_str!("../fts3/test_easy.py").matches("\n    def test_").count();
    let summary = format!("Ran {cases} tests");
    assert!(cases > 0 && told.stderr.contains(&summary), "{}", told.stderr);
    assert!(!told.stderr.contains("skipped"), "{}", told.stderr);
}
