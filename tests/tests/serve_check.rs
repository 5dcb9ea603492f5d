//! `weir serve SERVICE --check`: all faults are reported before a service starts, and nothing is created.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command, time::Duration};

use anyhow::Result;
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, Run, Services, StorageSettings, free_port, run, wait_for, weir_binary};

fn check(folder: &Path, service: &str, config: &Path, json: bool) -> Result<Run> {
    let mut command = Command::new(weir_binary());
    command.args(["serve", service, "--check", "--config"]).arg(config);
    run(command.args(json.then_some("--json")).current_dir(folder))
}

/// Names and outcomes of checks.
fn outcomes(run: &Run) -> Vec<(String, Value)> {
    let envelope = run.envelope().unwrap();
    let checks = envelope["data"]["checks"].as_array().unwrap();
    let pair = |check: &Value| (check["name"].as_str().unwrap().to_owned(), check.clone());
    checks.iter().map(pair).collect()
}

fn failed(run: &Run) -> Vec<String> {
    let all = outcomes(run).into_iter();
    let failed = all.filter(|(_, check)| check["outcome"] == "failed");
    failed.map(|(name, _)| name).collect()
}

#[test]
fn services_that_run_pass() -> Result<()> {
    // Wrong: an operator learns to ignore what the check says.
    let services = Services::start(&[StorageSettings::new("ALPHA")], "")?;
    for (service, file, names) in [
        (
            "storage",
            "ALPHA.toml",
            &[
                "certificate",
                "certificate name",
                "key",
                "key pair",
                "trust",
                "area ALPHA root",
            ][..],
        ),
        (
            "issuer",
            "issuer.toml",
            &["certificate", "key_directory", "secret of client tester"],
        ),
        ("transfer", "transfer.toml", &["certificate", "trust", "store"]),
    ] {
        let checked = check(&services.file(""), service, &services.file(file), true)?;
        assert_eq!(checked.code, Some(0), "{service}: {checked:?}");
        let found = outcomes(&checked);
        for name in names {
            assert!(
                found.iter().any(|(found, _)| found == name),
                "{service} {name}: {found:?}"
            );
        }
        let listen = found.iter().find(|(name, _)| name == "listen").unwrap();
        assert_eq!(listen.1["outcome"], "warning", "it runs: {listen:?}");
        if service != "issuer" {
            let issuer = found
                .iter()
                .find(|(name, _)| name.starts_with("issuer https://"))
                .unwrap();
            assert_eq!(issuer.1["detail"], "2 keys", "{issuer:?}");
            assert!(
                found.iter().any(|(name, _)| name.starts_with("clock of https://")),
                "{found:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn everything_that_is_wrong_is_named_at_once() -> Result<()> {
    // Wrong: one start for each fault, a disk that is not mounted filled at its mount point, a certificate that no client takes.
    let folder = tempfile::tempdir()?;
    let here = folder.path();
    let authority = CertificateAuthority::create(&here.join("ca"))?;
    for name in ["one", "other"] {
        let identity = authority.issue(&[San::from("se.example.org")], name)?;
        write_identity(&identity, here, name)?;
    }
    fs::set_permissions(here.join("other.key"), fs::Permissions::from_mode(0o644))?;
    fs::create_dir(here.join("disk"))?;
    let port = free_port()?;
    let text = format!(
        "listen = \"127.0.0.1:{port}\"\nurl = \"https://other.example.org:8443\"\naccess_log = \"missing/access.jsonl\"\n\
         [tls]\ncertificate = \"one.pem\"\nkey = \"other.key\"\n[trust]\nfiles = [\"ca/ca.pem\"]\n\
         [[issuer]]\nurl = \"https://127.0.9.9:9\"\n\
         [[area]]\nname = \"gone\"\nprefix = \"/gone\"\nroot = \"not/there\"\n\
         [[area]]\nname = \"off\"\nprefix = \"/off\"\nroot = \"disk/off\"\nmount = \"disk\"\ncreate_root = true\n"
    );
    let config = here.join("storage.toml");
    fs::write(&config, text)?;
    let checked = check(here, "storage", &config, true)?;
    assert_eq!(checked.code, Some(3), "{checked:?}");
    let expected = [
        "certificate name",
        "key pair",
        "issuer https://127.0.9.9:9",
        "area gone root",
        "area off mount",
        "access_log",
    ];
    assert_eq!(failed(&checked), expected, "{checked:?}");
    let found = outcomes(&checked);
    let key = &found.iter().find(|(name, _)| name == "key").unwrap().1;
    assert!(key["detail"].as_str().unwrap().contains("0644"), "{key}");
    for (_, check) in found.iter().filter(|(_, check)| check["outcome"] == "failed") {
        assert!(!check["remedy"].as_str().unwrap().is_empty(), "{check}");
    }
    assert!(
        !here.join("not").exists() && !here.join("disk/off").exists(),
        "something was made"
    );
    let text = check(here, "storage", &config, false)?.stdout;
    for part in [
        "✗ key pair",
        "other.key does not belong to the certificate",
        "→ ",
        "6 failed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // A start ends at the first of them, and makes no root either.
    for (area, word) in [("gone", "create_root = true"), ("off", "nothing is mounted there")] {
        let alone = here.join(format!("{area}.toml"));
        let table = match area {
            "gone" => "[[area]]\nname = \"gone\"\nprefix = \"/\"\nroot = \"not/there\"\n",
            _ => {
                "[[area]]\nname = \"off\"\nprefix = \"/\"\nroot = \"disk/off\"\nmount = \"disk\"\ncreate_root = true\n"
            }
        };
        fs::write(&alone, format!("listen = \"127.0.0.1:{port}\"\n{table}"))?;
        let started = run(Command::new(weir_binary())
            .args(["serve", "storage", "--config"])
            .arg(&alone))?;
        assert_eq!(started.code, Some(3), "{started:?}");
        assert!(started.stderr.contains(word), "{started:?}");
    }
    assert!(
        !here.join("not").exists() && !here.join("disk/off").exists(),
        "something was made"
    );
    Ok(())
}

#[test]
fn faults_of_a_certificate_are_in_the_log_of_a_start() -> Result<()> {
    // Wrong: "storage is ready", and each client refuses its certificate.
    let folder = tempfile::tempdir()?;
    let here = folder.path();
    let authority = CertificateAuthority::create(&here.join("ca"))?;
    let identity = authority.issue(&[San::from("se.example.org")], "one")?;
    write_identity(&identity, here, "one")?;
    fs::set_permissions(here.join("one.key"), fs::Permissions::from_mode(0o644))?;
    fs::create_dir(here.join("data"))?;
    let text = format!(
        "listen = \"127.0.0.1:{}\"\nurl = \"https://other.example.org:8443\"\n[tls]\ncertificate = \"one.pem\"\nkey = \"one.key\"\n\
         [[area]]\nname = \"data\"\nprefix = \"/\"\nroot = \"data\"\n",
        free_port()?
    );
    fs::write(here.join("storage.toml"), text)?;
    let mut command = Command::new(weir_binary());
    command
        .args(["serve", "storage", "--config"])
        .arg(here.join("storage.toml"));
    command.env_remove("WEIR_LOG");
    let service = Daemon::start(command, &here.join("log"))?;
    wait_for(Duration::from_secs(60), || {
        Ok(service.said().contains("is ready").then_some(()))
    })?;
    for part in ["does not name other.example.org", "mode is 0644", "chmod 600"] {
        assert!(service.said().contains(part), "{part}: {}", service.said());
    }
    Ok(())
}
