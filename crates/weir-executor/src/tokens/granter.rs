//! An issuer that grants, refuses and falls silent as it is told. Unit tests of the refresher use it too.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_auth::{
    Secret, SigningKey,
    ca::{CertificateAuthority, San},
    signing::jwks,
};
use weir_http::{Body, RunningServer, ServerLimits, body, form};

/// The fields of a request.
pub(crate) type Form = HashMap<String, String>;

/// Status, body, and how long it takes.
pub(crate) type Reply = (u16, String, Duration);

type Said = Box<dyn FnMut(&Form) -> Reply + Send>;

pub(crate) const AT_ONCE: Duration = Duration::ZERO;
pub(crate) const NEVER: Duration = Duration::from_secs(600);

pub(crate) struct Granter {
    pub(crate) url: String,
    pub(crate) shared: Arc<Shared>,
    key: SigningKey,
    _server: RunningServer,
}

pub(crate) struct Shared {
    url: String,
    keys: Value,
    said: Mutex<Said>,
    asked: Mutex<Vec<Form>>,
    now: AtomicUsize,
    at_once: AtomicUsize,
    /// Seconds in `Retry-After` of all answers; none if it is zero.
    pub(crate) wait: AtomicUsize,
}

impl Granter {
    pub(crate) fn start(authority: &CertificateAuthority, said: impl FnMut(&Form) -> Reply + Send + 'static) -> Self {
        let identity = authority.issue(&[San::from("127.0.0.1")], "issuer").unwrap();
        let listener = weir_http::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let key = SigningKey::generate().unwrap();
        let shared = Arc::new(Shared {
            url: url.clone(),
            keys: jwks([&key]),
            said: Mutex::new(Box::new(said)),
            asked: Mutex::default(),
            now: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            wait: AtomicUsize::new(0),
        });
        let inner = shared.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let shared = inner.clone();
            async move { Ok::<_, Infallible>(shared.answer(request).await) }
        });
        let tls = weir_http::server_config(&identity).unwrap();
        let server = weir_http::serve(listener, Some(tls), ServerLimits::default(), service).unwrap();
        Self {
            url,
            shared,
            key,
            _server: server,
        }
    }

    pub(crate) fn says(&self, said: impl FnMut(&Form) -> Reply + Send + 'static) {
        *self.shared.said.lock() = Box::new(said);
    }

    /// The requests sent, with their `authorization` header.
    pub(crate) fn forms(&self) -> Vec<Form> {
        self.shared.asked.lock().clone()
    }

    /// Kinds of requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        let kind = |form: &Form| form["grant_type"].rsplit(':').next().unwrap().to_owned();
        self.forms().iter().map(kind).collect()
    }

    /// Most requests that were open at once.
    pub(crate) fn at_once(&self) -> usize {
        self.shared.at_once.load(SeqCst)
    }

    /// A token of this issuer that ends so many seconds from now.
    pub(crate) fn token(&self, name: &str, seconds: i64) -> Secret {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        self.sign(&json!({
            "iss": self.url, "sub": name, "exp": now + seconds, "scope": "storage.read:/a", "aud": "https://storage"
        }))
    }

    pub(crate) fn sign(&self, claims: &Value) -> Secret {
        self.key.sign(claims).unwrap()
    }
}

pub(crate) fn unsigned(claims: &Value) -> Secret {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    Secret::new(format!("{}.{}.c2ln", part(&json!({ "alg": "ES256" })), part(claims)))
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() == "/jwks" {
            return Response::new(body::full(self.keys.to_string()));
        }
        if request.uri().path().starts_with("/.well-known") {
            let url = &self.url;
            let document = json!({
                "issuer": url, "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/jwks")
            });
            return Response::new(body::full(document.to_string()));
        }
        let authorization = request.headers()["authorization"].to_str().unwrap().to_owned();
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        let mut form = form::read(&bytes).unwrap().into_iter().collect::<Form>();
        form.insert("authorization".into(), authorization);
        self.at_once.fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
        let (status, text, after) = (self.said.lock())(&form);
        self.asked.lock().push(form);
        tokio::time::sleep(after).await;
        self.now.fetch_sub(1, SeqCst);
        let mut response = Response::new(body::full(text));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let wait = self.wait.load(SeqCst);
        if wait > 0 {
            response.headers_mut().insert(http::header::RETRY_AFTER, wait.into());
        }
        response
    }
}

/// Grants tokens of so many seconds, and turns refresh tokens with each use: `access-1` and `refresh-1`, …
pub(crate) fn turning(seconds: u64) -> impl FnMut(&Form) -> Reply + Send {
    let (mut valid, mut n) = (None::<String>, 0);
    move |form| {
        if form["grant_type"] == "refresh_token" && valid.as_ref() != form.get("refresh_token") {
            return refusal("invalid_grant");
        }
        n += 1;
        valid = Some(format!("refresh-{n}"));
        let answer = json!({ "access_token": format!("access-{n}"), "refresh_token": valid, "expires_in": seconds });
        (200, answer.to_string(), AT_ONCE)
    }
}

pub(crate) fn refusal(error: &str) -> Reply {
    let text = json!({ "error": error, "error_description": "storage.read:/a is not yours" });
    (400, text.to_string(), AT_ONCE)
}
