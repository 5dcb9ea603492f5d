//! The certificate authority as other programs see it: `openssl` reads its certificates, finds them by their hashed names,
//! and takes the chain under strict rules.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use weir_auth::ca::{CertificateAuthority, San, hashed_directory, read_certificates, subject_hash, write_identity};

/// Says that a part of a test is not run, and why, to `make test`, which counts such parts.
fn leave_out(reason: &str) {
    if let Some(list) = std::env::var_os("WEIR_LEFT_OUT") {
        let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{reason}").unwrap();
    }
}

/// Runs openssl; none if it is not installed (it is wherever the other programs of these tests are).
fn openssl(arguments: &[&str]) -> Option<String> {
    let output = match Command::new("openssl").args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            leave_out("there is no openssl");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "openssl {arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text.trim().to_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn our_hash(pem: &Path) -> String {
    let certificates = read_certificates(&fs::read_to_string(pem).unwrap(), pem).unwrap();
    format!("{:08x}", subject_hash(&certificates[0]).unwrap())
}

#[test]
fn the_hashed_directory_is_found_by_openssl() {
    // gfal, davix, curl and XRootD would trust nobody.
    let dir = tempfile::tempdir().unwrap();
    let ca = CertificateAuthority::create(dir.path()).unwrap();
    let names: Vec<San> = vec![
        "127.0.1.7".into(),
        "::1".into(),
        "storage.example".into(),
        "localhost".into(),
    ];
    let (chain, key) = write_identity(&ca.issue(&names, "storage").unwrap(), dir.path(), "storage").unwrap();
    assert_eq!(fs::read_dir(ca.directory()).unwrap().count(), 1);
    let hashed = ca.directory().join(format!("{}.0", our_hash(&ca.file())));
    assert!(hashed.is_file());
    for secret in [&key, &dir.path().join("ca.key")] {
        assert_eq!(
            fs::metadata(secret).unwrap().permissions().mode() & 0o777,
            0o600,
            "{secret:?}"
        );
    }
    let Some(expected) = openssl(&["x509", "-subject_hash", "-noout", "-in", text(&ca.file())]) else {
        return;
    };
    assert_eq!(our_hash(&ca.file()), expected);
    let directory = ca.directory();
    let verify = [
        "verify",
        "-no-CAfile",
        "-no-CAstore",
        "-x509_strict",
        "-purpose",
        "sslserver",
        "-CApath",
        text(&directory),
    ];
    for name in [
        ["-verify_ip", "127.0.1.7"],
        ["-verify_ip", "::1"],
        ["-verify_hostname", "storage.example"],
    ] {
        openssl(&[&verify[..], &name, &[text(&chain)]].concat());
    }
    let shown = openssl(&[
        "x509",
        "-noout",
        "-ext",
        "basicConstraints,keyUsage,subjectKeyIdentifier,authorityKeyIdentifier",
        "-in",
        text(&ca.file()),
    ])
    .unwrap();
    for expected in [
        "Basic Constraints: critical",
        "CA:TRUE",
        "Key Usage: critical",
        "Certificate Sign",
        "Subject Key Identifier",
        "Authority Key Identifier",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let shown = openssl(&[
        "x509",
        "-noout",
        "-ext",
        "basicConstraints,subjectKeyIdentifier,authorityKeyIdentifier,extendedKeyUsage",
        "-in",
        text(&chain),
    ])
    .unwrap();
    for expected in [
        "CA:FALSE",
        "Subject Key Identifier",
        "Authority Key Identifier",
        "Server Authentication",
        "Client Authentication",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
}

#[test]
fn subjects_of_every_kind_hash_as_openssl_does() {
    // Authorities of other grids, put into our directory, would not be found.
    let dir = tempfile::tempdir().unwrap();
    for (number, subject) in [
        "/DC=ch/DC=cern/CN=CERN Root Certification Authority 2",
        "/C=DE/O=  Some   Where /CN=MiXeD Case",
        "/C=FR/ST=Île-de-France/O=Éducation Nationale/CN=Ünïcode Ça",
        "/O=Grid/emailAddress=someone@Example.ORG",
        "/CN=a/CN=b+OU=second+O=third",
        "/CN=x",
        "/O=An organisation whose name is nearly sixty-four characters long+OU=A unit of it, together they make DER write two bytes of length/CN=x",
    ]
    .iter()
    .enumerate()
    {
        let file = dir.path().join(format!("{number}.pem"));
        let key = dir.path().join("key");
        let made = openssl(&[
            "req", "-x509", "-utf8", "-multivalue-rdn", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", text(&key), "-out", text(&file), "-subj", subject, "-days", "1",
        ]);
        if made.is_none() {
            return;
        }
        let expected = openssl(&["x509", "-subject_hash", "-noout", "-in", text(&file)]).unwrap();
        assert_eq!(our_hash(&file), expected, "{subject}");
    }
}

#[test]
fn an_authority_is_loaded_as_it_was_made() {
    // After a restart of a grid, new certificates would not be trusted by those who trust the old.
    let dir = tempfile::tempdir().unwrap();
    let made = CertificateAuthority::create(dir.path()).unwrap();
    assert!(
        CertificateAuthority::create(dir.path()).is_err(),
        "an authority must not be replaced"
    );
    let loaded = CertificateAuthority::load(dir.path()).unwrap();
    assert_eq!(made.pem(), loaded.pem());
    let identity = loaded.issue(&["localhost".into()], "late").unwrap();
    let (chain, _) = write_identity(&identity, dir.path(), "late").unwrap();
    let directory = loaded.directory();
    openssl(&[
        "verify",
        "-no-CAfile",
        "-no-CAstore",
        "-x509_strict",
        "-CApath",
        text(&directory),
        text(&chain),
    ]);
    fs::write(dir.path().join("ca.key"), "nonsense").unwrap();
    assert!(CertificateAuthority::load(dir.path()).is_err());
    assert!(loaded.issue(&["not a name \u{e9}".into()], "bad").is_err());
}

#[test]
fn certificates_of_one_subject_stand_beside_each_other() {
    // One authority would push out another of the same name, and its servers would not be trusted.
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| CertificateAuthority::create(&dir.path().join(name)).unwrap());
    let all = dir.path().join("all");
    for _ in 0..2 {
        hashed_directory(&all, &[&one.file(), &two.file()]).unwrap();
    }
    assert_eq!(
        fs::read_dir(&all).unwrap().count(),
        2,
        "the same certificates are not repeated"
    );
    assert!(hashed_directory(&all, &[&dir.path().join("one/ca.key")]).is_err());
    assert!(subject_hash(b"").is_none() && subject_hash(&[0x30, 0x80, 0, 0]).is_none());
}
