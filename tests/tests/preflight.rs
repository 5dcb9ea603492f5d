//! The findings at storage before a challenge begins: each fault with its cause and its remedy, and nothing is left there.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fmt::Write as _, fs, net::TcpListener, path::Path, process::Command, time::Duration};

use anyhow::Result;
use serde_json::Value;
use weir_tests::{
    Run, RunningGrid, Services, SteppingClock, StorageSettings, TWO_SITES, run, steadily, visible_files, weir_binary,
    write_private,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Everything that the storages of these tests grant.
const SCOPES: &str = "storage.read:/ storage.modify:/ storage.create:/";

/// External storages of a challenge: name, URL, and the files with the authority and the token.
struct Rses<'a>(Vec<(&'a str, String, &'a Path, &'a Path)>);

impl Rses<'_> {
    /// A challenge from and to each of them and an embedded one, and between neighbours.
    fn challenge(&self, authority: &Path) -> String {
        let mut text = format!(
            "name = \"sites\"\n[phases]\nhold = \"1 s\"\n[grid]\nname = \"sites\"\nauthority = \"{}\"\n[[grid.rse]]\nname = \"HERE\"\n",
            authority.display()
        );
        let mut rates = Vec::new();
        for (name, url, ca, token) in &self.0 {
            let (ca, token) = (ca.display(), token.display());
            text.push_str("[[grid.rse]]\n");
            for (key, value) in [
                ("name", (*name).to_owned()),
                ("url", url.clone()),
                ("ca", ca.to_string()),
                ("token_file", token.to_string()),
            ] {
                let _memory = writeln!(text, "{key} = \"{value}\"");
            }
            for (source, destination) in [("HERE", *name), (*name, "HERE")] {
                rates.push(format!(
                    "{{ source = \"{source}\", destination = \"{destination}\", rate = \"8 Mb/s\" }}"
                ));
            }
        }
        format!("{text}[[workload]]\nkind = \"rates\"\nrates = [{}]\n", rates.join(", "))
    }
}

/// Runs `weir` in a folder.
fn weir_in(folder: &Path, arguments: &[&str]) -> Result<Run> {
    run(Command::new(weir_binary())
        .args(arguments)
        .current_dir(folder)
        .env_remove("WEIR_LOG"))
}

/// The outcome of a check at a storage.
fn check<'a>(report: &'a Value, rse: &str, name: &str) -> &'a Value {
    let sites = report["sites"].as_array().unwrap();
    let site = sites.iter().find(|site| site["rse"] == rse).unwrap();
    let checks = site["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{rse} has no check {name}: {site}"))
}

