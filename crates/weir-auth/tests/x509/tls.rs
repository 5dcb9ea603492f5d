//! The handshake: OpenSSL's client against our server, with proxies and without anything.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::SystemTime;

use http::{Request, Response};
use hyper::body::Incoming;
use openssl::ssl::{SslConnector, SslMethod, SslVersion};
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use weir_auth::ca::{CertificateAuthority, San};
use weir_auth::x509::ClientCertificates;
use weir_http::{RunningServer, ServerLimits, bind, body, serve, server_config_asking};

use crate::pki::{HOUR, INHERIT_ALL, Party, Site, Wish, rsa_key};

/// A server that tells each client who it is.
pub(crate) fn start(certificates: &ClientCertificates, ours: &CertificateAuthority) -> RunningServer {
    let identity = ours.issue(&[San::from("127.0.0.1")], "server").unwrap();
    let tls = server_config_asking(&identity, Arc::new(certificates.clone())).unwrap();
    let certificates = certificates.clone();
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let text = match certificates.identity(request.extensions(), SystemTime::now()) {
            Ok(Some(identity)) => format!("{} by {} proxies", identity.subject, identity.n_proxies),
            Ok(None) => "nobody".to_owned(),
            Err(error) => format!("{} {error}", error.status().as_u16()),
        };
        async move { Ok::<_, Infallible>(Response::new(body::full(text))) }
    });
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    serve(listener, Some(tls), ServerLimits::default(), service).unwrap()
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// OpenSSL's client, of one version of TLS.
struct Client<'a> {
    server: &'a RunningServer,
    ours: &'a CertificateAuthority,
    version: SslVersion,
}

impl Client<'_> {
    /// The last line of the answer, or what broke.
    async fn answer(&self, party: Option<&Party>) -> Result<String, String> {
        let (address, file, version) = (self.server.address(), self.ours.file(), self.version);
        let party = party.cloned();
        let talk = move || {
            let mut builder = SslConnector::builder(SslMethod::tls_client()).unwrap();
            builder.set_ca_file(&file).unwrap();
            builder.set_min_proto_version(Some(version)).unwrap();
            builder.set_max_proto_version(Some(version)).unwrap();
            if let Some(party) = &party {
                builder.set_certificate(party.certificate()).unwrap();
                builder.set_private_key(&party.key).unwrap();
                for certificate in &party.chain[1..] {
                    builder.add_extra_chain_cert(certificate.clone()).unwrap();
                }
            }
            let tcp = TcpStream::connect(address).unwrap();
            let stream = builder.build().connect("127.0.0.1", tcp);
            ask(stream.map_err(|error| error.to_string())?)
        };
        tokio::task::spawn_blocking(talk).await.unwrap()
    }
}

fn ask(mut stream: impl Read + Write) -> Result<String, String> {
    stream.write_all(REQUEST).map_err(|error| error.to_string())?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text.lines().last().unwrap_or_default().to_owned())
}

/// A client of rustls that shows a certificate, whatever its key: its own, or another's.
fn client_with(ours: &CertificateAuthority, chain: &Party, key: &Party, version: SslVersion) -> Arc<ClientConfig> {
    #[derive(Debug)]
    struct Shown(Arc<CertifiedKey>);
    impl ResolvesClientCert for Shown {
        fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            Some(self.0.clone())
        }
        fn has_certs(&self) -> bool {
            true
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::from_pem_slice(&key.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ours.pem().as_bytes()).unwrap())
        .unwrap();
    let version = if version == SslVersion::TLS1_2 { &TLS12 } else { &TLS13 };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap();
    let shown = Shown(Arc::new(CertifiedKey::new(chain.der(), key)));
    Arc::new(
        builder
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(shown)),
    )
}

/// The last line of the answer to such a client, and whether it resumed a session.
async fn answer_to(config: Arc<ClientConfig>, server: &RunningServer) -> Result<(String, bool), String> {
    let address = server.address();
    let talk = move || {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut connection = ClientConnection::new(config, name).unwrap();
        let mut tcp = TcpStream::connect(address).unwrap();
        let answer = ask(rustls::Stream::new(&mut connection, &mut tcp))?;
        Ok((answer, connection.handshake_kind() == Some(HandshakeKind::Resumed)))
    };
    tokio::task::spawn_blocking(talk).await.unwrap()
}

const VERSIONS: [SslVersion; 2] = [SslVersion::TLS1_2, SslVersion::TLS1_3];

struct Scene {
    site: Site,
    ours: CertificateAuthority,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        let ours = CertificateAuthority::create(&site.dir.path().join("ours")).unwrap();
        Self { site, ours }
    }
}

