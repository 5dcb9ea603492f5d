//! `weir transfer` against a running grid, as a person uses it after `weir grid env`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::Value;
use weir_tests::{Draw, Peer, Run, RunningGrid, TWO_SITES, adler32, run, weir_binary, write_private};

const SIZE: usize = 300_000;

struct Cli {
    grid: RunningGrid,
    alpha: String,
    beta: String,
}

impl Cli {
    fn start() -> Self {
        let grid = RunningGrid::up(TWO_SITES).unwrap();
        let (alpha, beta) = (grid.rse_url("ALPHA"), grid.rse_url("BETA"));
        Self { grid, alpha, beta }
    }

    fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.grid.scratch().join(name), content).unwrap();
        let url = format!("{}/{name}", self.alpha);
        self.grid.curl(&["-T", name, &url]).unwrap().expect_ok().unwrap();
    }

    fn weir(&self, arguments: &[&str]) -> Run {
        let binary = weir_binary().to_str().unwrap();
        run(self.grid.command(binary).unwrap().arg("transfer").args(arguments)).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let told = self.weir(&[arguments, &["--json"]].concat());
        let envelope = told.envelope().unwrap();
        assert_eq!(envelope["ok"], true, "{arguments:?}: {envelope:#}");
        envelope["data"].clone()
    }
}

#[test]
fn a_person_submits_watches_looks_and_cancels() {
    let cli = Cli::start();
    let content = Draw::new(3).bytes(SIZE);
    cli.put("one", &content);
    cli.put("two", &content);
    let (from, to) = (format!("{}/one", cli.alpha), format!("{}/one", cli.beta));

    let told = cli.weir(&[
        "submit",
        &from,
        &to,
        "--checksum",
        &adler32(&content),
        "--verify-checksum",
        "both",
        "--watch",
    ]);
    let told = told.expect_ok().unwrap();
    let job = told.stdout.lines().next().unwrap().to_owned();
    assert_eq!(told.stdout.matches("1 of 1 finished").count(), 1, "{}", told.stdout);

    // A list of copies, one of which cannot work: the exit code and the words say so.
    let list = format!(
        "# two copies\n{0}/two {1}/two\n{0}/none {1}/none ADLER32\n",
        cli.alpha, cli.beta
    );
    fs::write(cli.grid.scratch().join("list"), list).unwrap();
    let told = cli.weir(&["submit", "--file", "list", "--retry", "0", "--watch"]);
    assert_eq!(told.code, Some(1), "{}{}", told.stdout, told.stderr);
    assert!(
        told.stdout.contains("FINISHEDDIRTY") && told.stdout.contains("No such file or directory"),
        "{}",
        told.stdout
    );

    let status = cli.weir(&["status", &job, "--files"]).expect_ok().unwrap();
    assert!(
        status.stdout.contains("FINISHED") && status.stdout.contains("/one"),
        "{}",
        status.stdout
    );
    let listed = cli.json(&["list", "--state", "FINISHED,FINISHEDDIRTY"]);
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 2);

    // Something that takes its time, to be asked about and cancelled.
    let behind: std::net::SocketAddr = cli.alpha["https://".len()..].parse().unwrap();
    let slow = Peer::StallsAfter(behind, 1000).start(behind.ip()).unwrap();
    let slow = format!("https://{slow}/one");
    let submitted = cli.json(&["submit", &slow, &format!("{}/slow", cli.beta)]);
    let job = submitted["job_id"].as_str().unwrap();
    let why = cli.weir(&["why", job]).expect_ok().unwrap();
    assert!(!why.stdout.trim().is_empty());
    let host = |url: &str| format!("https://{}", url["https://".len()..].split(':').next().unwrap());
    let link = format!("{} > {}", host(&cli.alpha), host(&cli.beta));
    let why = cli.weir(&["why", &link]).expect_ok().unwrap();
    assert!(
        why.stdout.contains("active of") && why.stdout.contains("last decisions"),
        "{}",
        why.stdout
    );
    assert!(why.stdout.contains("the same time by cause"), "{}", why.stdout);
    let causes = cli.json(&["why", &link])["causes"].clone();
    let sum: f64 = causes
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["share"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "{causes}");
    let cancelled = cli.weir(&["cancel", job]).expect_ok().unwrap();
    assert!(cancelled.stdout.contains("CANCELED"), "{}", cancelled.stdout);
}

