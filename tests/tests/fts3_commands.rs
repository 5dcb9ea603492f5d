//! The fts3 client's command line and, with a certificate, its Python bindings against a transfer service. What they must say
//! is said in Python, in `tests/fts3/test_commands.py`; here are the services, and the proof that all of it ran.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, process::Command};

use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{GridSecurity, Services, StorageSettings, peers, run};

const CERTIFICATES: &str = r#"
[x509]
authorities = "grid-security/certificates"
vomsdir = "grid-security/vomsdir"
[[admin]]
fqan = "/dune/Role=production"
[[admin]]
subject = "tester"
[copy]
stall_timeout = "60s"
"#;

#[test]
fn the_command_line_works_with_token_and_certificate() {
    // Operators and scripts would need another client.
    if !peers() {
        return;
    }
    let storages = [StorageSettings::new("alpha"), StorageSettings::new("beta")];
    let security = |folder: &Path| {
        let security = GridSecurity::create(&folder.join("grid-security"))?;
        for (name, subject, serial) in [
            ("ada", "Ada Lovelace", "241"),
            ("bob", "Bob", "242"),
            ("root", "Root", "243"),
        ] {
            security.certify(name, &format!("/DC=xy/DC=grid/CN={subject}"), serial)?;
        }
        let member = "/dune/Role=NULL/Capability=NULL";
        security.proxy("ada", "ada.proxy", &[member, "/dune/prod/Role=pilot/Capability=NULL"])?;
        security.proxy("bob", "bob.proxy", &[member])?;
        security.proxy("root", "root.proxy", &[member, "/dune/Role=production/Capability=NULL"])?;
        Ok(())
    };
    let services = Services::start_with(&storages, CERTIFICATES, security).unwrap();
    let authority = CertificateAuthority::load(&services.file("authority")).unwrap();
    let identity = authority.issue(&[San::from("127.0.0.1")], "stub").unwrap();
    write_identity(&identity, &services.file("stub"), "stub").unwrap();
    let token = services
        .token("storage.read:/ storage.create:/ storage.modify:/")
        .unwrap();
    let token_file = services.file("access.token");
    weir_tests::write_private(&token_file, &token).unwrap();
    let source = format!("{}/file", services.storage("alpha").url);
    services.put(b"what is to be moved", &source).unwrap();

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("fts3/test_commands.py");
    let mut python = Command::new(root.join("../.peers/bin/python"));
    for ambient in ["X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY", "BEARER_TOKEN"] {
        python.env_remove(ambient);
    }
    python
        .arg(&script)
        .current_dir(services.file(""))
        .env("HOME", services.file(""))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("X509_CERT_DIR", authority.directory())
        .env("FTS_ENDPOINT", &services.transfer.url)
        .env("ALPHA", &services.storage("alpha").url)
        .env("BETA", &services.storage("beta").url);
    let told = run(&mut python).unwrap();
    let log = services.transfer.said_last();
    assert!(told.ok(), "{}{}\n{log}", told.stdout, told.stderr);
    let cases = fs::read_to_string(script).unwrap().matches("\n    def test_").count();
    assert!(
        cases > 0 && told.stderr.contains(&format!("Ran {cases} tests")),
        "{}",
        told.stderr
    );
    assert!(!told.stderr.contains("skipped"), "{}", told.stderr);
    // Neither the token nor a key is in anything that the service said.
    let said = services.transfer.said();
    assert!(!said.contains(&token) && !said.contains("PRIVATE KEY"), "{said}");
}
