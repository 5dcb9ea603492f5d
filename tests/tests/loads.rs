//! Loads of a catalogue on a grid with real storages: a user without special rights holds a link at a rate.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use weir_tests::{Run, RunningGrid, peers, run, wait_for, weir_binary, write_private};

const GRID: &str = "name = \"loads\"\nvo = \"lab\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n[storage]\ndurability = \"cache\"\n";

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs Python with Rucio's client.
fn python(grid: &RunningGrid, arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = root.join(".peers/bin/python").display().to_string();
    let mut command = grid.command(&program).unwrap();
    command
        .args(arguments)
        .env("RUCIO_HOME", grid.scratch())
        .env("X509_USER_PROXY", grid.description["user"]["both"].as_str().unwrap())
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    run(&mut command).unwrap().expect_ok().unwrap();
}

/// A grid with 120 files of 2,000 bytes at ALPHA, and an account that may store 100,000 bytes at BETA.
fn lay() -> RunningGrid {
    let grid = RunningGrid::up(GRID).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rucio/rules.py");
    let description = grid.dir().join("grid.json");
    python(
        &grid,
        &[
            &script.display().to_string(),
            &description.display().to_string(),
            "seed",
            "120",
        ],
    );
    let alice = "from rucio.client import Client\nc = Client()\nc.add_account('alice', 'USER', 'alice@example.org')\n\
        c.add_identity('alice', 'alice', 'USERPASS', 'alice@example.org', password='open sesame')\n\
        c.set_local_account_limit('alice', 'BETA', 100000)\n";
    python(&grid, &["-c", alice]);
    write_private(&grid.scratch().join("alice"), "open sesame\n").unwrap();
    grid
}

/// `weir load …` of the account `root`.
fn root(grid: &RunningGrid, arguments: &[&str]) -> Run {
    let mut command = grid.command(&weir_binary().display().to_string()).unwrap();
    run(command.arg("load").args(arguments).current_dir(grid.scratch())).unwrap()
}

/// The same of `alice`.
fn alice(grid: &RunningGrid, arguments: &[&str]) -> Run {
    let password = grid.scratch().join("alice").display().to_string();
    let login = ["--account", "alice", "--user", "alice", "--password-file", &password];
    root(grid, &[arguments, &login].concat())
}

/// The load with its ledger.
fn shown(grid: &RunningGrid, id: &str) -> Value {
    let told = alice(grid, &["show", id, "--json"]).expect_ok().unwrap();
    serde_json::from_str::<Value>(&told.stdout).unwrap()["data"]["loads"][0].take()
}

fn number(load: &Value, key: &str) -> u64 {
    load[key].as_u64().unwrap_or_else(|| panic!("{key}: {load}"))
}

/// Waits until a load is as asked.
fn until(grid: &RunningGrid, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let found = wait_for(PATIENCE, || {
        last = shown(grid, id);
        Ok(is_so(&last).then(|| last.clone()))
    });
    found.unwrap_or_else(|_| panic!("{last}\n{}", grid.log()))
}

/// The files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let (folders, mut found) = entries.partition::<Vec<_>, _>(|path| path.is_dir());
    found.extend(folders.iter().flat_map(|folder| files(folder)));
    found
}

/// The ledger is exact: its cycles are numbered without a gap, each with a rule of its own, and add up to what the load says.
fn check(load: &Value) {
    let ledger = load["ledger"].as_array().unwrap();
    let numbers = ledger.iter().map(|row| number(row, "cycle")).collect::<Vec<_>>();
    assert_eq!(numbers, (1..=ledger.len() as u64).collect::<Vec<_>>());
    for key in ["files", "bytes"] {
        let sum = ledger.iter().map(|row| number(row, key)).sum::<u64>();
        assert_eq!(sum, number(load, &format!("injected_{key}")), "{load}");
    }
    let rules = ledger.iter().filter_map(|row| row["rule"].as_str()).collect::<Vec<_>>();
    assert_eq!(rules.iter().collect::<BTreeSet<_>>().len(), rules.len());
    let parts = ["arrived_bytes", "waiting_bytes", "lost_bytes"].map(|key| number(load, key));
    assert_eq!(parts.iter().sum::<u64>(), number(load, "injected_bytes"), "{load}");
}

#[test]
fn a_load_outlives_its_catalogue_and_a_stop_outlives_it_too() {
    // Wrong: after a crash a cycle is injected twice or lost, or what was stopped injects again.
    if !peers() {
        return;
    }
    let grid = lay();
    // 12,000 bytes a second are six files.
    let link = [
        "--from",
        "ALPHA",
        "--to",
        "BETA",
        "--rate",
        "96 kb/s",
        "--cycle",
        "1s",
        "--lifetime",
        "4s",
    ];
    let added = alice(
        &grid,
        &[&["add"][..], &link, &["--for", "10m", "--data", "lab:twenty"]].concat(),
    );
    let id = added.expect_ok().unwrap().stdout.trim().to_owned();
    let again = root(&grid, &[&["add"][..], &link].concat());
    assert!(again.code == Some(2) && again.stderr.contains(&id), "{}", again.stderr);
    let load = until(&grid, &id, |load| {
        number(load, "injected_files") >= 12 && number(load, "arrived_files") > 0
    });
    check(&load);
    let grid = grid.kill_and_restart().unwrap();
    let load = until(&grid, &id, |load| {
        // Copies whose rules have ended are deleted: files go again and again.
        number(load, "injected_files") > 130 && number(load, "arrived_files") > 125
    });
    check(&load);
    assert_eq!(
        (load["account"].as_str(), number(&load, "lost_bytes")),
        (Some("alice"), 0),
        "{load}"
    );
    let text = alice(&grid, &["show", &id]).expect_ok().unwrap().stdout;
    assert!(
        text.contains("INJECTING") && text.contains("cycles before these") && text.contains("rule "),
        "{text}"
    );
    assert!(alice(&grid, &["list"]).expect_ok().unwrap().stdout.contains(&id));
    assert!(root(&grid, &["list"]).expect_ok().unwrap().stdout.contains("no loads"));

    // The switch of an administrator, and a crash right after it.
    let stopped = root(&grid, &["stop", "--all"]).expect_ok().unwrap().stdout;
    assert!(stopped.contains("1 load is stopped"), "{stopped}");
    let grid = grid.kill_and_restart().unwrap();
    let load = until(&grid, &id, |load| number(load, "rules") == 0);
    check(&load);
    assert_eq!(
        (load["state"].as_str(), load["reason"].as_str()),
        (Some("STOPPED"), Some("stopped by root"))
    );
    std::thread::sleep(Duration::from_secs(3));
    let later = shown(&grid, &id);
    assert_eq!(
        later["ledger"].as_array().unwrap().len(),
        load["ledger"].as_array().unwrap().len()
    );
    assert!(
        root(&grid, &["stop", "--all"])
            .expect_ok()
            .unwrap()
            .stdout
            .contains("nothing to stop")
    );
    let left = || Ok(files(&grid.area("BETA").join("lab")).is_empty().then_some(()));
    wait_for(PATIENCE, left).unwrap();
}

