//! A grid in a test: an authority, an issuer, endpoints on addresses of their own, and peers that misbehave on demand.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_http::{
    Body, Client, ClientConfig, RunningServer, ServerLimits, TrustRoots, body, serve, server_config, testing,
};
use weir_storage::{
    AreaConfig, Directories, Durability, IssuerConfig, OpenArea, Running, Storage, StorageConfig, TlsFiles, Trust,
};
use weir_units::{Algorithm, Hasher};

/// Everything that a test's endpoints share. Dropped last.
pub(crate) struct Lab {
    pub(crate) dir: TempDir,
    ca: CertificateAuthority,
    pub(crate) issuer: Issuer,
    pub(crate) client: Client,
}

/// An issuer that mints whatever it is told to.
pub(crate) struct Issuer {
    pub(crate) url: String,
    key: EcdsaKeyPair,
    server: Option<RunningServer>,
    /// True if it answers; otherwise its callers wait.
    pub(crate) answers: watch::Sender<bool>,
}

/// An endpoint under test.
pub(crate) struct Endpoint {
    pub(crate) running: Running,
    pub(crate) root: PathBuf,
    pub(crate) log: PathBuf,
    client: Client,
    /// Sent with every request that brings none.
    token: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}\n{:?}", self.text(), self.headers);
        self
    }

    /// A third-party copy's last line.
    #[track_caller]
    pub(crate) fn last_word(&self) -> String {
        assert_eq!(self.status.as_u16(), 202, "{}", self.text());
        self.text().lines().last().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn copied(&self) {
        assert!(self.last_word().starts_with("success"), "{}", self.text());
    }

    /// The copy failed, and its last line says all of this.
    #[track_caller]
    pub(crate) fn failed(&self, expected: &[&str]) {
        let word = self.last_word();
        assert!(word.starts_with("failure: "), "{word}");
        for part in expected {
            assert!(word.contains(part), "{part} is not in: {word}");
        }
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap())
    }

    /// With areas that have no disk behind them.
    pub(crate) fn in_memory() -> Self {
        Self::on(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn on(dir: TempDir) -> Self {
        let ca = CertificateAuthority::create(&dir.path().join("ca")).unwrap();
        let client = Client::new(ClientConfig::new(TrustRoots::file(ca.file()))).unwrap();
        let issuer = Issuer::start(&ca);
        Self {
            dir,
            ca,
            issuer,
            client,
        }
    }

    /// An endpoint with one area at `/`, that takes tokens of the lab's issuer and speaks to loopback.
    pub(crate) async fn endpoint(&self, name: &str, change: impl FnOnce(&mut StorageConfig)) -> Endpoint {
        self.endpoint_on(name, Arc::new(Directories), change).await
    }

    /// The same over another back end.
    pub(crate) async fn endpoint_on(
        &self,
        name: &str,
        areas: Arc<dyn OpenArea>,
        change: impl FnOnce(&mut StorageConfig),
    ) -> Endpoint {
        let listen = SocketAddr::new(next_address(), 0);
        let root = self.dir.path().join(name);
        let mut config = self.config(name, listen);
        change(&mut config);
        let log = config.access_log.clone().unwrap();
        let running = Storage::start_on(config, areas).await.unwrap();
        Endpoint {
            running,
            root,
            log,
            client: self.client.clone(),
            token: self.all(),
        }
    }

    pub(crate) fn config(&self, name: &str, listen: SocketAddr) -> StorageConfig {
        let identity = self.ca.issue(&[San::Ip(listen.ip())], name).unwrap();
        let (certificate, key) = write_identity(&identity, self.dir.path(), name).unwrap();
        let area = AreaConfig {
            create_root: true,
            durability: Durability::Cache,
            ..AreaConfig::new("data", "/".parse().unwrap(), self.dir.path().join(name))
        };
        let mut config = StorageConfig::new(listen, vec![area]);
        config.tls = Some(TlsFiles { certificate, key });
        config.trust = Trust {
            files: vec![self.ca.file()],
            directories: vec![],
        };
        config.issuers = vec![IssuerConfig::new(&self.issuer.url)];
        config.tpc.allow = vec!["127.0.0.0/8".parse().unwrap()];
        config.access_log = Some(self.dir.path().join(format!("{name}.log")));
        config
    }

    /// A certificate in this name: `/O=Weir/CN=NAME`.
    pub(crate) fn certificate(&self, name: &str) -> weir_http::Identity {
        self.ca.issue(&[], name).unwrap()
    }

    /// A certificate for a server at this address, valid until then.
    pub(crate) fn certificate_for(&self, address: std::net::IpAddr, end: Option<SystemTime>) -> weir_http::Identity {
        self.ca.issue_until(&[San::Ip(address)], "renewed", end).unwrap()
    }

    /// The authority's own certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.ca.file()
    }

    /// The authority's list of revoked certificates.
    pub(crate) fn revocation_list(&self, revoked: &[&weir_http::Identity]) -> String {
        self.ca.revocation_list(revoked).unwrap()
    }

    /// A list that revokes no certificate and is good until then.
    pub(crate) fn revocation_list_until(&self, end: SystemTime) -> String {
        self.ca.revocation_list_until(&[], end).unwrap()
    }

    /// A certificate in this name, valid until then.
    pub(crate) fn certificate_until(&self, name: &str, end: SystemTime) -> weir_http::Identity {
        self.ca.issue_until(&[], name, Some(end)).unwrap()
    }

    /// A client that shows one.
    pub(crate) fn client_of(&self, name: &str) -> Client {
        self.client.showing(&self.certificate(name)).unwrap()
    }

    /// A directory of the authorities whose users are taken.
    pub(crate) fn authorities(&self) -> PathBuf {
        let trusted = self.dir.path().join("certificates");
        std::fs::create_dir_all(&trusted).unwrap();
        std::fs::copy(self.ca.file(), trusted.join("ca.pem")).unwrap();
        trusted
    }

    /// A token that may do everything.
    pub(crate) fn all(&self) -> String {
        self.token("storage.read:/ storage.modify:/")
    }

    pub(crate) fn token(&self, scope: &str) -> String {
        self.issuer.mint(&json!({"scope": scope}))
    }

    /// A TLS server that answers as it is told.
    pub(crate) fn peer<F, R>(&self, answer: F) -> (RunningServer, String)
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let (server, _, url) = self.certified_peer(None, answer);
        (server, url)
    }

    /// The same with its certificate, valid until then.
    pub(crate) fn certified_peer<F, R>(
        &self,
        end: Option<SystemTime>,
        answer: F,
    ) -> (RunningServer, weir_http::Identity, String)
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let address = SocketAddr::new(next_address(), 0);
        let identity = self.ca.issue_until(&[San::Ip(address.ip())], "peer", end).unwrap();
        let server = peer(address, &identity, answer);
        let url = format!("https://{}", server.address());
        (server, identity, url)
    }

    /// The same under a certificate for another name.
    pub(crate) fn misnamed_peer(&self) -> (RunningServer, String) {
        let address = SocketAddr::new(next_address(), 0);
        let identity = self
            .ca
            .issue(&[San::Dns("elsewhere.example.org".into())], "peer")
            .unwrap();
        let server = peer(address, &identity, |_| async { Response::new(body::full("x")) });
        let url = format!("https://{}", server.address());
        (server, url)
    }
}

