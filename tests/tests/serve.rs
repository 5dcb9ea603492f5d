//! `weir serve storage | issuer | transfer`: each service alone, with certificates and tokens of a grid beside it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use weir_tests::{RunningGrid, TWO_SITES, run, weir_binary};

/// A service in the foreground of its own process; killed when dropped.
struct Service {
    process: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Service {
    /// Writes the configuration beside the grid, starts the service and waits until it says that it is ready.
    fn start(grid: &RunningGrid, service: &str, config: &str) -> Self {
        let text = |key: &str| grid.description["ca"][key].as_str().unwrap().to_owned();
        let rse = |name: &str| grid.rse_url(name);
        let config = config
            .replace("@CA@", &text("file"))
            .replace("@IDENTITIES@", grid.dir().join("identities").to_str().unwrap())
            .replace("@ISSUER@", grid.description["issuer"]["url"].as_str().unwrap())
            .replace("@SECRET@", grid.description["client"]["secret_file"].as_str().unwrap())
            .replace("@ALPHA@", &rse("ALPHA"))
            .replace("@TRANSFER@", &grid.transfer_url());
        let file = grid.scratch().join(format!("{service}.toml"));
        fs::write(&file, config).unwrap();
        let mut process = Command::new(weir_binary())
            .args(["serve", service, "--json", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&ready["event"], &ready["service"]),
            (&Value::from("ready"), &Value::from(service))
        );
        Self {
            process,
            stdout,
            url: ready["url"].as_str().unwrap().to_owned(),
        }
    }

    /// Sends SIGTERM; gives the exit code and the last line it printed.
    fn terminate(mut self) -> (Option<i32>, Value) {
        run(Command::new("kill").arg(self.process.id().to_string()))
            .unwrap()
            .expect_ok()
            .unwrap();
        let code = self.process.wait().unwrap().code();
        let last = self.stdout.by_ref().lines().map(Result::unwrap).last().unwrap();
        (code, serde_json::from_str(&last).unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn check_end(service: Service, name: &str) {
    let (code, envelope) = service.terminate();
    assert_eq!(code, Some(0));
    assert_eq!(envelope["command"], format!("serve {name}"));
    assert_eq!(envelope["data"]["signal"], "SIGTERM");
}

#[test]
fn a_storage_serves_alone() {
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let config = r#"
        listen = "127.0.1.1:0"
        audiences = ["@ALPHA@"]
        any_audience = false
        access_log = "access.jsonl"
        [tls]
        certificate = "@IDENTITIES@/ALPHA.pem"
        key = "@IDENTITIES@/ALPHA.key"
        [trust]
        files = ["@CA@"]
        [[issuer]]
        url = "@ISSUER@"
        [[area]]
        name = "data"
        prefix = "/"
        root = "alone"
        create_root = true
        quota = "1 GB"
    "#;
    let storage = Service::start(&grid, "storage", config);
    fs::write(grid.scratch().join("f"), "alone\n").unwrap();
    let url = format!("{}/f", storage.url);
    grid.curl(&["-T", "f", &url]).unwrap().expect_ok().unwrap();
    assert_eq!(grid.curl(&[&url]).unwrap().expect_ok().unwrap().stdout, "alone\n");
    assert_eq!(fs::read_to_string(grid.scratch().join("alone/f")).unwrap(), "alone\n");
    check_end(storage, "storage");
    assert!(
        fs::read_to_string(grid.scratch().join("access.jsonl"))
            .unwrap()
            .lines()
            .count()
            >= 2
    );
}

#[test]
fn an_issuer_serves_alone() {
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let config = r#"
        listen = "127.0.0.1:0"
        key_directory = "keys"
        [tls]
        certificate = "@IDENTITIES@/transfer.pem"
        key = "@IDENTITIES@/transfer.key"
        [[client]]
        id = "alone"
        secret_file = "@SECRET@"
        scopes = ["storage.read:/data"]
        audiences = ["https://storage.example"]
    "#;
    let issuer = Service::start(&grid, "issuer", config);
    let secret = fs::read_to_string(grid.description["client"]["secret_file"].as_str().unwrap()).unwrap();
    // The secret goes by file: arguments are public.
    let form = format!(
        "grant_type=client_credentials&client_id=alone&client_secret={}",
        secret.trim()
    );
    let ask = |scope: &str| {
        fs::write(grid.scratch().join("form"), format!("{form}&scope={scope}")).unwrap();
        let answer = grid
            .command("curl")
            .unwrap()
            .args(["-sS", "-d", "@form", &format!("{}/token", issuer.url)])
            .output();
        serde_json::from_slice::<Value>(&answer.unwrap().stdout).unwrap()
    };
    let granted = ask("storage.read:/data/run1");
    assert!(
        granted["access_token"].is_string() && granted["token_type"] == "Bearer",
        "{}",
        granted["error"]
    );
    assert_eq!(ask("storage.modify:/data")["error"], "invalid_scope");
    check_end(issuer, "issuer");
}

#[test]
fn a_transfer_service_serves_alone_and_remembers() {
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let config = r#"
        listen = "127.0.0.1:0"
        store = "alone.sqlite"
        audiences = ["@TRANSFER@"]
        [tls]
        certificate = "@IDENTITIES@/transfer.pem"
        key = "@IDENTITIES@/transfer.key"
        [trust]
        files = ["@CA@"]
        [[issuer]]
        url = "@ISSUER@"
        vo = "test"
        [copy]
        allow = ["127.0.0.0/8"]
    "#;
    let source = format!("{}/f", grid.rse_url("ALPHA"));
    let destination = format!("{}/g", grid.rse_url("BETA"));
    fs::write(grid.scratch().join("f"), "moved\n").unwrap();
    grid.curl(&["-T", "f", &source]).unwrap().expect_ok().unwrap();

    let service = Service::start(&grid, "transfer", config);
    let job = serde_json::json!({ "files": [{ "sources": [source], "destinations": [destination] }] });
    fs::write(grid.scratch().join("job"), job.to_string()).unwrap();
    let json = "Content-Type: application/json";
    let answer = grid
        .curl(&["-H", json, "-d", "@job", &format!("{}/jobs", service.url)])
        .unwrap()
        .expect_ok()
        .unwrap();
    let job: Value = serde_json::from_str(&answer.stdout).unwrap();
    let id = job["job_id"].as_str().unwrap().to_owned();
    check_end(service, "transfer");

    // An acknowledged job is still known after a restart, and comes to its end.
    let service = Service::start(&grid, "transfer", config);
    let poll = || {
        let answer = grid
            .curl(&[&format!("{}/jobs/{id}", service.url)])
            .unwrap()
            .expect_ok()
            .unwrap();
        serde_json::from_str::<Value>(&answer.stdout).unwrap()["job_state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut state = poll();
    while ["SUBMITTED", "READY", "ACTIVE"].contains(&state.as_str()) {
        state = poll();
    }
    assert_eq!(state, "FINISHED");
    assert_eq!(grid.curl(&[&destination]).unwrap().stdout, "moved\n");
    check_end(service, "transfer");
}