#[test]
fn every_fault_of_a_storage_is_named_before_a_run_begins() -> Result<()> {
    // Wrong: a whole challenge runs against a dead port, a wrong token or a clock that is off, and blames missing files in the end.
    let mut services = Services::start(&["ALPHA", "BETA"].map(StorageSettings::new), "")?;
    let clock = SteppingClock::new()?;
    clock.step(90)?;
    let late = services.storage_mut("BETA");
    late.stop(LIMIT)?;
    late.environment = clock.environment();
    late.start()?;
    let stranger = RunningGrid::up(TWO_SITES)?;
    let dead = TcpListener::bind("127.0.9.7:0")?.local_addr()?;

    let folder = tempfile::tempdir()?;
    let (token, wrong, expired) = (
        folder.path().join("token"),
        folder.path().join("wrong"),
        folder.path().join("read"),
    );
    write_private(&token, &services.token(SCOPES)?)?;
    write_private(&wrong, "not.a.token")?;
    write_private(&expired, &services.token("storage.read:/")?)?;
    let ca = services.file("authority/ca.pem");
    let url = |name: &str| services.storage(name).url.clone();
    let rses = Rses(vec![
        ("GOOD", url("ALPHA"), &ca, &token),
        ("LATE", url("BETA"), &ca, &token),
        ("DEAD", format!("https://{dead}/x"), &ca, &token),
        ("NOBODY", "https://no-such-host.invalid/x".to_owned(), &ca, &token),
        ("STRANGER", stranger.rse_url("ALPHA"), &ca, &token),
        ("NOTOKEN", url("ALPHA") + "/a", &ca, &wrong),
        ("READONLY", url("ALPHA") + "/b", &ca, &expired),
    ]);
    fs::write(
        folder.path().join("sites.toml"),
        rses.challenge(&services.file("authority")),
    )?;

    let checked = weir_in(
        folder.path(),
        &["challenge", "check", "sites.toml", "--sites", "--json"],
    )?;
    assert_eq!(checked.code, Some(3), "{checked:?}");
    let envelope = checked.envelope()?;
    let report = &envelope["data"]["storage"];
    for (rse, name, cause) in [
        ("LATE", "clock", "s ahead of this machine's"),
        ("DEAD", "connection", "Connection refused"),
        ("NOBODY", "name", "has no address"),
        ("STRANGER", "certificate", "UnknownIssuer"),
        ("NOTOKEN", "write", "401"),
        ("READONLY", "write", "403"),
    ] {
        let found = check(report, rse, name);
        assert_eq!(found["outcome"], "failed", "{rse}: {found}");
        assert!(found["cause"].as_str().unwrap().contains(cause), "{rse}: {found}");
        assert!(!found["remedy"].as_str().unwrap().is_empty(), "{rse}: {found}");
    }
    for name in [
        "name",
        "connection",
        "certificate",
        "clock",
        "token",
        "write",
        "checksum",
        "read",
        "space",
        "delete",
    ] {
        assert_eq!(
            check(report, "GOOD", name)["outcome"],
            "ok",
            "{}",
            check(report, "GOOD", name)
        );
    }
    let copies = report["copies"].as_array().unwrap();
    let of = |source: &str, destination: &str| {
        let copy = copies
            .iter()
            .find(|copy| copy["source"] == source && copy["destination"] == destination);
        copy.map(|copy| copy["outcome"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("HERE", "GOOD").as_deref(), Some("ok"), "{report}");
    assert_eq!(of("GOOD", "HERE").as_deref(), Some("ok"), "{report}");
    assert_eq!(of("HERE", "DEAD").as_deref(), Some("skipped"), "{report}");
    let text = weir_in(folder.path(), &["challenge", "check", "sites.toml", "--sites"])?.stdout;
    assert!(
        text.contains("✗ connection") && text.contains("→ see that the storage runs"),
        "{text}"
    );
    assert!(!text.contains("not.a.token"), "{text}");

    // A run does not begin, and says the same.
    let refused = weir_in(folder.path(), &["challenge", "run", "sites.toml"])?;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.stderr.contains("checks of storage failed before the start"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("--preflight none"), "{refused:?}");
    assert_eq!(visible_files(&services.root("ALPHA")), Vec::<std::path::PathBuf>::new());
    assert_eq!(visible_files(&services.root("BETA")), Vec::<std::path::PathBuf>::new());
    Ok(())
}

#[test]
fn a_probe_runs_all_that_works() -> Result<()> {
    // Wrong: the preflight refuses storage that works, or its files are counted as the run's.
    let services = Services::start(&["ALPHA"].map(StorageSettings::new), "")?;
    let folder = tempfile::tempdir()?;
    let token = folder.path().join("token");
    write_private(&token, &services.token(SCOPES)?)?;
    let ca = services.file("authority/ca.pem");
    let rses = Rses(vec![("GOOD", services.storage("ALPHA").url.clone(), &ca, &token)]);
    fs::write(
        folder.path().join("sites.toml"),
        rses.challenge(&services.file("authority")),
    )?;
    let ran = steadily(|| weir_in(folder.path(), &["challenge", "run", "sites.toml"]))?.expect_ok()?;
    assert!(
        ran.stdout.contains("2 of 2 copies that were tried work"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains("failed to") && ran.stdout.contains("0 failed"),
        "{}",
        ran.stdout
    );
    assert_eq!(visible_files(&services.root("ALPHA")), Vec::<std::path::PathBuf>::new());
    let alone = "name = \"a\"\n[phases]\nhold = \"1 s\"\n[grid]\nname = \"a\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n\
        [[workload]]\nkind = \"rates\"\nrates = [{ source = \"A\", destination = \"B\", rate = \"1 Mb/s\" }]\n";
    fs::write(folder.path().join("alone.toml"), alone)?;
    let nothing = weir_in(folder.path(), &["challenge", "check", "alone.toml", "--sites"])?.expect_ok()?;
    assert!(
        nothing.stdout.contains("there was nothing to look at"),
        "{}",
        nothing.stdout
    );
    Ok(())
}