fn peer<F, R>(address: SocketAddr, identity: &weir_http::Identity, answer: F) -> RunningServer
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let service = tower::service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let listener = weir_http::bind(address).unwrap();
    serve(
        listener,
        Some(server_config(identity).unwrap()),
        ServerLimits::default(),
        service,
    )
    .unwrap()
}

/// Every server of a test process gets an address of its own, as clients tell endpoints apart by it.
fn next_address() -> std::net::IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    [127, 0, 3, NEXT.fetch_add(1, Ordering::Relaxed)].into()
}

impl Issuer {
    fn start(ca: &CertificateAuthority) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = key.public_key().as_ref().to_vec();
        let jwks = json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1",
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..65])}]});
        let address = SocketAddr::new(next_address(), 0);
        let identity = ca.issue(&[San::Ip(address.ip())], "issuer").unwrap();
        let answers = watch::Sender::new(true);
        let may_answer = answers.subscribe();
        let server = peer(address, &identity, move |request| {
            let (jwks, mut may_answer) = (jwks.clone(), may_answer.clone());
            async move {
                let _ = may_answer.wait_for(|may| *may).await;
                let url = format!("https://{}", request.headers()["host"].to_str().unwrap());
                let document = match request.uri().path() {
                    "/jwks" => jwks,
                    _ => json!({"issuer": url, "jwks_uri": format!("{url}/jwks")}),
                };
                let mut response = Response::new(body::full(document.to_string()));
                response
                    .headers_mut()
                    .insert("content-type", "application/json".parse().unwrap());
                response
            }
        });
        Self {
            url: format!("https://{}", server.address()),
            key,
            server: Some(server),
            answers,
        }
    }

    /// The issuer is not there any more to ask for keys.
    pub(crate) async fn leave(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown().await;
        }
    }

    /// A token with these claims in place of the usual ones; null takes one away.
    pub(crate) fn mint(&self, claims: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut payload = json!({"iss": self.url, "sub": "tester", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0",
            "iat": now, "nbf": now, "exp": now + 600, "jti": "t1"});
        for (name, value) in claims.as_object().unwrap() {
            match value {
                Value::Null => payload.as_object_mut().unwrap().remove(name),
                value => payload.as_object_mut().unwrap().insert(name.clone(), value.clone()),
            };
        }
        self.sign(&json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}), &payload)
    }

    pub(crate) fn sign(&self, header: &Value, payload: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(header), encode(payload));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

