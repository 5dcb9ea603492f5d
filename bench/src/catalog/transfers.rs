//! A transfer service that moves nothing: it takes jobs, and says of all files that they move, or, once it is told to, that they have come.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;
use weir_http::{Body, RunningServer, ServerLimits, body};

/// The namespace of its job ids (RFC 9562 section 6.6, that of URLs).
const NAMESPACE: Uuid = Uuid::NAMESPACE_URL;

/// The service; it ends with this.
pub(super) struct Transfers {
    pub(super) url: String,
    shared: Arc<Shared>,
    _server: RunningServer,
}

#[derive(Default)]
struct Shared {
    /// The metadata of each job's files.
    jobs: Mutex<HashMap<Uuid, Vec<Value>>>,
    have_come: AtomicBool,
}

impl Transfers {
    pub(super) fn start(address: SocketAddr) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let shared = own.clone();
            async move { Ok::<_, Infallible>(shared.answer(request).await) }
        });
        let listener = weir_http::bind(address).with_context(|| format!("could not listen on {address}"))?;
        Ok(Self {
            url: format!("http://{address}"),
            shared,
            _server: weir_http::serve(listener, None, ServerLimits::default(), service)?,
        })
    }

    /// Files that were submitted.
    pub(super) fn submitted(&self) -> usize {
        self.shared.jobs.lock().values().map(Vec::len).sum()
    }

    /// All files have come, those of later jobs as soon as they are submitted.
    pub(super) fn let_come(&self) {
        self.shared.have_come.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, content) = request.into_parts();
        let path = head.uri.path();
        if path == "/whoami" {
            return said(&json!({ "vos_id": [NAMESPACE], "vos": ["bench"], "user_dn": "bench" }));
        }
        if head.method == Method::POST && path == "/jobs" {
            let Ok(content) = body::read_limited(content, 64 << 20, Duration::from_secs(60)).await else {
                return status(StatusCode::BAD_REQUEST);
            };
            return self.take(&serde_json::from_slice(&content).unwrap_or_default());
        }
        match path.strip_prefix("/jobs/").filter(|_| head.method == Method::GET) {
            Some(ids) => self.tell(ids),
            None => status(StatusCode::NOT_FOUND),
        }
    }

    fn take(&self, job: &Value) -> Response<Body> {
        let Some(sid) = job["params"]["sid"].as_str() else {
            return status(StatusCode::BAD_REQUEST);
        };
        let id = Uuid::new_v5(&NAMESPACE, sid.as_bytes());
        let files = job["files"].as_array().map(Vec::as_slice).unwrap_or_default();
        let files = files.iter().map(|file| file["metadata"].clone()).collect();
        self.jobs.lock().insert(id, files);
        said(&json!({ "job_id": id }))
    }

    fn tell(&self, ids: &str) -> Response<Body> {
        let state = if self.have_come.load(Ordering::SeqCst) {
            "FINISHED"
        } else {
            "ACTIVE"
        };
        let jobs = self.jobs.lock();
        let job = |id: &str| {
            let files = id.parse().ok().and_then(|id: Uuid| jobs.get(&id));
            let Some(files) = files else {
                return json!({ "job_id": id, "http_status": "404 Not Found" });
            };
            let file = |metadata: &Value| json!({ "file_state": state, "file_metadata": metadata, "finish_time": "2026-11-28T10:00:00" });
            let files: Vec<Value> = files.iter().map(file).collect();
            json!({ "job_id": id, "http_status": "200 Ok", "job_state": state, "files": files })
        };
        said(&Value::Array(ids.split(',').map(job).collect()))
    }
}

fn said(value: &Value) -> Response<Body> {
    Response::new(body::full(value.to_string()))
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = status;
    response
}
