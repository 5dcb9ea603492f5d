//! docs/storage-from-nothing.md.

use std::{fs, net::Ipv4Addr, process::Command, time::Duration};

use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{
    Daemon, STORAGES, Services, StorageSettings, adler32, free_port, peers, wait_for, weir_binary, write_private,
};

use crate::machine::{Machine, blocks, mode, started_by_the_unit};

const PAGE: &str = include_str!("../../../docs/storage-from-nothing.md");

/// Where the new endpoint listens.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 7, 252);

/// The machine of an operator who has a certificate, a token, and another storage to copy from.
fn machine(port: u16) -> Machine {
    let services = Services::start(&STORAGES.map(StorageSettings::new), "").unwrap();
    let source = format!("{}/first", services.storage("ALPHA").url);
    services.put(b"what lies elsewhere", &source).unwrap();
    let token = services.token("storage.read:/ storage.modify:/").unwrap();
    write_private(&services.file("token"), &token).unwrap();
    fs::write(services.file("hostname"), "the first file\n").unwrap();
    let authority = CertificateAuthority::load(&services.file("authority")).unwrap();
    let identity = authority.issue(&[San::Ip(ADDRESS.into())], "storage").unwrap();
    let (certificate, key) = write_identity(&identity, &services.file("identities"), "new").unwrap();
    let trusted = authority.directory().display().to_string();
    let here = |name: &str| services.file(name).display().to_string();
    let url = format!("{ADDRESS}:{port}");
    let names = [
        // Places of a machine that is not the test's own.
        ("/etc/grid-security/certificates", trusted.clone()),
        ("/etc/hostname", here("hostname")),
        ("/etc/weir", here("etc")),
        ("/var/lib/weir", here("state")),
        ("/srv/weir", here("srv")),
        ("-o weir-storage -g weir-storage ", String::new()),
        ("-o weir-storage ", String::new()),
        ("0.0.0.0:8443", url.clone()),
        // Names that are the operator's.
        ("STORAGE:8443", url),
        ("https://ISSUER", services.issuer().to_owned()),
        ("davs://SOURCE", source.replace("https://", "davs://")),
        ("HOSTCERT", certificate.display().to_string()),
        ("HOSTKEY", key.display().to_string()),
        ("FILE=TOKEN", format!("FILE={}", here("token"))),
        ("cat TOKEN", format!("cat {}", here("token"))),
        ("allow = []", "allow = [\"127.0.0.0/8\"]".to_owned()),
        ("VO", "atlas".to_owned()),
    ];
    let environment = vec![
        ("X509_CERT_DIR", trusted),
        ("WEIR_CA_FILE", here("authority/ca.pem")),
        // Another Python may come first on the path, which has no gfal2.
        ("GFAL_PYTHONBIN", "/usr/bin/python3".to_owned()),
    ];
    let names = names.map(|(name, here)| (name.to_owned(), here)).to_vec();
    Machine {
        services,
        names,
        environment,
    }
}

#[test]
fn an_administrator_who_follows_the_page_has_an_endpoint() {
    // The first thing an administrator does would fail.
    if !peers() {
        return;
    }
    let machine = machine(free_port().unwrap());
    let etc = machine.services.file("etc");
    // 1: the folders are the test's; program, user and unit are the machine's.
    fs::create_dir_all(etc.join("tls")).unwrap();
    fs::create_dir_all(machine.services.file("state/storage")).unwrap();
    let install = blocks(PAGE, "1. The program", "sh");
    assert!(install[0].contains("weir@.service") && install[0].contains("/etc/weir/tls"));
    // 2 and 3.
    machine.sh(&blocks(PAGE, "2. Certificate and directory", "sh")[0]);
    assert_eq!(mode(&etc.join("tls/storage.key")), 0o600);
    assert!(machine.services.file("srv/atlas").is_dir());
    let configuration = machine.with_names(&blocks(PAGE, "3. The configuration", "toml")[0]);
    fs::write(etc.join("storage.toml"), configuration).unwrap();
    let looked = machine.sh(&blocks(PAGE, "3. The configuration", "sh")[0]);
    assert!(looked.contains("none failed"), "{looked}");
    // 4: the command that the unit starts.
    let mut serve = Command::new(weir_binary());
    serve.args(machine.with_names(&started_by_the_unit("storage")).split(' '));
    let service = Daemon::start(serve, &machine.services.file("service.log")).unwrap();
    let ready = || Ok(service.said().contains("storage is ready").then_some(()));
    wait_for(Duration::from_secs(60), ready).unwrap_or_else(|error| panic!("{error:#}: {}", service.said()));
    let look = &blocks(PAGE, "4. Start", "sh")[1];
    let look = look.lines().filter(|line| !line.starts_with("journalctl"));
    let said: Value = serde_json::from_str(&machine.sh(&look.collect::<Vec<_>>().join("\n"))).unwrap();
    assert_eq!(
        (&said["status"], &said["troubles"]),
        (&"ok".into(), &Value::Array(Vec::new())),
        "{said}"
    );
    // 5.
    let files = blocks(PAGE, "5. First files", "sh");
    let said = machine.sh(&files[0]);
    assert!(said.contains("(verified)") && said.contains("first"), "{said}");
    let said = machine.sh(&files[1]);
    let kept = |name: &str| fs::read_to_string(machine.services.file("srv/atlas").join(name)).unwrap();
    assert_eq!(
        [kept("first"), kept("second")],
        ["the first file\n"; 2].map(str::to_owned)
    );
    assert_eq!(kept("third"), "what lies elsewhere");
    let adler32 = adler32(b"what lies elsewhere");
    let (_, value) = adler32.split_once(':').unwrap();
    assert!(said.trim_end().ends_with(value), "{said} against {adler32}");
    let said = machine.sh(&files[2]);
    let (record, metrics) = said.split_once('\n').unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    assert!(record["status"].is_u64(), "{record}");
    assert!(metrics.contains("weir_storage_requests_total"), "{metrics}");
}