#[test]
fn a_load_keeps_to_quota_and_to_its_owner() {
    if !peers() {
        return;
    }
    let grid = lay();
    // 50 files fit; without deletion nothing more goes.
    let added = alice(
        &grid,
        &[
            "add",
            "--from",
            "ALPHA",
            "--to",
            "BETA",
            "--rate",
            "320 kb/s",
            "--cycle",
            "1s",
            "--comment",
            "quota \u{1b}[2J",
        ],
    );
    let id = added.expect_ok().unwrap().stdout.trim().to_owned();
    let load = until(&grid, &id, |load| load["held"] == "quota");
    check(&load);
    assert_eq!(number(&load, "injected_bytes"), 100_000);
    let text = root(&grid, &["show", &id]).expect_ok().unwrap().stdout;
    assert!(
        text.contains("quota") && !text.contains('\u{1b}'),
        "a remark of somebody else moves the cursor: {text}"
    );
    let other = root(
        &grid,
        &[
            "add",
            "--from",
            "BETA",
            "--to",
            "ALPHA",
            "--curve",
            "0s=0b/s,10s=1Gb/s",
            "--dry-run",
        ],
    );
    let other = other.expect_ok().unwrap().stdout.trim().to_owned();
    let refused = alice(&grid, &["stop", &other]);
    assert!(
        !refused.ok() && refused.stderr.contains("only its owner"),
        "{}",
        refused.stderr
    );
    let foreign = alice(
        &grid,
        &[
            "add",
            "--from",
            "BETA",
            "--to",
            "ALPHA",
            "--rate",
            "1Mb/s",
            "--scope",
            "lab",
            "--start",
            "2027-06-01T00:00:00Z",
        ],
    );
    assert!(
        !foreign.ok() && foreign.stderr.contains("alice can not do this"),
        "{}",
        foreign.stderr
    );
    // Alice's switch stops what is hers.
    assert!(
        alice(&grid, &["stop", "--all"])
            .expect_ok()
            .unwrap()
            .stdout
            .contains("1 load is stopped")
    );
    assert_ne!(shown(&grid, &other)["state"], "STOPPED");
}

#[test]
fn the_csv_of_dc_inject_is_read_as_it_is() {
    if !peers() {
        return;
    }
    let grid = lay();
    let file = grid.scratch().join("loads.csv");
    fs::write(
        &file,
        "src-rse,dest-rse,inject-rate,start,end,interval,fudge,max-injection,expiration-delay,rule-lifetime,big-first,dry-run,comments\n\
         ALPHA,BETA,0.064,,,1,0,0.2,0,60,True,False,T0 export\nBETA,ALPHA,200,2027-01-01 08:00,2027-01-01 10:00,900,0,0.2,1800,3600,,,\n",
    )
    .unwrap();
    let added = root(&grid, &["add", "--csv", "loads.csv"]).expect_ok().unwrap().stdout;
    let ids = added.lines().collect::<Vec<_>>();
    assert_eq!(ids.len(), 2);
    let load = until(&grid, ids[0], |load| number(load, "arrived_files") >= 8);
    check(&load);
    assert_eq!(
        (load["comment"].as_str(), load["scope"].as_str()),
        (Some("T0 export"), Some("user.root"))
    );
    let later = shown(&grid, ids[1]);
    assert_eq!(
        (later["state"].as_str(), later["start"].as_str()),
        (Some("WAITING"), Some("2027-01-01T08:00:00.000Z"))
    );

    fs::write(&file, "src,dst,mbps\nALPHA,BETTA,100\nALPHA,BETA,-1\nBETA,ALPHA,1e9\n").unwrap();
    let refused = root(&grid, &["add", "--csv", "loads.csv"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for expected in [
        "the file of loads loads.csv has 3 problems",
        "loads.csv:2: column 2 (dest-rse): the catalogue has no RSE \"BETTA\"; did you mean BETA?",
        "loads.csv:3: column 3 (inject-rate): -1 is out of bounds; give from 0.001 to 1000000 Mb/s",
        "loads.csv:4: column 3 (inject-rate): 1e9 is out of bounds; give from 0.001 to 1000000 Mb/s",
    ] {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let nothing = root(&grid, &["add", "--from", "ALPHA", "--to", "BETA"]);
    assert!(
        nothing.code == Some(2) && nothing.stderr.contains("--rate"),
        "{}",
        nothing.stderr
    );
}
