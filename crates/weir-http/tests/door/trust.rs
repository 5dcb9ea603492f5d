use std::sync::Arc;

use http::Request;
use weir_http::{
    Client, ClientConfig, ClientError, Identity, Reloadable, ServerLimits, TrustRoots, bind, body, serve, server_config,
};

use crate::{echo, loopback};

struct Authority(rcgen::CertifiedIssuer<'static, rcgen::KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap())
    }

    fn server(&self) -> Arc<rustls::ServerConfig> {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let identity = Identity {
            chain_pem: params.signed_by(&key, &self.0).unwrap().pem(),
            key_pem: key.serialize_pem(),
        };
        server_config(&identity).unwrap()
    }
}

async fn ask(client: &Client, address: std::net::SocketAddr) -> Result<String, ClientError> {
    let request = Request::get(format!("https://{address}/")).body(body::empty()).unwrap();
    let answer = client.send(request).await?;
    let read = body::read_limited(answer.into_body(), 1000, std::time::Duration::from_secs(5))
        .await
        .unwrap();
    Ok(String::from_utf8(read.to_vec()).unwrap())
}

/// A certificate that is renewed only by a restart costs the transfers of that moment.
#[tokio::test]
async fn a_server_and_a_client_take_new_certificates_and_lose_no_connection() {
    let (old, new) = (Authority::new(), Authority::new());
    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), old.0.pem()).unwrap();
    let trusted = TrustRoots::file(roots.path());
    let client = || Client::new(ClientConfig::new(trusted.clone())).unwrap();
    let (early, renewed) = (client(), client());
    let tls = Reloadable::from(old.server());
    let server = serve(
        bind(loopback()).unwrap(),
        tls.clone(),
        ServerLimits::default(),
        tower::service_fn(echo),
    )
    .unwrap();
    let before = ask(&early, server.address()).await.unwrap();
    tls.set(new.server());
    assert_eq!(
        ask(&early, server.address()).await.unwrap(),
        before,
        "the same connection goes on"
    );
    let error = ask(&renewed, server.address()).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error}");
    std::fs::write(roots.path(), new.0.pem()).unwrap();
    renewed.renew(&trusted).unwrap();
    ask(&renewed, server.address()).await.unwrap();
    // An unreadable file changes nothing.
    std::fs::write(roots.path(), "no certificate").unwrap();
    assert!(renewed.renew(&trusted).is_err());
    ask(&renewed, server.address()).await.unwrap();
}
