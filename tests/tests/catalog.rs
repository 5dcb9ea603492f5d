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

/// Asks the catalogue by curl, as an account: the status and the body.
fn asked(scene: &Scene, token: &str, (method, path): (&str, &str), body: &serde_json::Value) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-m", "20", "-X", method, "-w", "\n%{http_code}", "--cacert"])
        .arg(scene.file("ca/ca.pem"))
        .args(["-H", &format!("X-Rucio-Auth-Token: {token}"), "-d", &body.to_string()])
        .arg(format!("https://127.0.0.1:{}{path}", scene.port));
    let told = run(&mut curl).unwrap();
    let (body, status) = told.stdout.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

/// The token of an account, by user name and password.
fn logged_in(scene: &Scene, account: &str, (user, password): (&str, &str)) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-m", "20", "-o", "/dev/null", "-D", "-", "--cacert"])
        .arg(scene.file("ca/ca.pem"))
        .args(["-H", &format!("X-Rucio-Account: {account}")])
        .args([
            "-H",
            &format!("X-Rucio-Username: {user}"),
            "-H",
            &format!("X-Rucio-Password: {password}"),
        ])
        .arg(format!("https://127.0.0.1:{}/auth/userpass", scene.port));
    let told = run(&mut curl).unwrap().stdout;
    let line = told.lines().find_map(|line| {
        line.to_lowercase()
            .starts_with("x-rucio-auth-token:")
            .then(|| line.to_owned())
    });
    line.unwrap_or_else(|| panic!("{told}"))
        .split_once(':')
        .unwrap()
        .1
        .trim()
        .to_owned()
}

// An ordinary account would aim the catalogue's own deletions and transfers at files of others.
#[test]
#[expect(clippy::too_many_lines, reason = "a test tells one story")]
fn a_pfn_is_a_file_of_its_rse_and_belongs_to_one_did() {
    use serde_json::{Value, json};
    let scene = Scene::lay();
    let mut daemon = scene.start();
    let root = logged_in(&scene, "root", ("admin", "correct horse"));
    let made = |path: &str, body: Value| {
        let (status, said) = asked(&scene, &root, ("POST", path), &body);
        assert!(status < 300, "{path}: {status} {said}");
    };
    for account in ["u1", "u2"] {
        made(
            &format!("/accounts/{account}"),
            json!({"type": "USER", "email": "u@example.org"}),
        );
        made(&format!("/accounts/{account}/scopes/user.{account}"), Value::Null);
        let identity =
            json!({"identity": account, "authtype": "USERPASS", "email": "u@example.org", "password": "a good one"});
        made(&format!("/accounts/{account}/identities"), identity);
    }
    made(&format!("/accounts/{}/scopes/adm", "root"), Value::Null);
    let protocol = |prefix: &str| {
        json!({"hostname": "se.example", "port": 8443, "prefix": prefix, "impl": "rucio.rse.protocols.gfal.Default",
            "domains": {"wan": {"read": 1, "write": 1, "delete": 1}, "lan": {}}})
    };
    for (rse, deterministic, prefix) in [("ND", false, "/data/nd/"), ("DET", true, "/data/det/")] {
        made(&format!("/rses/{rse}"), json!({"deterministic": deterministic}));
        made(&format!("/rses/{rse}/protocols/davs"), protocol(prefix));
    }
    let file = |did: &str, pfn: Option<&str>| {
        let (scope, name) = did.split_once(':').unwrap();
        let mut file = json!({"scope": scope, "name": name, "bytes": 10, "adler32": "0a1b2c3d"});
        if let Some(pfn) = pfn {
            file["pfn"] = pfn.into();
        }
        file
    };
    let added = |token: &str, rse: &str, did: &str, pfn: Option<&str>| {
        asked(
            &scene,
            token,
            ("POST", "/replicas"),
            &json!({"rse": rse, "files": [file(did, pfn)]}),
        )
    };
    let place = "davs://se.example:8443/data/nd";
    let victim = format!("{place}/victim");
    assert_eq!(added(&root, "ND", "adm:v2", Some(&victim)).0, 201);

    // A person may not choose; with the attribute the path of another file is still refused.
    let u1 = logged_in(&scene, "u1", ("u1", "a good one"));
    let (status, said) = added(&u1, "ND", "user.u1:q", Some(&format!("{place}/free")));
    assert!(status == 401 && said.contains("register_pfn"), "{status} {said}");
    made(
        "/accounts/u1/attr/register_pfn",
        json!({"key": "register_pfn", "value": "true"}),
    );
    let (status, said) = added(&u1, "ND", "user.u1:q2", Some(&victim));
    assert!(
        status == 409 && said.contains("Duplicate") && said.contains("adm:v2"),
        "{status} {said}"
    );
    for pfn in [
        "victim",
        "../outside",
        "https://other:8443/data/nd/x",
        "https://se.example:1/data/nd/x",
        "https://se.example:8443/data/nd/%2e%2e/x",
        "https://se.example:8443/data/nd",
        "https://se.example:8443/data/nd/a//b",
        "https://se.example:8443/data/x",
    ] {
        let (status, said) = added(&u1, "ND", "user.u1:q3", Some(pfn));
        assert!(status == 400 && said.contains("InvalidPath"), "{pfn}: {status} {said}");
    }
    // As Rucio's client writes it, and as it is answered.
    assert_eq!(
        added(&u1, "ND", "user.u1:ok", Some("https://se.example:8443/data/nd/ok")).0,
        201
    );
    let listed = asked(
        &scene,
        &u1,
        ("POST", "/replicas/list"),
        &json!({"dids": [{"scope": "user.u1", "name": "ok"}]}),
    )
    .1;
    assert!(listed.contains("davs://se.example:8443/data/nd/ok\""), "{listed}");

    // With a dataset, too: the scope of a file is its owner's, and a path is checked, where paths follow from DIDs as well.
    let u2 = logged_in(&scene, "u2", ("u2", "a good one"));
    let attached = |rse: &str, did: &str, pfn: Option<&str>| {
        let dataset = json!([{"scope": "user.u2", "name": format!("d-{rse}"), "type": "DATASET", "rse": rse, "dids": [file(did, pfn)]}]);
        asked(&scene, &u2, ("POST", "/dids"), &dataset)
    };
    assert_eq!(attached("ND", "user.u2:a", Some(&victim)).0, 401);
    assert_eq!(attached("DET", "user.u1:b", None).0, 401, "somebody else's scope");
    let (status, said) = attached("DET", "user.u2:c", Some("davs://se.example:8443/data/det/adm/00/00/x"));
    assert!(status == 400 && said.contains("InvalidPath"), "{status} {said}");
    assert_eq!(attached("DET", "user.u2:c", None).0, 201);

    assert_eq!(daemon.terminate(PATIENCE).unwrap(), Some(0));
    let mut check = Command::new(weir_binary());
    let told = run(check
        .args(["catalog", "check", "--config"])
        .arg(scene.file("catalog.toml")))
    .unwrap();
    assert!(
        told.ok() && told.stdout.contains("every path belongs to one file"),
        "{}{}",
        told.stdout,
        told.stderr
    );
}
