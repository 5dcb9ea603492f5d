//! The catalogue, as the unmodified client of Rucio uses it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use tempfile::TempDir;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, free_port, peers, run, wait_for, weir_binary, write_private};

const PATIENCE: Duration = Duration::from_secs(30);

/// A catalogue of this test, over TLS, and a home for clients.
struct Scene {
    folder: TempDir,
    port: u16,
}

impl Scene {
    fn lay() -> Self {
        let scene = Self {
            folder: tempfile::tempdir().unwrap(),
            port: free_port().unwrap(),
        };
        let authority = CertificateAuthority::create(&scene.file("ca")).unwrap();
        let own = San::Ip(Ipv4Addr::LOCALHOST.into());
        write_identity(
            &authority.issue(&[own], "catalog").unwrap(),
            scene.folder.path(),
            "catalog",
        )
        .unwrap();
        write_private(&scene.file("password"), "correct horse\n").unwrap();
        let port = scene.port;
        let config = format!(
            "listen = \"127.0.0.1:{port}\"\nstore = \"catalog.db\"\n[tls]\ncertificate = \"catalog.pem\"\nkey = \"catalog.key\"\n\
             [root]\nuser = \"admin\"\npassword_file = \"password\"\n"
        );
        fs::write(scene.file("catalog.toml"), config).unwrap();
        fs::create_dir(scene.file("etc")).unwrap();
        let client = format!(
            "[client]\nrucio_host = https://127.0.0.1:{port}\nauth_host = https://127.0.0.1:{port}\nauth_type = userpass\nusername = admin\n\
             password = correct horse\naccount = root\nca_cert = {}\nauth_token_file_path = {}\n",
            authority.file().display(),
            scene.file("token").display()
        );
        write_private(&scene.file("etc/rucio.cfg"), &client).unwrap();
        scene
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self) -> Daemon {
        let mut weir = Command::new(weir_binary());
        weir.args(["serve", "catalog", "--config"])
            .arg(self.file("catalog.toml"));
        let mut daemon = Daemon::start(weir, &self.file("log")).unwrap();
        let is_ready = || {
            anyhow::ensure!(daemon.ended()?.is_none(), "the catalogue ended: {}", daemon.said());
            Ok(daemon.said().contains("catalog is ready at").then_some(()))
        };
        wait_for(PATIENCE, is_ready).unwrap();
        daemon
    }

    fn client(&self, program: &str) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new(root.join(".peers/bin").join(program));
        command
            .env("HOME", self.folder.path())
            .env("RUCIO_HOME", self.folder.path())
            .env("RUCIO_CONFIG", self.file("etc/rucio.cfg"))
            .env("PYTHONWARNINGS", "ignore")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.folder.path());
        command
    }
}

#[test]
fn rucios_client_takes_the_catalogue_for_rucio() {
    if !peers() {
        return;
    }
    let scene = Scene::lay();
    let mut daemon = scene.start();
    let said = |arguments: &[&str]| {
        let told = run(scene.client("rucio").args(arguments)).unwrap();
        assert!(told.ok(), "{arguments:?}: {}\n{}", told.stdout, told.stderr);
        told.stdout
    };
    assert_eq!(said(&["ping"]).trim(), "41.5.1");
    let me = said(&["whoami"]);
    assert!(me.contains("root") && me.contains("ACTIVE"), "{me}");

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rucio/client.py");
    let told = run(scene.client("python").arg(script)).unwrap();
    assert!(told.ok(), "{}\n{}\n{}", told.stdout, told.stderr, daemon.said());

    // As a person types it.
    for command in [
        "account add --email bob@example.org bob USER",
        "scope add --account bob user.bob",
        "rse add DESY",
        "rse attribute set DESY --key tier --value 1",
    ] {
        said(&command.split(' ').collect::<Vec<_>>());
    }
    assert!(said(&["scope", "list"]).contains("user.bob"));
    assert_eq!(said(&["rse", "list", "--rses", "tier=1"]).trim(), "DESY");

    // Killed at any moment, it goes on with all that it acknowledged, and with the sessions of its clients.
    daemon.kill().unwrap();
    let mut daemon = scene.start();
    assert!(said(&["whoami"]).contains("root"));
    assert!(said(&["rse", "list"]).contains("RAL"));
    let log = daemon.said();
    for secret in ["correct horse", "a secret"] {
        assert!(!log.contains(secret), "{log}");
    }
    daemon.signal(Signal::HUP).unwrap();
    let heard = || {
        Ok(daemon
            .said()
            .contains("configuration and files read again")
            .then_some(()))
    };
    wait_for(PATIENCE, heard).unwrap();
    assert_eq!(daemon.terminate(PATIENCE).unwrap(), Some(0));
}

#[test]
fn a_password_that_others_may_read_is_refused() {
    let scene = Scene::lay();
    fs::set_permissions(scene.file("password"), fs::Permissions::from_mode(0o644)).unwrap();
    let mut weir = Command::new(weir_binary());
    weir.args(["serve", "catalog", "--config"])
        .arg(scene.file("catalog.toml"));
    let told = run(&mut weir).unwrap();
    assert!(
        !told.ok() && told.stderr.contains("set its mode to 0600"),
        "{}",
        told.stderr
    );
    assert!(told.stderr.contains("password"), "{}", told.stderr);
}
