//! docs/transfer-on-postgresql.md.

use std::{fs, process::Command, time::Duration};

use weir_tests::{
    Daemon, Postgres, STORAGES, Services, StorageSettings, free_port, peers, wait_for, weir_binary, write_private,
};

use crate::machine::{Machine, blocks, mode, started_by_the_unit};

const PAGE: &str = include_str!("../../../docs/transfer-on-postgresql.md");

#[test]
#[expect(clippy::too_many_lines, reason = "the steps of one page")]
fn an_operator_who_follows_the_page_has_a_service() {
    // The first thing an operator does would fail.
    if !peers() {
        return;
    }
    let services = Services::start(&STORAGES.map(StorageSettings::new), "").unwrap();
    let postgres = Postgres::listening().unwrap();
    let port = free_port().unwrap();
    let authority = services.file("authority/ca.pem").display().to_string();
    let environment = [
        ("PGHOST", postgres.socket().display().to_string()),
        ("PGPORT", postgres.port().unwrap().to_string()),
        ("PGUSER", "postgres".to_owned()),
        ("CURL_CA_BUNDLE", authority.clone()),
        ("WEIR_CA_FILE", authority.clone()),
    ];
    let mut machine = Machine {
        services,
        names: Vec::new(),
        environment: environment.to_vec(),
    };
    let etc = machine.services.file("etc/weir");
    let (alpha, beta) = (
        machine.services.storage("ALPHA").url.clone(),
        machine.services.storage("BETA").url.clone(),
    );
    let database = format!("host = \"localhost\"\nport = {}", postgres.port().unwrap());
    let names = [
        // Places of a machine that is not the test's own.
        ("/etc/weir", etc.display().to_string()),
        ("/etc/ssl/certs/ca-certificates.crt", authority),
        ("-o weir-transfer ", String::new()),
        ("chown weir-transfer:", "chown \"$(id -un)\":".to_owned()),
        ("runuser -u postgres -- ", String::new()),
        ("host = \"localhost\"", database),
        ("0.0.0.0:8446", format!("127.0.7.251:{port}")),
        // Names that are the operator's.
        ("TRANSFER:8446", format!("127.0.7.251:{port}")),
        ("https://ISSUER", machine.services.issuer().to_owned()),
        ("\"VO\"", "\"test\"".to_owned()),
        ("\"SUBJECT\"", "\"tester\"".to_owned()),
        ("allow = []", "allow = [\"127.0.0.0/8\"]".to_owned()),
        ("HOSTCERT", machine.path("identities/transfer.pem")),
        ("HOSTKEY", machine.path("identities/transfer.key")),
        ("TRANSFERKEY", machine.path("etc/weir/transfer.key")),
        ("DBPASSWORD", machine.path("etc/weir/postgres.password")),
        ("--token-file TOKEN", format!("--token-file {}", machine.path("token"))),
        ("@AUTHORIZATION", format!("@{}", machine.path("header"))),
        ("https://SOURCE", format!("{alpha}/first")),
        ("https://DESTINATION", format!("{beta}/first")),
    ];
    machine.names = names.map(|(name, here)| (name.to_owned(), here)).to_vec();
    let service = format!("https://127.0.7.251:{port}");
    let token = machine
        .services
        .token_for(
            "storage.read:/ storage.create:/ storage.modify:/",
            &[&alpha, &beta, &service],
        )
        .unwrap();
    write_private(&machine.services.file("token"), &token).unwrap();
    let header = format!("Authorization: Bearer {token}\n");
    write_private(&machine.services.file("header"), &header).unwrap();
    machine
        .services
        .put(b"the first file", &format!("{alpha}/first"))
        .unwrap();

    // 1: the folder is the test's; program, user and unit are the machine's.
    fs::create_dir_all(etc.join("tls")).unwrap();
    let install = blocks(PAGE, "1. The program", "sh");
    assert!(install[0].contains("weir@.service") && install[0].contains("/etc/weir/tls"));
    let remote = &blocks(PAGE, "2. The database", "sh")[2];
    assert!(
        remote.contains("-o postgres DBKEY") && remote.contains("restart postgresql"),
        "{remote}"
    );
    // 2: the server is there already.
    let database = blocks(PAGE, "2. The database", "sh");
    let prepare = database[0].lines().filter(|line| !line.starts_with("apt-get"));
    machine.sh(&prepare.collect::<Vec<_>>().join("\n"));
    machine.sh(&database[1]);
    assert_eq!(mode(&etc.join("postgres.password")), 0o600);
    // 3 and 4.
    machine.sh(&blocks(PAGE, "3. Certificate and keys", "sh")[0]);
    assert_eq!(mode(&etc.join("transfer.key")), 0o600);
    let configuration = machine.with_names(&blocks(PAGE, "4. The configuration", "toml")[0]);
    fs::write(etc.join("transfer.toml"), configuration).unwrap();
    // 5: the command that the unit starts.
    let start = machine.with_names(&started_by_the_unit("transfer"));
    let mut serve = Command::new(weir_binary());
    serve.args(start.split(' '));
    let service = Daemon::start(serve, &machine.services.file("service.log")).unwrap();
    let ready = || Ok(service.said().contains("transfer is ready").then_some(()));
    wait_for(Duration::from_secs(60), ready).unwrap_or_else(|error| panic!("{error:#}: {}", service.said()));
    let first = blocks(PAGE, "5. Start", "sh");
    let look = first[1].lines().filter(|line| !line.starts_with("journalctl"));
    let health = machine.sh(&look.collect::<Vec<_>>().join("\n"));
    assert!(health.contains(r#"{"status":"ok"}"#), "{health}");
    machine.sh(&first[2]);
    assert_eq!(
        fs::read(machine.services.root("BETA").join("first")).unwrap(),
        b"the first file"
    );
    // 6: the files that a second node takes from the first, and the first one's report then.
    let more = blocks(PAGE, "6. More nodes", "sh");
    fs::create_dir_all(machine.services.file("second/tls")).unwrap();
    machine.sh(&more[0].replace("/etc/weir", &machine.path("second")));
    for (name, wanted) in [
        ("transfer.key", 0o600),
        ("postgres.password", 0o600),
        ("tls/transfer.pem", 0o644),
    ] {
        assert_eq!(mode(&machine.services.file("second").join(name)), wanted, "{name}");
    }
    let listed = machine.sh(&more[1]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["nodes"][0]["scheduler"], true, "{listed}");
}
