//! A configuration, and a certificate, that an issuer takes while it serves.

use weir_auth::ca::write_identity;
use weir_issuer::TlsFiles;

use super::*;

#[tokio::test]
async fn clients_and_lifetimes_change_without_a_restart() {
    // An operator who adds a client, or revokes one, would have to stop the tokens of all others.
    let world = world();
    let changed = |change: &dyn Fn(&mut IssuerConfig)| {
        let mut config = config(world.dir.path(), "127.0.0.1:0");
        change(&mut config);
        config
    };
    let second = "another secret, as long";
    let other = world.source_with(second);
    assert!(other.token("storage.read:/a", AUDIENCE).await.is_err());
    let secret = Secret::new(second);
    let config = changed(&|config| {
        config.clients = vec![Client::with_secret("grid", &secret, &["storage.read:/"], &["*"])];
        config.token_lifetime = Duration::from_secs(60);
        config.key_directory = "/elsewhere".into();
    });
    let waiting = world.issuer.reload(&config).await.unwrap();
    assert_eq!(
        waiting,
        ["key_directory changes with a restart only: the former value stays in force"]
    );
    let token = world.source_with(second).token("storage.read:/a", AUDIENCE).await;
    let verified = world
        .verifier()
        .verify(token.unwrap().expose(), SystemTime::now())
        .await;
    let left = verified.unwrap().expires.duration_since(SystemTime::now()).unwrap();
    assert!(left <= Duration::from_secs(60), "{left:?}");
    let old = world.source().token("storage.read:/a", AUDIENCE).await;
    assert!(old.is_err(), "the secret of before is void");

    let wrong = changed(&|config| config.clients[0].scopes.clear());
    let refused = world.issuer.reload(&wrong).await.unwrap_err().to_string();
    assert!(refused.contains("client[0].scopes"), "{refused}");
    assert!(
        world
            .source_with(second)
            .token("storage.read:/a", AUDIENCE)
            .await
            .is_ok()
    );
    let (status, text) = world.text("/.well-known/weir/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "weir_issuer_reloads_total{what=\"configuration\",outcome=\"completed\"} 1",
        "weir_issuer_reloads_total{what=\"configuration\",outcome=\"failed\"} 1",
        "weir_issuer_tokens_total{client=\"grid\",grant=\"client_credentials\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    // Ninety days after its start, nobody would get a token.
    let dir = tempfile::tempdir().unwrap();
    let ca = CertificateAuthority::create(&dir.path().join("ca")).unwrap();
    let identity = ca.issue(&["127.0.0.1".into()], "issuer").unwrap();
    write_identity(&identity, dir.path(), "issuer").unwrap();
    let mut config = config(dir.path(), "127.0.0.1:0");
    config.tls = Some(TlsFiles {
        certificate: dir.path().join("issuer.pem"),
        key: dir.path().join("issuer.key"),
    });
    let issuer = Issuer::start(&config, &config.identity().unwrap()).unwrap();
    let ready = async |ca: &CertificateAuthority| {
        let client = weir_http::Client::new(ClientConfig::new(TrustRoots::file(ca.file()))).unwrap();
        let url = format!("https://{}/.well-known/weir/ready", issuer.address());
        let answer = client.send(Request::get(url).body(body::empty()).unwrap()).await.ok()?;
        let (parts, content) = answer.into_parts();
        let content = body::read_limited(content, 1 << 20, Duration::from_secs(10)).await;
        Some((
            parts.status,
            serde_json::from_slice::<Value>(&content.unwrap()).unwrap(),
        ))
    };
    let (status, answer) = ready(&ca).await.unwrap();
    assert_eq!((status, &answer["status"]), (StatusCode::OK, &Value::from("ok")));
    let second = CertificateAuthority::create(&dir.path().join("second")).unwrap();
    assert!(ready(&second).await.is_none());
    let renewed = second.issue(&["127.0.0.1".into()], "issuer").unwrap();
    write_identity(&renewed, dir.path(), "issuer").unwrap();
    issuer.look().await;
    assert!(ready(&second).await.is_some());
    assert!(ready(&ca).await.is_none(), "the one of before is shown no more");
    // Half a file, as while it is being written: the former certificate is shown on.
    std::fs::write(dir.path().join("issuer.pem"), "-----BEGIN").unwrap();
    issuer.look().await;
    assert!(ready(&second).await.is_some());
}
