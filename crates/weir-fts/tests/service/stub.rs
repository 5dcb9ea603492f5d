//! A storage in memory that does HTTP-TPC, and whatever else it is told to.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::watch;
use weir_auth::ca::{CertificateAuthority, San};
use weir_http::{Body, Client, ClientConfig, PeerCertificates, RunningServer, ServerLimits, TrustRoots, body};
use weir_units::{Algorithm, Hasher};

use crate::{lab::loopback, library::Library};

/// The outcome of a request instead of its own.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// This status and text, nothing done.
    Status(u16, &'static str),
    /// As above, so many times; then as usual.
    StatusTimes(u16, &'static str, u32),
    /// COPY: 201 and this body, nothing done.
    Says(&'static str),
    /// As above, so many times; then as usual.
    SaysTimes(&'static str, u32),
    /// COPY: 201 and this, then silence.
    Hangs(&'static str),
    /// No answer at all.
    Silent,
    /// As usual, after this time.
    Slow(std::time::Duration),
    /// COPY: markers, and the copy only when [`Stub::release`] is called.
    Held,
    /// COPY: other bytes are written.
    Corrupts,
    /// HEAD: no checksum is told.
    NoDigest,
    /// HEAD: 400 if a checksum is asked for.
    RefusesDigest,
    /// Redirects to this URL.
    Redirect(String),
    /// COPY: half of the bytes are written, then the connection breaks without a verdict.
    WritesHalfThenCuts,
    /// COPY: all bytes are written, then the connection breaks without a verdict.
    WritesThenCuts,
    /// COPY: these bytes appear there; then this is answered.
    Leaves(&'static [u8], &'static str),
    /// COPY, PUT: these bytes are written, and no answer ever comes.
    WritesThenSilent(&'static [u8]),
    /// These bytes come to be there, and this status is answered: another request of the client before was carried out meanwhile.
    Appears(&'static [u8], u16, &'static str),
    /// HEAD: neither `Last-Modified` nor `ETag`.
    Timeless,
    /// This status, and a text with all of the request's target, as some storages write their errors.
    Echoes(u16),
    /// This status, this text, and then this one again and again.
    Endless(u16, &'static str, &'static str),
}

/// A file, or a directory.
#[derive(Debug, Clone)]
struct Entry {
    bytes: Bytes,
    modified: SystemTime,
    directory: bool,
}

impl Entry {
    fn now(bytes: Bytes) -> Self {
        Self {
            bytes,
            modified: SystemTime::now(),
            directory: false,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The part after the `?`.
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    /// Names on the certificate that the client showed.
    pub(crate) peer: Option<String>,
    /// All certificates that it showed.
    pub(crate) shown: Option<PeerCertificates>,
    /// The connection that it came on.
    pub(crate) from: Option<std::net::SocketAddr>,
}

#[derive(Clone)]
pub(crate) struct Stub {
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
    scheme: &'static str,
}

struct Shared {
    files: Mutex<BTreeMap<String, Entry>>,
    faults: Mutex<BTreeMap<(String, String), Fault>>,
    seen: Mutex<Vec<Seen>>,
    /// How often held copies were let go.
    released: watch::Sender<u64>,
    library: Library,
    scheme: &'static str,
    client: Client,
    server: Mutex<Option<RunningServer>>,
}

fn error(status: u16, text: &str) -> Response<Body> {
    let mut response = Response::new(body::full(text.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

pub(crate) fn adler32(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(&[Algorithm::Adler32]);
    hasher.update(bytes);
    hasher.finish().get(Algorithm::Adler32).unwrap().hex()
}

impl Stub {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// Behind TLS, with a certificate of this authority.
    pub(crate) fn start_encrypted(authority: &CertificateAuthority) -> Self {
        let identity = authority.issue(&[San::from("127.0.0.1")], "stub").unwrap();
        Self::start_with(Some(weir_http::server_config(&identity).unwrap()))
    }

    /// With TLS.
    pub(crate) fn start_with(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            files: Mutex::default(),
            faults: Mutex::default(),
            seen: Mutex::default(),
            released: watch::Sender::new(0),
            library: Library::default(),
            scheme,
            client: Client::new(ClientConfig::new(TrustRoots::default())).unwrap(),
            server: Mutex::default(),
        });
        let listener = weir_http::bind(loopback()).unwrap();
        let address = listener.local_addr().unwrap();
        let inner = shared.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let shared = inner.clone();
            async move { Ok::<_, Infallible>(shared.answer(request).await) }
        });
        let server = weir_http::serve(listener, tls, ServerLimits::default(), service).unwrap();
        *shared.server.lock() = Some(server);
        Self {
            shared,
            address,
            scheme,
        }
    }

    /// The tape behind it.
    pub(crate) fn library(&self) -> &Library {
        &self.shared.library
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.shared.write(path, Bytes::copy_from_slice(bytes));
    }

    /// As if it had been written so long ago.
    pub(crate) fn put_aged(&self, path: &str, bytes: &[u8], age: Duration) {
        let entry = Entry {
            modified: SystemTime::now() - age,
            ..Entry::now(Bytes::copy_from_slice(bytes))
        };
        self.shared.files.lock().insert(path.to_owned(), entry);
    }

    pub(crate) fn make_directory(&self, path: &str) {
        let entry = Entry {
            directory: true,
            ..Entry::now(Bytes::from_static(b"."))
        };
        self.shared.files.lock().insert(path.to_owned(), entry);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Bytes> {
        self.shared.file(path)
    }

    /// From now on this method on this path goes wrong.
    pub(crate) fn fault(&self, method: &str, path: &str, fault: Fault) {
        self.shared
            .faults
            .lock()
            .insert((method.to_owned(), path.to_owned()), fault);
    }

    pub(crate) fn heal(&self, method: &str, path: &str) {
        self.shared.faults.lock().remove(&(method.to_owned(), path.to_owned()));
    }

    /// Lets held copies go on: all that were seen.
    pub(crate) fn release(&self) {
        self.shared.released.send_modify(|times| *times += 1);
    }

    pub(crate) fn all_seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }

    pub(crate) fn seen(&self, method: &str, path: &str) -> Vec<Seen> {
        let seen = self.shared.seen.lock();
        seen.iter()
            .filter(|seen| seen.method == method && seen.path == path)
            .cloned()
            .collect()
    }
}

impl Shared {
    #[expect(clippy::too_many_lines, reason = "a table of faults")]
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let method = request.method().as_str().to_owned();
        let path = request.uri().path().to_owned();
        let headers = request.headers().clone();
        // Before anybody sees it, so that no release is missed.
        let released = self.released.subscribe();
        self.seen.lock().push(Seen {
            method: method.clone(),
            path: path.clone(),
            query: request.uri().query().map(str::to_owned),
            headers: headers.clone(),
            peer: request.extensions().get().map(crate::proxies::names),
            shown: request.extensions().get().cloned(),
            from: request
                .extensions()
                .get::<weir_http::ConnectionInfo>()
                .map(|info| info.peer),
        });
        let fault = self.fault(&method, &path);
        match &fault {
            Some(Fault::Status(status, text) | Fault::StatusTimes(status, text, _)) => return error(*status, text),
            Some(Fault::Appears(bytes, status, text)) => {
                self.write(&path, Bytes::from_static(bytes));
                return error(*status, text);
            }
            Some(Fault::Echoes(status)) => {
                let text = format!("cannot do {method} on {}: sorry", request.uri());
                return error(*status, &text);
            }
            Some(Fault::Endless(status, start, again)) => {
                let pieces = futures_util::stream::repeat(Bytes::from_static(again.as_bytes()));
                let start = futures_util::stream::iter([Bytes::from_static(start.as_bytes())]);
                let mut response = Response::new(body::stream(start.chain(pieces).map(Ok)));
                *response.status_mut() = StatusCode::from_u16(*status).unwrap();
                return response;
            }
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::Slow(pause)) => tokio::time::sleep(*pause).await,
            Some(Fault::Redirect(to)) => {
                let mut response = error(307, "");
                response.headers_mut().insert("location", to.parse().unwrap());
                return response;
            }
            _ => {}
        }
        if path.starts_with("/api/v1/") || path.starts_with("/.well-known/") {
            let host = headers
                .get("host")
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default();
            let host = format!("{}://{host}", self.scheme);
            let bytes = request
                .into_body()
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes);
            return match self.library.answer(&host, &method, &path, &bytes.unwrap_or_default()) {
                Some((status, json)) => error(status, &json.to_string()),
                None => error(404, ""),
            };
        }
        match method.as_str() {
            "HEAD" => self.head(&path, &headers, fault.as_ref()),
            "GET" => match self.file(&path) {
                Some(bytes) => Response::new(body::full(bytes)),
                None => error(404, "no such file"),
            },
            "PUT" => {
                if let Some(Fault::WritesThenSilent(bytes)) = fault {
                    self.write(&path, Bytes::from_static(bytes));
                    // Reads on, so that the client has no reason to stop.
                    let _ = request.into_body().collect().await;
                    return std::future::pending().await;
                }
                let bytes = request
                    .into_body()
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes);
                let Ok(bytes) = bytes else { return error(400, "cut") };
                self.write(&path, bytes);
                error(201, "")
            }
            "DELETE" => {
                // A directory goes with all that is in it (RFC 4918 section 9.6.1).
                let below = format!("{path}/");
                let mut files = self.files.lock();
                let before = files.len();
                files.retain(|name, _| *name != path && !name.starts_with(&below));
                error(if files.len() < before { 204 } else { 404 }, "")
            }
            "PROPFIND" => self.propfind(&path, headers.get("depth").is_some_and(|depth| depth == "1")),
            "COPY" => {
                if self.files.lock().get(&path).is_some_and(|entry| entry.directory) {
                    return error(409, &format!("{path} is a directory"));
                }
                if let Some(Fault::WritesThenSilent(bytes)) = fault {
                    self.write(&path, Bytes::from_static(bytes));
                    return std::future::pending().await;
                }
                self.copy(path, &headers, fault, released)
            }
            _ => error(405, "not supported"),
        }
    }

    fn fault(&self, method: &str, path: &str) -> Option<Fault> {
        let mut faults = self.faults.lock();
        let fault = faults.get_mut(&(method.to_owned(), path.to_owned()))?;
        if let Fault::StatusTimes(_, _, left) | Fault::SaysTimes(_, left) = fault {
            if *left == 0 {
                return None;
            }
            *left -= 1;
        }
        Some(fault.clone())
    }

    fn file(&self, path: &str) -> Option<Bytes> {
        Some(self.files.lock().get(path)?.bytes.clone())
    }

    fn write(&self, path: &str, bytes: Bytes) {
        self.files.lock().insert(path.to_owned(), Entry::now(bytes));
    }

    fn propfind(&self, path: &str, deep: bool) -> Response<Body> {
        let files = self.files.lock();
        if !files.contains_key(path) {
            return error(404, "");
        }
        let below = format!("{path}/");
        let inside = |name: &str| deep && name.strip_prefix(&below).is_some_and(|rest| !rest.contains('/'));
        let shown = files.iter().filter(|(name, _)| *name == path || inside(name));
        let shown = shown.map(|(name, entry)| {
            let kind = if entry.directory { "<D:collection/>" } else { "" };
            let (size, modified) = (entry.bytes.len(), httpdate::fmt_http_date(entry.modified));
            format!(
                "<D:response><D:href>{name}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype>\
                <D:getcontentlength>{size}</D:getcontentlength><D:getlastmodified>{modified}</D:getlastmodified>\
                </D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            )
        });
        let shown = shown.collect::<String>();
        error(207, &format!("<D:multistatus xmlns:D=\"DAV:\">{shown}</D:multistatus>"))
    }

    fn head(&self, path: &str, headers: &HeaderMap, fault: Option<&Fault>) -> Response<Body> {
        let wants = headers.contains_key("want-digest");
        if matches!(fault, Some(Fault::RefusesDigest)) && wants {
            return error(400, "");
        }
        let Some(entry) = self.files.lock().get(path).cloned() else {
            return error(404, "");
        };
        let bytes = entry.bytes;
        let mut response = error(200, "");
        response.headers_mut().insert("content-length", bytes.len().into());
        if !matches!(fault, Some(Fault::Timeless)) {
            let date = httpdate::fmt_http_date(entry.modified);
            response.headers_mut().insert("last-modified", date.parse().unwrap());
            let tag = format!(
                "\"{:?}\"",
                entry.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap()
            );
            response.headers_mut().insert("etag", tag.parse().unwrap());
        }
        if wants && !matches!(fault, Some(Fault::NoDigest | Fault::RefusesDigest)) {
            let digest = format!("adler32={}", adler32(&bytes));
            response.headers_mut().insert("digest", digest.parse().unwrap());
        }
        response
    }

    fn copy(
        self: &Arc<Self>,
        path: String,
        headers: &HeaderMap,
        fault: Option<Fault>,
        mut released: watch::Receiver<u64>,
    ) -> Response<Body> {
        let (lines, pieces) = tokio::sync::mpsc::channel::<Bytes>(16);
        let shared = self.clone();
        let headers = headers.clone();
        tokio::spawn(async move {
            let marker = |bytes: usize| {
                let text = format!(
                    "Perf Marker\n Timestamp: 1\n Stripe Index: 0\n Stripe Bytes Transferred: {bytes}\n Total Stripe Count: 1\nEnd\n"
                );
                Bytes::from(text)
            };
            match fault {
                Some(Fault::Says(text) | Fault::SaysTimes(text, _)) => {
                    return drop(lines.send(Bytes::from_static(text.as_bytes())).await);
                }
                Some(Fault::Leaves(bytes, text)) => {
                    shared.write(&path, Bytes::from_static(bytes));
                    return drop(lines.send(Bytes::from_static(text.as_bytes())).await);
                }
                Some(Fault::Hangs(text)) => {
                    let _ = lines.send(Bytes::from_static(text.as_bytes())).await;
                    return lines.closed().await;
                }
                Some(Fault::Held) => loop {
                    if lines.send(marker(0)).await.is_err() {
                        return;
                    }
                    tokio::select! {
                        _ = released.changed() => break,
                        () = lines.closed() => return,
                        () = tokio::time::sleep(Duration::from_millis(50)) => {}
                    }
                },
                _ => {}
            }
            let outcome = shared
                .carry(&path, &headers, matches!(fault, Some(Fault::Corrupts)))
                .await;
            if matches!(fault, Some(Fault::WritesThenCuts | Fault::WritesHalfThenCuts)) {
                let whole = shared.file(&path).unwrap_or_default();
                if matches!(fault, Some(Fault::WritesHalfThenCuts)) {
                    shared.write(&path, whole.slice(..whole.len() / 2));
                }
                return drop(lines.send(marker(1)).await);
            }
            match outcome {
                Ok(bytes) => {
                    let _ = lines.send(marker(bytes)).await;
                    let _ = lines.send(Bytes::from_static(b"success: Created\n")).await;
                }
                Err(text) => drop(lines.send(Bytes::from(format!("failure: {text}\n"))).await),
            }
        });
        let stream = futures_util::stream::unfold(pieces, |mut pieces| async move {
            let piece = pieces.recv().await?;
            Some((Ok(piece), pieces))
        });
        let mut response = Response::new(body::stream(stream));
        *response.status_mut() = StatusCode::CREATED;
        response
    }

    /// Does the copy, as pull or push.
    async fn carry(&self, path: &str, headers: &HeaderMap, corrupt: bool) -> Result<usize, String> {
        let text = |name: &str| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let inner = |method: Method, url: &str, body: Body| {
            let mut request = Request::new(body);
            *request.method_mut() = method;
            *request.uri_mut() = url.parse().unwrap();
            if let Some(token) = headers.get("transferheaderauthorization") {
                request.headers_mut().insert("authorization", token.clone());
            }
            request
        };
        if let Some(source) = text("source") {
            let response = self.client.send(inner(Method::GET, &source, body::empty())).await;
            let response = response.map_err(|error| format!("could not connect to source: {error}"))?;
            if !response.status().is_success() {
                return Err(format!("source answered {}", response.status()));
            }
            let mut bytes = response
                .into_body()
                .collect()
                .await
                .map_err(|error| error.to_string())?
                .to_bytes()
                .to_vec();
            if corrupt && let Some(first) = bytes.first_mut() {
                *first ^= 1;
            }
            let n = bytes.len();
            self.write(path, bytes.into());
            return Ok(n);
        }
        let Some(destination) = text("destination") else {
            return Err("neither Source nor Destination".into());
        };
        let Some(bytes) = self.file(path) else {
            return Err("no such file".into());
        };
        let n = bytes.len();
        let response = self
            .client
            .send(inner(Method::PUT, &destination, body::full(bytes)))
            .await;
        let response = response.map_err(|error| format!("could not connect to destination: {error}"))?;
        if response.status().is_success() {
            Ok(n)
        } else {
            Err(format!("destination answered {}", response.status()))
        }
    }
}

#[tokio::test]
async fn a_copy_that_was_seen_misses_no_release() {
    // On a busy machine some were held for ever.
    let stub = Stub::start();
    stub.fault("COPY", "/held", Fault::Held);
    let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
    for round in 1..=20 {
        let request = Request::builder().method("COPY").uri(stub.url("/held"));
        let answer = tokio::spawn({
            let (client, request) = (client.clone(), request.body(body::empty()).unwrap());
            async move { client.send(request).await }
        });
        while stub.seen("COPY", "/held").len() < round {
            tokio::task::yield_now().await;
        }
        stub.release();
        let answer = answer.await.unwrap().unwrap().into_body();
        let text = tokio::time::timeout(Duration::from_secs(20), answer.collect()).await;
        assert!(text.is_ok(), "round {round}");
    }
}
