//! WebDAV as RFC 4918 has it, judged by litmus, the field's conformance suite.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{collections::BTreeMap, fs, net::Ipv4Addr, process::Command, time::Duration};

use anyhow::{Context, Result};
use weir_tests::{Daemon, RunningGrid, free_port, peers, run, wait_for, weir_binary, with_header};

/// The warnings of litmus about every server.
const WARNED_OF: [(&str, &str); 2] = [
    // There are no locks: class 1 is what is claimed.
    ("basic: options", "WARNING"),
    // The part after a # never reaches the server's code: the HTTP library takes it off.
    ("basic: delete_fragment", "WARNING"),
];

/// Checks of litmus that an area without `dav = "full"` does not pass, each with the reason.
const REFUSED: [(&str, &str); 16] = [
    // Directories are not copied: a tree of petabytes is no matter of one request.
    ("copymove: copy_coll", "FAIL"),
    ("copymove: copy_shallow", "FAIL"),
    ("copymove: move_coll", "FAIL"),
    // No file takes the place of a directory that is not empty.
    ("copymove: copy_overwrite", "FAIL"),
    ("copymove: move", "FAIL"),
    // Properties that clients make up are not kept.
    ("props: propset", "FAIL"),
    ("props: propmanyns", "FAIL"),
    ("props: propget", "FAIL"),
    // litmus leaves these out after `propset`.
    ("props: propmove", "SKIPPED"),
    ("props: propdeletes", "SKIPPED"),
    ("props: propreplace", "SKIPPED"),
    ("props: propnullns", "SKIPPED"),
    ("props: prophighunicode", "SKIPPED"),
    ("props: propremoveset", "SKIPPED"),
    ("props: propsetremove", "SKIPPED"),
    ("props: propvalnspace", "SKIPPED"),
];

/// An endpoint without TLS, on loopback, and before it a door that brings a token to every request.
struct Lab {
    door: String,
    _grid: RunningGrid,
    _daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Lab {
    fn up() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-webdav-").tempdir()?;
        let grid = RunningGrid::up("name = \"webdav\"\n[[rse]]\nname = \"UNUSED\"\n")?;
        let issuer = grid.description["issuer"]["url"]
            .as_str()
            .context("no issuer")?
            .to_owned();
        let environment = grid.env()?;
        let value = |wanted: &str| {
            let found = environment.iter().find(|(name, _)| name == wanted);
            found
                .map(|(_, value)| value.clone())
                .with_context(|| format!("no {wanted}"))
        };
        let (address, port) = (Ipv4Addr::new(127, 0, 4, 1), free_port()?);
        let configuration = format!(
            "listen = \"{address}:{port}\"\n[trust]\nfiles = [\"{}\"]\n[[issuer]]\nurl = \"{issuer}\"\naudiences = {:?}\n\
             [[area]]\nname = \"data\"\nprefix = \"/data\"\nroot = \"data\"\ncreate_root = true\ndurability = \"cache\"\n\
             [[area]]\nname = \"full\"\nprefix = \"/full\"\nroot = \"full\"\ncreate_root = true\ndurability = \"cache\"\ndav = \"full\"\n",
            value("CURL_CA_BUNDLE")?,
            grid.audiences(),
        );
        fs::write(folder.path().join("storage.toml"), configuration)?;
        let mut command = Command::new(weir_binary());
        command
            .args(["serve", "storage", "--config", "storage.toml"])
            .current_dir(folder.path());
        let daemon = Daemon::start(command, &folder.path().join("storage.log"))?;
        wait_for(Duration::from_secs(30), || {
            Ok(std::net::TcpStream::connect((address, port)).ok())
        })
        .with_context(|| daemon.said())?;
        let token = format!("Authorization: Bearer {}", value("BEARER_TOKEN")?);
        let door = with_header(address.into(), (address, port).into(), &token)?;
        Ok(Self {
            door: format!("http://{door}"),
            _grid: grid,
            _daemon: daemon,
            folder,
        })
    }
}

/// The name of a test in a report of litmus, `basic: put_get`, and how it ended.
fn outcomes(text: &str) -> BTreeMap<String, String> {
    let mut suite = "";
    let mut found = BTreeMap::new();
    for line in text.split(['\n', '\r']) {
        if let Some(name) = line.strip_prefix("-> running `") {
            suite = name.split('\'').next().unwrap_or_default();
        }
        // " 5. put_get............... pass"
        let Some((number, rest)) = line.trim().split_once(". ") else {
            continue;
        };
        if number.parse::<u32>().is_err() {
            continue;
        }
        let Some((name, outcome)) = rest.split_once("..") else {
            continue;
        };
        let outcome = outcome.trim_matches(['.', ' ']);
        found.insert(format!("{suite}: {name}"), outcome.to_owned());
    }
    found
}

/// Runs litmus against an area; tells of what ended otherwise than expected.
fn litmus(lab: &Lab, area: &str, refused: &[(&str, &str)]) -> String {
    let mut command = Command::new("litmus");
    command
        .args(["-k", &format!("{}/{area}/", lab.door)])
        .env("TESTS", "basic copymove props http")
        .current_dir(lab.folder.path());
    let ran = run(&mut command).unwrap();
    let found = outcomes(&ran.stdout);
    let count = |suite: &str| found.keys().filter(|name| name.starts_with(suite)).count();
    let counts = ["basic: ", "copymove: ", "props: ", "http: "].map(count);
    assert_eq!(counts, [16, 13, 21, 4], "{}", ran.stdout);
    let expected: BTreeMap<&str, &str> = WARNED_OF.iter().chain(refused).copied().collect();
    let mut wrong = Vec::new();
    for (name, outcome) in &found {
        let fits = match expected.get(name.as_str()) {
            Some(expected) => outcome.starts_with(expected),
            None => outcome.starts_with("pass"),
        };
        if !fits {
            wrong.push(format!("{name}: {outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n\n{}", wrong.join("\n"), ran.stdout);
    ran.stdout
}

/// A client that was written against the standard meets a server that is not.
#[test]
fn litmus_finds_what_is_offered_as_the_standard_has_it() {
    if !peers() {
        return;
    }
    let lab = Lab::up().unwrap();
    litmus(&lab, "data", &REFUSED);
    let told = litmus(&lab, "full", &[]);
    // Some tests have the same name, and run several times.
    for all in [
        "copymove': of 13 tests run: 13 passed",
        "props': of 30 tests run: 30 passed",
    ] {
        assert!(told.contains(all), "{told}");
    }
}