/// Clients with proxies, or those with tokens and no certificate, could not connect.
#[tokio::test]
async fn proxies_of_every_kind_of_key_and_clients_without_a_certificate_are_served() {
    let scene = Scene::new();
    let server = start(&scene.site.open(), &scene.ours);
    let user = scene.site.user();
    let with = |key| {
        let mut wish = Wish::proxy(&user, "1", INHERIT_ALL, None);
        wish.key = key;
        wish.signed_by(&user)
    };
    let (ec, rsa) = (with(crate::pki::ec_key()), with(rsa_key(2048)));
    let ada = "/DC=xy/DC=grid/OU=People/CN=Ada Lovelace";
    for version in VERSIONS {
        let client = Client {
            server: &server,
            ours: &scene.ours,
            version,
        };
        assert_eq!(client.answer(None).await.unwrap(), "nobody");
        assert_eq!(client.answer(Some(&user)).await.unwrap(), format!("{ada} by 0 proxies"));
        assert_eq!(client.answer(Some(&ec)).await.unwrap(), format!("{ada} by 1 proxies"));
        assert_eq!(client.answer(Some(&rsa)).await.unwrap(), format!("{ada} by 1 proxies"));
    }
}

/// A client would not learn what is wrong with its proxy; or a door that wants to end the handshake would not.
#[tokio::test]
async fn a_bad_proxy_is_answered_or_ends_the_handshake_as_configured() {
    let scene = Scene::new();
    let user = scene.site.user();
    let expired = Wish::proxy(&user, "1", INHERIT_ALL, None)
        .valid(-2 * HOUR, -HOUR)
        .signed_by(&user);
    for refuse in [false, true] {
        let mut config = scene.site.config();
        config.refuse_in_handshake = refuse;
        let certificates = ClientCertificates::open(config, SystemTime::now()).unwrap();
        let server = start(&certificates, &scene.ours);
        for version in VERSIONS {
            let client = Client {
                server: &server,
                ours: &scene.ours,
                version,
            };
            match client.answer(Some(&expired)).await {
                Ok(text) => {
                    assert!(!refuse, "{text}");
                    assert!(text.starts_with("401 certificate /DC=xy/"), "{text}");
                    assert!(text.contains("/CN=Ada Lovelace/CN=1 expired 36"), "{text}");
                }
                Err(error) => assert!(refuse && error.contains("certificate expired"), "{error}"),
            }
            assert_eq!(client.answer(None).await.unwrap(), "nobody");
        }
    }
}

/// A reader of a certificate could speak for its owner without the key.
#[tokio::test]
async fn the_client_must_hold_the_key() {
    let scene = Scene::new();
    let server = start(&scene.site.open(), &scene.ours);
    let user = scene.site.user();
    let honest = Wish::proxy(&user, "1", INHERIT_ALL, None).signed_by(&user);
    let thief = scene.site.user();
    for version in VERSIONS {
        let config = client_with(&scene.ours, &honest, &honest, version);
        let (answer, _) = answer_to(config, &server).await.unwrap();
        assert!(answer.ends_with("/CN=Ada Lovelace by 1 proxies"), "{answer}");
        let config = client_with(&scene.ours, &honest, &thief, version);
        let error = answer_to(config, &server).await.unwrap_err();
        assert!(
            error.contains("DecryptError") || error.contains("BadCertificate"),
            "{error}"
        );
    }
}

/// A session that is resumed would bring an identity back after its authority was taken away.
#[tokio::test]
async fn a_resumed_session_is_judged_anew() {
    for version in VERSIONS {
        let scene = Scene::new();
        let certificates = scene.site.open();
        let server = start(&certificates, &scene.ours);
        let user = scene.site.user();
        let config = client_with(&scene.ours, &user, &user, version);
        let (answer, resumed) = answer_to(config.clone(), &server).await.unwrap();
        assert!(answer.contains("Ada Lovelace by 0") && !resumed, "{answer}");
        let (answer, resumed) = answer_to(config.clone(), &server).await.unwrap();
        assert!(answer.contains("Ada Lovelace by 0") && resumed, "{answer}");

        let other = Wish::authority("/C=XY/O=Other/CN=Other CA").root();
        scene.site.trust(&other, "ca.pem");
        assert!(certificates.refresh(SystemTime::now()).unwrap());
        let (answer, resumed) = answer_to(config, &server).await.unwrap();
        assert!(
            resumed && answer.starts_with("401 ") && answer.contains("is not trusted"),
            "{answer}"
        );
    }
}