impl Endpoint {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.running.url())
    }

    /// Sends a request with these headers (`Authorization` too, unless it is among them) and reads the answer.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        content: impl Into<Bytes>,
    ) -> Answer {
        let content = content.into();
        let body = if content.is_empty() && method != "PUT" {
            body::empty()
        } else {
            body::full(content)
        };
        self.send(method, path, headers, body).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], content: Body) -> Answer {
        let response = self.begin(method, path, headers, content).await;
        let (parts, incoming) = response.into_parts();
        let body = incoming.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    /// As [`Endpoint::send`], up to the head of the answer.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        content: Body,
    ) -> Response<Incoming> {
        self.try_begin(method, path, headers, content).await.unwrap()
    }

    /// The same where the connection may break before the head has come.
    pub(crate) async fn try_begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        content: Body,
    ) -> Result<Response<Incoming>, weir_http::ClientError> {
        self.client.send(self.request(method, path, headers, content)).await
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], content: Body) -> Request<Body> {
        let mut request = Request::new(content);
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        *request.uri_mut() = self.url(path).parse().unwrap();
        for (name, value) in headers {
            request
                .headers_mut()
                .append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            request
                .headers_mut()
                .insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        }
        request
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, content: impl Into<Bytes>) -> impl Future<Output = Answer> {
        let content = content.into();
        let path = path.to_owned();
        async move { self.ask("PUT", &path, &[], content).await }
    }

    /// COPY of `path` here from a source; the source's token is the lab's.
    pub(crate) async fn pull(&self, path: &str, source: &str, more: &[(&str, &str)]) -> Answer {
        self.copy("Source", path, source, more).await
    }

    pub(crate) async fn push(&self, path: &str, destination: &str, more: &[(&str, &str)]) -> Answer {
        self.copy("Destination", path, destination, more).await
    }

    async fn copy(&self, side: &str, path: &str, remote: &str, more: &[(&str, &str)]) -> Answer {
        let other = format!("Bearer {}", self.token);
        let mut headers = vec![(side, remote), ("Credential", "none")];
        if !more
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("transferheaderauthorization"))
        {
            headers.push(("TransferHeaderAuthorization", other.as_str()));
        }
        headers.extend_from_slice(more);
        self.ask("COPY", path, &headers, "").await
    }

    /// Names under the root, private ones included, as relative paths; sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        walk(&self.root, "", &mut names);
        names.retain(|name| name != ".weir-private/lock");
        names.sort();
        names
    }

    /// Waits until the private directory is empty: abandoned files have been removed.
    pub(crate) async fn until_clean(&self) {
        until("no leftovers", || self.leftovers() == 0).await;
    }

    /// How much lies in the private directory beside its lock.
    pub(crate) fn leftovers(&self) -> usize {
        std::fs::read_dir(self.root.join(".weir-private")).unwrap().count() - 1
    }

    /// The lines of the access log, once there are at least so many.
    pub(crate) async fn log_lines(&self, at_least: usize) -> Vec<Value> {
        // The last one may be half written.
        let read = || {
            let mut text = std::fs::read_to_string(&self.log).unwrap_or_default();
            text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
            text
        };
        until("log lines", || read().lines().count() >= at_least).await;
        read().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn walk(folder: &std::path::Path, prefix: &str, names: &mut Vec<String>) {
    let entries = match std::fs::read_dir(folder) {
        // A replaced folder is removed after the answer, perhaps now.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        entries => entries.unwrap(),
    };
    for entry in entries {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{name}/"), names);
        } else {
            names.push(name);
        }
    }
}

/// Polls a condition until it holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    testing::until(what, || std::future::ready(condition()), |is_so| *is_so).await;
}

/// Bytes that look random and are the same each time.
pub(crate) fn noise(size: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ size as u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}

/// `adler32=…` as a Digest header has it.
pub(crate) fn digest(algorithm: Algorithm, content: &[u8]) -> String {
    let mut hasher = Hasher::new(&[algorithm]);
    hasher.update(content);
    hasher.finish().get(algorithm).unwrap().digest_header()
}

/// A body that comes in pieces, with whatever happens between them.
pub(crate) fn pieces<S>(stream: S) -> Body
where
    S: futures_util::Stream<Item = Result<Bytes, weir_http::body::Cause>> + Send + 'static,
{
    body::stream(stream)
}
