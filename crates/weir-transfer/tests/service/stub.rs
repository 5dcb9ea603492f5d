//! A storage in memory that does HTTP-TPC, and whatever else it is told to.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::Notify;
use weir_http::{Body, Client, ClientConfig, RunningServer, ServerLimits, TrustRoots, body};
use weir_units::{Algorithm, Hasher};

use crate::lab::loopback;

/// What a request comes to instead of what it asks for.
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
    /// COPY: the bytes are written, then the connection breaks without a verdict.
    WritesThenCuts,
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
}

#[derive(Clone)]
pub(crate) struct Stub {
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
}

struct Shared {
    files: Mutex<BTreeMap<String, Bytes>>,
    faults: Mutex<BTreeMap<(String, String), Fault>>,
    seen: Mutex<Vec<Seen>>,
    release: Notify,
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
        let shared = Arc::new(Shared {
            files: Mutex::default(),
            faults: Mutex::default(),
            seen: Mutex::default(),
            release: Notify::new(),
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
        let server = weir_http::serve(listener, None, ServerLimits::default(), service).unwrap();
        *shared.server.lock().unwrap() = Some(server);
        Self { shared, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.shared
            .files
            .lock()
            .unwrap()
            .insert(path.to_owned(), Bytes::copy_from_slice(bytes));
    }

    pub(crate) fn get(&self, path: &str) -> Option<Bytes> {
        self.shared.files.lock().unwrap().get(path).cloned()
    }

    /// From now on this method on this path goes wrong.
    pub(crate) fn fault(&self, method: &str, path: &str, fault: Fault) {
        self.shared
            .faults
            .lock()
            .unwrap()
            .insert((method.to_owned(), path.to_owned()), fault);
    }

    pub(crate) fn heal(&self, method: &str, path: &str) {
        self.shared
            .faults
            .lock()
            .unwrap()
            .remove(&(method.to_owned(), path.to_owned()));
    }

    /// Lets held copies go on.
    pub(crate) fn release(&self) {
        self.shared.release.notify_waiters();
    }

    pub(crate) fn seen(&self, method: &str, path: &str) -> Vec<Seen> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter()
            .filter(|seen| seen.method == method && seen.path == path)
            .cloned()
            .collect()
    }
}

impl Shared {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let method = request.method().as_str().to_owned();
        let path = request.uri().path().to_owned();
        let headers = request.headers().clone();
        self.seen.lock().unwrap().push(Seen {
            method: method.clone(),
            path: path.clone(),
            headers: headers.clone(),
        });
        let fault = self.fault(&method, &path);
        match &fault {
            Some(Fault::Status(status, text) | Fault::StatusTimes(status, text, _)) => return error(*status, text),
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::Redirect(to)) => {
                let mut response = error(307, "");
                response.headers_mut().insert("location", to.parse().unwrap());
                return response;
            }
            _ => {}
        }
        match method.as_str() {
            "HEAD" => self.head(&path, &headers, fault.as_ref()),
            "GET" => match self.file(&path) {
                Some(bytes) => Response::new(body::full(bytes)),
                None => error(404, "no such file"),
            },
            "PUT" => {
                let bytes = request
                    .into_body()
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes);
                let Ok(bytes) = bytes else { return error(400, "cut") };
                self.files.lock().unwrap().insert(path, bytes);
                error(201, "")
            }
            "DELETE" => match self.files.lock().unwrap().remove(&path) {
                Some(_) => error(204, ""),
                None => error(404, "no such file"),
            },
            "COPY" => self.copy(path, &headers, fault),
            _ => error(405, "not supported"),
        }
    }

    fn fault(&self, method: &str, path: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
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
        self.files.lock().unwrap().get(path).cloned()
    }

    fn head(&self, path: &str, headers: &HeaderMap, fault: Option<&Fault>) -> Response<Body> {
        let wants = headers.contains_key("want-digest");
        if matches!(fault, Some(Fault::RefusesDigest)) && wants {
            return error(400, "");
        }
        let Some(bytes) = self.file(path) else {
            return error(404, "");
        };
        let mut response = error(200, "");
        response.headers_mut().insert("content-length", bytes.len().into());
        if wants && !matches!(fault, Some(Fault::NoDigest | Fault::RefusesDigest)) {
            let digest = format!("adler32={}", adler32(&bytes));
            response.headers_mut().insert("digest", digest.parse().unwrap());
        }
        response
    }

    fn copy(self: &Arc<Self>, path: String, headers: &HeaderMap, fault: Option<Fault>) -> Response<Body> {
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
                Some(Fault::Hangs(text)) => {
                    let _ = lines.send(Bytes::from_static(text.as_bytes())).await;
                    return lines.closed().await;
                }
                Some(Fault::Held) => loop {
                    if lines.send(marker(0)).await.is_err() {
                        return;
                    }
                    tokio::select! {
                        () = shared.release.notified() => break,
                        () = lines.closed() => return,
                        () = tokio::time::sleep(Duration::from_millis(50)) => {}
                    }
                },
                _ => {}
            }
            let outcome = shared
                .carry(&path, &headers, matches!(fault, Some(Fault::Corrupts)))
                .await;
            if matches!(fault, Some(Fault::WritesThenCuts)) {
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
            self.files.lock().unwrap().insert(path.to_owned(), bytes.into());
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
