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

#[test]
fn the_command_line_client_submits_hops_and_sources() {
    // The commands of an operator: `--multi-hop` with a file of hops, and a file with several sources.
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    fs::write(grid.scratch().join("file"), b"bytes of a file").unwrap();
    let (alpha, beta) = (grid.rse_url("ALPHA"), grid.rse_url("BETA"));
    grid.curl(&["-T", "file", &format!("{alpha}/file")])
        .unwrap()
        .expect_ok()
        .unwrap();
    let bulk = |name: &str, files: serde_json::Value| {
        let text = serde_json::json!({ "files": files }).to_string();
        // The token is in the environment of the grid; the client wants it for each storage.
        fs::write(grid.scratch().join(name), text).unwrap();
    };
    let token = grid.env().unwrap();
    let token = token.iter().find(|(name, _)| name == "BEARER_TOKEN").unwrap().1.clone();
    let entry = |sources: &[String], destination: &str| {
        serde_json::json!({
            "sources": sources, "destinations": [destination], "selection_strategy": "orderly",
            "source_tokens": vec![&token; sources.len()], "destination_tokens": [&token],
        })
    };
    let way = format!("{beta}/way");
    bulk(
        "hops.json",
        serde_json::json!([
            entry(&[format!("{alpha}/file")], &way),
            entry(std::slice::from_ref(&way), &format!("{alpha}/there")),
        ]),
    );
    let sources = [format!("{alpha}/nothing"), format!("{alpha}/file")];
    bulk(
        "sources.json",
        serde_json::json!([entry(&sources, &format!("{beta}/file"))]),
    );

    let client = |program: &str, more: &str| {
        let script = format!(
            "exec {}/../.peers/bin/{program} -s \"$FTS_ENDPOINT\" --fts-access-token \"$BEARER_TOKEN\" {more}",
            env!("CARGO_MANIFEST_DIR")
        );
        run(grid.command("sh").unwrap().args(["-c", &script])).unwrap()
    };
    for (arguments, kind) in [("--multi-hop -f hops.json", "H"), ("-f sources.json", "R")] {
        let told = client(
            "fts-rest-transfer-submit",
            &format!("--blocking --interval 1 --json {arguments}"),
        );
        let told = told.expect_ok().unwrap().stdout;
        assert!(told.contains("FINISHED"), "{told}");
        let id = told
            .split('"')
            .find(|word| word.len() == 36)
            .expect("a job's id")
            .to_owned();
        let status = client("fts-rest-transfer-status", &format!("--json {id}"));
        let status = status.expect_ok().unwrap().stdout;
        assert!(status.contains(&format!("\"job_type\": \"{kind}\"")), "{status}");
    }
    for (rse, path) in [(&alpha, "there"), (&beta, "file")] {
        let content = grid
            .curl(&["-s", &format!("{rse}/{path}")])
            .unwrap()
            .expect_ok()
            .unwrap();
        assert_eq!(content.stdout, "bytes of a file");
    }
}
