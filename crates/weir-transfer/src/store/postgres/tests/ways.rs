//! Connections to the database: their encryption, authentication and errors.

use weir_http::TrustRoots;
use weir_store::postgres::{
    Connector, PATIENCE, Purpose, Session,
    testing::{Server, wanted},
};

use super::{super::PostgresStore, config_of};
use crate::{
    config::PostgresConfig,
    store::{Sealer, Store as _},
};

#[test]
fn a_password_is_read_from_its_file_and_told_to_nobody() {
    use std::os::unix::fs::PermissionsExt as _;
    if !wanted() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    std::fs::write(&path, "open-sesame\n").unwrap();
    let mut config = config_of(&Server::shared().address("no_such_database"));
    config.password_file = Some(path.clone());
    let fail = |config: &PostgresConfig| {
        let error = PostgresStore::open(config, &TrustRoots::default(), Sealer::ephemeral()).unwrap_err();
        let text = format!("{} {error:?}", weir_auth::error_chain(&error));
        assert!(!text.contains("open-sesame"), "{text}");
        text
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(fail(&config).contains("0644"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(fail(&config).contains("does not exist"));
    config.host = "127.0.0.1".into();
    config.port = 1;
    assert!(fail(&config).contains("127.0.0.1"));
}

/// A server that only accepts encrypted connections with a password, and the authority of its certificate.
fn guarded() -> (Server, tempfile::TempDir) {
    use weir_auth::ca::{CertificateAuthority, San, write_identity};
    let authority = tempfile::tempdir().unwrap();
    let ca = CertificateAuthority::create(authority.path()).unwrap();
    let identity = ca.issue(&[San::from("127.0.0.1")], "database").unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let server = Server::start_with(port, |directory| {
        let (certificate, key) = write_identity(&identity, directory, "server").unwrap();
        let rules = directory.join("hba");
        std::fs::write(
            &rules,
            "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
        )
        .unwrap();
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", certificate.display()),
            format!("ssl_key_file={}", key.display()),
            format!("hba_file={}", rules.display()),
        ];
        settings
            .into_iter()
            .flat_map(|setting| ["-c".to_owned(), setting])
            .collect()
    });
    (server, authority)
}

#[test]
fn a_database_elsewhere_is_spoken_to_encrypted_and_checked() {
    use std::os::unix::fs::PermissionsExt as _;
    if !wanted() {
        return;
    }
    let (server, authority) = guarded();
    let mut config = config_of(&server.address("postgres"));
    let connector = Connector::new(&config.address("weir-transfer"), &TrustRoots::default()).unwrap();
    Session::open(&connector, Purpose::Rows, PATIENCE)
        .unwrap()
        .run("CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 'open-sesame'")
        .unwrap();
    let password = authority.path().join("password");
    let write = |text: &str| {
        std::fs::write(&password, text).unwrap();
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("open-sesame\n");
    config.host = "127.0.0.1".into();
    config.user = "guarded".into();
    config.password_file = Some(password.clone());
    let open = |config: &PostgresConfig, trust: &TrustRoots| PostgresStore::open(config, trust, Sealer::ephemeral());
    let fail = |config: &PostgresConfig, trust: &TrustRoots| {
        let error = open(config, trust).unwrap_err();
        let text = format!("{} {error:?}", weir_auth::error_chain(&error));
        assert!(!text.contains("sesame"), "{text}");
        text
    };
    assert!(
        fail(&config, &TrustRoots::default()).contains("pg_hba"),
        "in the clear nobody is let in"
    );
    config.authorities = vec![authority.path().join("ca.pem")];
    let trust = TrustRoots::file(authority.path().join("ca.pem"));
    assert_eq!(open(&config, &trust).unwrap().next_epoch().unwrap(), 1);
    let stranger = tempfile::tempdir().unwrap();
    weir_auth::ca::CertificateAuthority::create(stranger.path()).unwrap();
    let untrusted = fail(&config, &TrustRoots::file(stranger.path().join("ca.pem")));
    assert!(untrusted.contains("certificate"), "{untrusted}");
    write("close-sesame");
    assert!(fail(&config, &trust).contains("password authentication failed"));
}
