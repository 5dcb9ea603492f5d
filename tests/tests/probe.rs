//! `weir probe` says of an unknown endpoint what it is, what works there and how fast.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, net::Ipv4Addr, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use anyhow::Result;
use serde_json::Value;
use weir_tests::{
    Run, Services, StorageSettings, Xrootd, free_port, peers, run, visible_files, weir_binary, write_private,
};

struct Lab {
    services: Services,
}

impl Lab {
    fn probe(&self, url: &str, more: &[&str]) -> Result<Run> {
        let mut command = Command::new(weir_binary());
        command.args(["probe", url, "--size", "4 MB"]).args(more);
        // A token of an unknown issuer.
        for name in ["BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR", "WEIR_LOG"] {
            command.env_remove(name);
        }
        run(command.env("WEIR_CA_FILE", self.services.file("authority/ca.pem")))
    }

    fn probed(&self, url: &str, more: &[&str]) -> Result<Value> {
        let mut words = more.to_vec();
        words.push("--json");
        Ok(self.probe(url, &words)?.envelope()?["data"].clone())
    }
}

fn outcome<'a>(probed: &'a Value, name: &str) -> &'a str {
    let checks = probed["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    check.unwrap_or_else(|| panic!("no check {name}: {probed}"))["outcome"]
        .as_str()
        .unwrap()
}

#[test]
fn endpoints_are_known_for_what_they_are() -> Result<()> {
    // Wrong: somebody who was given a URL learns nothing of it, or the probe leaves files there.
    let lab = Lab {
        services: Services::start(&[StorageSettings::new("ALPHA")], "")?,
    };
    let (services, token) = (&lab.services, lab.services.file("token"));
    write_private(&token, &services.token("storage.read:/ storage.modify:/")?)?;
    let token = token.to_str().unwrap();
    let storage = services.storage("ALPHA").url.clone();
    let probed = lab.probed(&storage, &["--token-file", token])?;
    assert!(
        probed["kind"].as_str().unwrap().starts_with("storage (WebDAV"),
        "{probed}"
    );
    for name in [
        "name",
        "connection",
        "certificate",
        "clock",
        "strangers",
        "token",
        "write",
        "checksum",
        "read",
        "space",
        "delete",
    ] {
        assert_eq!(outcome(&probed, name), "ok", "{name}: {probed}");
    }
    let speeds = probed["speeds"].as_array().unwrap();
    assert_eq!(speeds.len(), 2, "{probed}");
    for speed in speeds {
        assert_eq!(speed["bytes"], 4_000_000);
        assert!(speed["rate_bps"].as_u64().unwrap() > 1_000_000, "{speed}");
    }
    assert!(
        speeds[1]["first_byte_s"].as_f64().unwrap() <= speeds[1]["took_s"].as_f64().unwrap(),
        "{probed}"
    );
    assert_eq!(visible_files(&services.root("ALPHA")), Vec::<PathBuf>::new());

    let alone = lab.probe(&storage, &[])?.expect_ok()?;
    assert!(
        alone.stdout.contains("– write") && alone.stdout.contains("--token-file"),
        "{}",
        alone.stdout
    );
    let issuer = lab.probed(services.issuer(), &[])?;
    let kind = format!("token issuer (OpenID Connect) {}", services.issuer());
    assert_eq!(issuer["kind"], kind.as_str(), "{issuer}");
    let transfer = lab.probed(&services.transfer.url, &[])?;
    assert!(
        transfer["kind"]
            .as_str()
            .unwrap()
            .starts_with("transfer service (FTS3 REST)"),
        "{transfer}"
    );
    let dead = lab.probe("https://127.0.9.8:9/", &[])?;
    assert_eq!(dead.code, Some(3), "{dead:?}");
    assert!(dead.stdout.contains("✗ connection"), "{dead:?}");
    let wrong = lab.probe("http://127.0.9.8/", &[])?;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("only https is asked"), "{wrong:?}");
    Ok(())
}

#[test]
fn a_server_of_the_root_protocol_is_known() -> Result<()> {
    // Wrong: an XRootD server is told from another program by nobody but its own client.
    if !peers() {
        return Ok(());
    }
    let lab = Lab {
        services: Services::start(&[StorageSettings::new("ALPHA")], "")?,
    };
    let folder = tempfile::Builder::new().prefix("weir-probe-").tempdir()?;
    // XRootD drops root and must still reach its own files below.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let (address, ports) = (Ipv4Addr::new(127, 0, 2, 9), (free_port()?, free_port()?));
    let _xrootd = Xrootd::start_anonymous(folder.path(), "xrootd", address, ports, None)?;
    let probed = lab.probed(&format!("root://{address}:{}//data", ports.1), &[])?;
    assert!(
        probed["kind"]
            .as_str()
            .unwrap()
            .starts_with("XRootD data server, protocol 5."),
        "{probed}"
    );
    let other = lab.services.storage("ALPHA").url.replace("https://", "root://");
    let other = lab.probe(&other, &[])?;
    assert_eq!(other.code, Some(3), "{other:?}");
    assert!(other.stdout.contains("does not speak the root protocol"), "{other:?}");
    Ok(())
}
