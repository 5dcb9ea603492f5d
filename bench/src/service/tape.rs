//! The tape of a stub: whatever is asked for comes online after a while (WLCG Tape REST API, version 1).

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// How long it takes from a request until all of its files are on disk.
const DELAY: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Tape(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// When they came, and for what.
    requests: Vec<(Instant, Vec<String>)>,
    wanted: usize,
    polls: u64,
    releases: u64,
    released: usize,
    cancelled: usize,
}

/// Whether a request is about tape.
pub(super) fn is_about(path: &str) -> bool {
    path.starts_with("/api/v1/") || path == "/.well-known/wlcg-tape-rest-api"
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

impl Tape {
    fn look<T>(&self, at: impl FnOnce(&mut Seen) -> T) -> T {
        at(&mut self.0.lock())
    }

    /// The requests so far.
    pub(super) fn stats(&self) -> Value {
        self.look(|seen| {
            json!({ "requests": seen.requests.len(), "wanted": seen.wanted, "polls": seen.polls,
                "releases": seen.releases, "released": seen.released, "cancelled": seen.cancelled })
        })
    }

    /// The answer to a request; `host`: as its client names this storage.
    pub(super) fn answer(&self, host: &str, method: &str, path: &str, body: &Bytes) -> (StatusCode, Value) {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let parts = path.trim_matches('/').split('/').collect::<Vec<_>>();
        match (method, &parts[..]) {
            ("GET", [".well-known", _]) => {
                let endpoint = json!({ "uri": format!("https://{host}/api/v1"), "version": "v1" });
                (StatusCode::OK, json!({ "sitename": "stub", "endpoints": [endpoint] }))
            }
            ("POST", ["api", "v1", "stage"]) => self.look(|seen| seen.stage(&body)),
            ("GET", ["api", "v1", "stage", id]) => self.look(|seen| seen.status(id)),
            ("POST", ["api", "v1", "stage", _, "cancel"]) => self.look(|seen| {
                seen.cancelled += strings(&body["paths"]).count();
                (StatusCode::OK, Value::Null)
            }),
            ("POST", ["api", "v1", "release", _]) => self.look(|seen| {
                seen.releases += 1;
                seen.released += strings(&body["paths"]).count();
                (StatusCode::OK, Value::Null)
            }),
            _ => (StatusCode::NOT_FOUND, Value::Null),
        }
    }
}

impl Seen {
    fn stage(&mut self, body: &Value) -> (StatusCode, Value) {
        let files = body["files"].as_array().into_iter().flatten();
        let paths = files.filter_map(|file| file["path"].as_str().map(str::to_owned));
        let paths = paths.collect::<Vec<_>>();
        self.wanted += paths.len();
        self.requests.push((Instant::now(), paths));
        let id = (self.requests.len() - 1).to_string();
        (StatusCode::CREATED, json!({ "requestId": id }))
    }

    fn status(&mut self, id: &str) -> (StatusCode, Value) {
        self.polls += 1;
        let Some((since, paths)) = id.parse::<usize>().ok().and_then(|id| self.requests.get(id)) else {
            return (StatusCode::NOT_FOUND, Value::Null);
        };
        let online = since.elapsed() >= DELAY;
        let files = paths.iter().map(|path| json!({ "path": path, "onDisk": online }));
        (StatusCode::OK, json!({ "id": id, "files": files.collect::<Vec<_>>() }))
    }
}