#[test]
fn an_operator_sets_limits_and_drains() {
    let cli = Cli::start();
    cli.put("one", b"content");
    let dir = cli.grid.dir();
    let env = ["grid", "env", dir.to_str().unwrap(), "--operator", "--json"];
    let env = run(Command::new(weir_binary()).args(env)).unwrap().envelope().unwrap();
    let file = env["data"]["BEARER_TOKEN_FILE"].as_str().unwrap();
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    // It opens the transfer service alone.
    let told = run(Command::new(weir_binary())
        .args(["storage", "ls", &cli.alpha, "--token-file", file])
        .args(["--ca", env["data"]["WEIR_CA_FILE"].as_str().unwrap()]))
    .unwrap();
    assert!(told.code == Some(3) && told.stderr.contains("401"), "{told:?}");
    let admin = ["--token-file", file];
    let ask = |arguments: &[&str]| cli.weir(&[arguments, &admin].concat()).expect_ok().unwrap().stdout;

    assert!(ask(&["limits"]).contains("no limits but those of the configuration file"));
    let link = ["--link", "https://127.0.1.1", "https://127.0.1.2"];
    let set = [&["limits"], &link[..], &["--max-active", "7", "--rate", "1 Gb/s"]].concat();
    assert!(ask(&set).contains("max_active 7, rate 1 Gb/s"));
    assert!(ask(&["limits", "--se", "https://127.0.1.2", "--inbound", "9"]).contains("inbound_max_active 9"));
    ask(&[&["limits"], &link[..], &["--remove"]].concat());
    assert!(ask(&["limits", "--se", "https://127.0.1.2", "--remove"]).contains("no limits"));

    ask(&["drain", "on"]);
    let submitted = cli.json(&["submit", &format!("{}/one", cli.alpha), &format!("{}/one", cli.beta)]);
    let job = submitted["job_id"].as_str().unwrap();
    let why = cli.weir(&["why", job]).expect_ok().unwrap();
    assert!(why.stdout.contains("an operator holds everything"), "{}", why.stdout);
    let files = cli.json(&["status", job])["jobs"][0]["files"].clone();
    let file = files[0]["file_id"].to_string();
    assert_eq!(ask(&["force", &file]).trim(), format!("{file}  forced"));
    let twice = cli.weir(&[&["force", &file, "999999"][..], &admin].concat());
    assert_eq!(twice.code, Some(3), "{}{}", twice.stdout, twice.stderr);
    let words = format!("{file}  File is not in SUBMITTED state\n999999  File does not exist\n");
    assert_eq!(twice.stdout, words);
    let why = cli.weir(&["why", &file]).expect_ok().unwrap();
    assert!(
        why.stdout.contains("an administrator has forced its start"),
        "{}",
        why.stdout
    );
    ask(&["drain", "off"]);
    cli.weir(&["watch", job]).expect_ok().unwrap();
}

#[test]
fn errors_name_the_thing_the_cause_and_the_remedy() {
    let cli = Cli::start();
    let unknown = "00000000-0000-4000-8000-000000000000";
    let told = cli.weir(&["status", unknown]);
    assert_eq!(told.code, Some(2), "{}", told.stderr);
    assert!(told.stderr.contains(unknown), "{}", told.stderr);
    let told = cli.weir(&["list", "--endpoint", "https://127.0.0.1:1"]);
    assert_eq!(told.code, Some(3), "{}", told.stderr);
    assert!(
        told.stderr
            .contains("could not reach the transfer service https://127.0.0.1:1"),
        "{}",
        told.stderr
    );
    // The token for people is no administrator's.
    let told = cli.weir(&["limits"]);
    assert_eq!(told.code, Some(3), "{}", told.stderr);
    assert!(
        told.stderr.contains("remedy: ask the service's operator"),
        "{}",
        told.stderr
    );
    write_private(&cli.grid.scratch().join("empty"), "\n").unwrap();
    let told = cli.weir(&["list", "--token-file", "empty"]);
    assert!(told.stderr.contains("the token file empty is empty"), "{}", told.stderr);
    for wrong in [
        &["submit", "https://a/f"][..],
        &["submit"],
        &["why"],
        &["limits", "--rate", "1 Gb/s"],
    ] {
        assert_eq!(cli.weir(wrong).code, Some(2), "{wrong:?}");
    }
}
