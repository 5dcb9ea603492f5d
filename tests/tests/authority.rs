//! `weir authority`: certificates that other people's programs take.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use anyhow::Result;
use weir_tests::{Run, run, weir_binary};

fn weir_in(folder: &Path, arguments: &[&str]) -> Result<Run> {
    run(Command::new(weir_binary())
        .args(arguments)
        .current_dir(folder)
        .env_remove("WEIR_LOG"))
}

fn openssl(folder: &Path, arguments: &[&str]) -> Result<Run> {
    run(Command::new("openssl").args(arguments).current_dir(folder))
}

#[test]
fn a_laboratory_makes_certificates_that_openssl_trusts() -> Result<()> {
    // Wrong: a machine without an authority cannot serve, or a key is readable for others, or a certificate names another host.
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let none = weir_in(folder, &["authority", "host", "lab", "se.example.org"])?;
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("weir authority new lab"), "{none:?}");
    weir_in(folder, &["authority", "new", "lab"])?.expect_ok()?;
    let twice = weir_in(folder, &["authority", "new", "lab"])?;
    assert_eq!(twice.code, Some(2), "{twice:?}");
    weir_in(folder, &["authority", "host", "lab", "se.example.org", "192.0.2.7"])?.expect_ok()?;
    weir_in(folder, &["authority", "user", "lab", "Ada Lovelace", "--out", "users"])?.expect_ok()?;
    for key in ["lab/ca.key", "se.example.org.key", "users/Ada-Lovelace.key"] {
        let mode = fs::metadata(folder.join(key))?.permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    assert_eq!(fs::metadata(folder.join("lab"))?.permissions().mode() & 0o777, 0o700);
    for (purpose, file) in [
        ("sslserver", "se.example.org.pem"),
        ("sslclient", "users/Ada-Lovelace.pem"),
    ] {
        let verified = openssl(
            folder,
            &["verify", "-purpose", purpose, "-CApath", "lab/certificates", file],
        )?;
        verified.expect_ok()?;
    }
    let host = [
        "verify",
        "-CAfile",
        "lab/ca.pem",
        "-verify_hostname",
        "se.example.org",
        "se.example.org.pem",
    ];
    openssl(folder, &host)?.expect_ok()?;
    let address = [
        "verify",
        "-CAfile",
        "lab/ca.pem",
        "-verify_ip",
        "192.0.2.7",
        "se.example.org.pem",
    ];
    openssl(folder, &address)?.expect_ok()?;
    let other = [
        "verify",
        "-CAfile",
        "lab/ca.pem",
        "-verify_hostname",
        "other.example.org",
        "se.example.org.pem",
    ];
    assert!(!openssl(folder, &other)?.ok());
    let again = weir_in(folder, &["authority", "host", "lab", "se.example.org"])?;
    assert!(again.stderr.contains("--force"), "{again:?}");
    weir_in(folder, &["authority", "host", "lab", "se.example.org", "--force"])?.expect_ok()?;
    for bad in ["no such name", "../elsewhere", "https://se.example.org", ""] {
        let refused = weir_in(folder, &["authority", "host", "lab", bad])?;
        assert_eq!(refused.code, Some(2), "{bad}: {refused:?}");
    }
    Ok(())
}
