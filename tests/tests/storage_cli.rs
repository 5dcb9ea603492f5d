//! `weir storage` against a running grid, as a person uses it after `weir grid env`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use serde_json::Value;
use weir_tests::{Draw, Peer, Run, RunningGrid, TWO_SITES, adler32, run, weir_binary};

struct Cli {
    grid: RunningGrid,
    base: String,
}

impl Cli {
    fn start() -> Self {
        let grid = RunningGrid::up(TWO_SITES).unwrap();
        let base = grid.rse_url("ALPHA");
        Self { grid, base }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    fn weir(&self, arguments: &[&str]) -> Run {
        let binary = weir_binary().to_str().unwrap();
        let mut command = self.grid.command(binary).unwrap();
        run(command.current_dir(self.grid.scratch()).arg("storage").args(arguments)).unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        self.weir(arguments).expect_ok().unwrap().stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let told = self.weir(&[arguments, &["--json"]].concat());
        let envelope = told.envelope().unwrap();
        assert_eq!(envelope["ok"], true, "{arguments:?}: {envelope:#}");
        envelope["data"].clone()
    }
}

#[test]
fn a_person_puts_lists_checks_gets_and_removes() {
    let cli = Cli::start();
    let content = Draw::new(5).bytes(3_000_000);
    let here = cli.grid.scratch();
    fs::write(here.join("a file"), &content).unwrap();
    let sum = adler32(&content).to_lowercase();

    // A directory's URL takes the file's own name.
    let told = cli.done(&["put", "a file", &cli.url("d/")]);
    assert!(
        told.contains("d/a%20file") && told.contains(&sum) && told.contains("(verified)"),
        "{told}"
    );
    let again = cli.weir(&["put", "a file", &cli.url("d/a%20file")]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("--overwrite"), "{}", again.stderr);
    cli.done(&["put", "a file", &cli.url("d/a%20file"), "--overwrite"]);
    cli.done(&["put", "a file", &cli.url("d/e/g")]);

    assert_eq!(cli.done(&["ls", &cli.url("d")]), "a file\ne/\n");
    let long = cli.done(&["ls", "-l", "-r", &cli.url("d")]);
    assert!(
        long.contains("3 MB") && long.contains("GMT") && long.contains("e/g"),
        "{long}"
    );
    let listed = cli.json(&["ls", &cli.url("d")]);
    assert_eq!(listed["entries"][0]["size"], 3_000_000);

    assert!(cli.done(&["checksum", &cli.url("d/e/g")]).starts_with(&sum));
    let crc = cli.json(&["checksum", "-a", "crc32c", &cli.url("d/e/g")]);
    assert!(crc["checksums"][0]["checksum"].as_str().unwrap().starts_with("crc32c:"));

    let used = cli.json(&["du", &cli.url("d")]);
    assert_eq!(
        (&used["usage"][0]["size"], &used["usage"][0]["files"]),
        (&6_000_000.into(), &2.into())
    );
    assert!(used["usage"][0]["available"].as_u64().unwrap() > 0);

    let told = cli.done(&["get", &cli.url("d/e/g")]);
    assert!(told.contains("(verified)"), "{told}");
    assert!(fs::read(here.join("g")).unwrap() == content);
    assert_eq!(cli.weir(&["get", &cli.url("d/e/g")]).code, Some(2), "g exists");
    cli.done(&["get", &cli.url("d/e/g"), "--overwrite"]);
    fs::create_dir(here.join("into")).unwrap();
    cli.done(&["get", &cli.url("d/a%20file"), "into"]);
    assert!(fs::read(here.join("into/a file")).unwrap() == content);

    let kept = cli.weir(&["rm", &cli.url("d/e/g"), &cli.url("d")]);
    assert_eq!(kept.code, Some(2), "{}", kept.stderr);
    assert!(
        kept.stderr.contains("is a directory") && kept.stderr.contains("--recursive"),
        "{}",
        kept.stderr
    );
    assert_eq!(
        cli.done(&["ls", &cli.url("d/e/")]),
        "",
        "the file of the same command is gone"
    );
    cli.done(&["rm", "-r", &cli.url("d")]);
    assert_eq!(cli.weir(&["rm", &cli.url("d")]).code, Some(2));
    cli.done(&["rm", "-f", &cli.url("d")]);
}

/// Half a file under its own name would be taken for the whole one.
#[test]
fn a_broken_copy_leaves_nothing_behind() {
    let cli = Cli::start();
    let here = cli.grid.scratch();
    fs::write(here.join("f"), Draw::new(6).bytes(5_000_000)).unwrap();
    cli.done(&["put", "f", &cli.url("f")]);
    let address = cli.base.trim_start_matches("https://").split('/').next().unwrap();
    let address: std::net::SocketAddr = address.parse().unwrap();
    let broken = Peer::BreaksAfter(address, 1_000_000).start(address.ip()).unwrap();
    let url = cli.url("f").replace(&address.to_string(), &broken.to_string());
    fs::create_dir(here.join("into")).unwrap();
    let told = cli.weir(&["get", &url, "into"]);
    assert_eq!(told.code, Some(3), "{}", told.stderr);
    assert!(told.stderr.contains("broke off"), "{}", told.stderr);
    assert_eq!(fs::read_dir(here.join("into")).unwrap().count(), 0);
    let nobody = cli.weir(&["ls", "https://127.0.0.1:1/"]);
    assert_eq!(nobody.code, Some(3), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("could not reach"), "{}", nobody.stderr);
}
