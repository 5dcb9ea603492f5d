//! The WLCG Tape REST API, version 1, as a client: discovery, stage, poll, cancel, release, archiveinfo.
//!
//! URLs end as `gfal2` has them, which is what storages are used to (`/stage/`, `/archiveinfo/`).
//! Bulk: one request speaks of thousands of files. Paths are compared with doubled slashes collapsed, as `gfal2` does.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use http::{HeaderValue, Method, Request, StatusCode, header};
use parking_lot::Mutex;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use weir_http::{Client, body};
use weir_world::{ErrorClass, Failure, Party, Phase, Retry};

use crate::requests::wire::Side;
use crate::surl::Surl;
use crate::{
    requests::{failure::Scene, wire::bearer},
    tokens::Right,
};

/// Lifetime of a storage's discovery document.
const DISCOVERY_KEPT: Duration = Duration::from_secs(3600);
/// Largest answer that is read: a status of 100,000 files is some 20 MB.
const ANSWER_MAX: usize = 64 << 20;

/// Longest name of a request, or of a site, that is taken: each file of a request keeps it.
const NAME_MAX: usize = 256;

/// A tape endpoint, and by which right it is asked.
#[derive(Debug, Clone)]
pub(crate) struct Tape {
    /// `https://host:port`.
    pub(crate) endpoint: String,
    pub(crate) party: Party,
    pub(crate) right: Right,
}

/// A file of a stage request.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) path: String,
    /// Seconds for which it is to stay on disk.
    pub(crate) lifetime: Option<u32>,
    /// Handed over to the tape system, under the name of its site.
    pub(crate) metadata: Option<Value>,
}

/// Where a file of a stage request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Staged {
    /// On its way.
    Pending,
    /// On disk.
    Online,
    /// It will not come.
    Failed(String),
}

/// Where a copy is, in the words of the API; or why that is not known.
pub(crate) type Locality = Result<String, String>;

#[derive(Debug, Clone, Deserialize)]
struct Discovery {
    #[serde(default)]
    sitename: Option<String>,
    endpoints: Vec<TapeEndpoint>,
}

#[derive(Debug, Clone, Deserialize)]
struct TapeEndpoint {
    uri: String,
    version: String,
}

#[derive(Debug, Clone)]
struct Api {
    uri: String,
    site: Option<String>,
    known: Instant,
}

#[derive(Debug, Deserialize)]
struct StageAnswer {
    #[serde(rename = "requestId")]
    request_id: String,
}

#[derive(Debug, Deserialize)]
struct StatusAnswer {
    files: Vec<StatusFile>,
}

#[derive(Debug, Deserialize)]
struct StatusFile {
    path: String,
    #[serde(default, rename = "onDisk")]
    on_disk: Option<bool>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct InfoFile {
    path: String,
    #[serde(default)]
    locality: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

/// A client of tape endpoints. It caches their discovery documents.
#[derive(Debug)]
pub(crate) struct TapeClient {
    client: Client,
    limit: Duration,
    apis: Mutex<HashMap<String, Api>>,
}

/// A path with its doubled slashes collapsed.
pub(crate) fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !plain.ends_with('/') {
            plain.push(c);
        }
    }
    plain
}

fn scene(tape: &Tape) -> Scene {
    Scene::new(tape.party, Phase::Preparation)
}

impl TapeClient {
    pub(crate) fn new(client: Client, limit: Duration) -> Self {
        Self {
            client,
            limit,
            apis: Mutex::default(),
        }
    }

    /// Asks that these be brought online. Gives the storage's name for the request.
    pub(crate) async fn stage(&self, tape: &Tape, files: &[Wanted]) -> Result<String, Failure> {
        let api = self.api(tape).await?;
        let file = |wanted: &Wanted| {
            let mut file = json!({ "path": wanted.path });
            if let Some(seconds) = wanted.lifetime {
                file["diskLifetime"] = json!(format!("PT{seconds}S"));
            }
            if let (Some(site), Some(metadata)) = (&api.site, &wanted.metadata) {
                file["targetedMetadata"] = json!({ site: metadata });
            }
            file
        };
        let body = json!({ "files": files.iter().map(file).collect::<Vec<_>>() });
        let url = format!("{}/stage/", api.uri);
        let what = format!("POST {url}");
        let (status, text) = self.ask(tape, Method::POST, &url, Some(&body)).await?;
        if status != StatusCode::CREATED && status != StatusCode::OK {
            return Err(refused(tape, &what, status, &text));
        }
        request_of(tape, &what, &text)
    }

    /// Where the files of a request stand, by path. None: the storage does not know the request.
    pub(crate) async fn poll(&self, tape: &Tape, request: &str) -> Result<Option<HashMap<String, Staged>>, Failure> {
        let api = self.api(tape).await?;
        let url = format!("{}/stage/{}", api.uri, segment(request));
        let what = format!("GET {url}");
        let (status, text) = self.ask(tape, Method::GET, &url, None).await?;
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            _ => return Err(refused(tape, &what, status, &text)),
        }
        let answer: StatusAnswer = read(tape, &what, &text)?;
        Ok(Some(
            answer
                .files
                .into_iter()
                .map(|file| (plain(&file.path), staged(&file)))
                .collect(),
        ))
    }

    /// Cancels the requests of these files, and releases the pins of those that were staged.
    pub(crate) async fn give_back(
        &self,
        tape: &Tape,
        request: &str,
        paths: &[String],
        staged: bool,
    ) -> Result<(), Failure> {
        let api = self.api(tape).await?;
        let body = json!({ "paths": paths });
        if !staged {
            self.tell(tape, &format!("{}/stage/{}/cancel", api.uri, segment(request)), &body)
                .await?;
        }
        self.tell(tape, &format!("{}/release/{}", api.uri, segment(request)), &body)
            .await
    }

    /// A request whose answer has no content. Files that the storage no longer knows need not be cancelled.
    async fn tell(&self, tape: &Tape, url: &str, body: &Value) -> Result<(), Failure> {
        let (status, text) = self.ask(tape, Method::POST, url, Some(body)).await?;
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::BAD_REQUEST => Ok(()),
            _ => Err(refused(tape, &format!("POST {url}"), status, &text)),
        }
    }

    /// Where these files are, by path.
    pub(crate) async fn localities(&self, tape: &Tape, paths: &[String]) -> Result<HashMap<String, Locality>, Failure> {
        let api = self.api(tape).await?;
        let url = format!("{}/archiveinfo/", api.uri);
        let what = format!("POST {url}");
        let (status, text) = self
            .ask(tape, Method::POST, &url, Some(&json!({ "paths": paths })))
            .await?;
        if status != StatusCode::OK {
            return Err(refused(tape, &what, status, &text));
        }
        let files: Vec<InfoFile> = read(tape, &what, &text)?;
        let locality = |file: InfoFile| match (file.locality, file.error) {
            (Some(locality), _) => Ok(locality),
            (None, error) => Err(error.unwrap_or_else(|| "neither a locality nor an error".to_owned())),
        };
        Ok(files
            .into_iter()
            .map(|file| (plain(&file.path), locality(file)))
            .collect())
    }

    async fn api(&self, tape: &Tape) -> Result<Api, Failure> {
        let known = self.apis.lock().get(&tape.endpoint).cloned();
        if let Some(api) = known.filter(|api| api.known.elapsed() < DISCOVERY_KEPT) {
            return Ok(api);
        }
        let url = format!("{}/.well-known/wlcg-tape-rest-api", tape.endpoint);
        let what = format!("GET {url}");
        let (status, text) = self.ask(tape, Method::GET, &url, None).await?;
        let missing = |why: &str| {
            let mut failure = scene(tape).fail(ErrorClass::Protocol, format!("{} has no tape: {why}", tape.endpoint));
            failure.remedy =
                "submit without 'bring_online' and 'archive_timeout', or name a storage that offers the Tape REST API"
                    .into();
            failure.retry = Retry::Never;
            failure
        };
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::METHOD_NOT_ALLOWED => {
                return Err(missing(&format!("{what}: HTTP {status}")));
            }
            _ => return Err(refused(tape, &what, status, &text)),
        }
        let discovery: Discovery = read(tape, &what, &text)?;
        let ours = discovery
            .endpoints
            .into_iter()
            .find(|endpoint| endpoint.version == "v1");
        let Some(ours) = ours else {
            return Err(missing(
                "it offers no version of the Tape REST API that is known here (v1)",
            ));
        };
        let encrypted = tape.endpoint.starts_with("https://");
        if encrypted && !ours.uri.starts_with("https://") {
            return Err(missing("its Tape REST API is not encrypted, and no token goes there"));
        }
        let api = Api {
            uri: ours.uri.trim_end_matches('/').to_owned(),
            site: discovery.sitename.filter(|name| name.len() <= NAME_MAX),
            known: Instant::now(),
        };
        self.apis.lock().insert(tape.endpoint.clone(), api.clone());
        Ok(api)
    }

    async fn ask(
        &self,
        tape: &Tape,
        method: Method,
        url: &str,
        json: Option<&Value>,
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        let what = format!("{method} {url}");
        let mut request = Request::new(json.map_or_else(body::empty, |json| body::full(json.to_string())));
        *request.method_mut() = method;
        *request.uri_mut() = url
            .parse()
            .map_err(|_| scene(tape).fail(ErrorClass::Protocol, format!("{what}: no URL that can be requested")))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if json.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        // Requests are polled for longer than a token lives.
        let token = tape.right.now(scene(tape)).await?;
        let showing = tape.right.client(scene(tape)).await?;
        let client = showing.as_deref().unwrap_or(&self.client);
        if let Some(token) = token.as_ref().and_then(bearer) {
            headers.insert(header::AUTHORIZATION, token);
        }
        let response = client.send_within(request, self.limit).await;
        let response = response.map_err(|error| scene(tape).client(&what, &error))?;
        let status = response.status();
        let text = body::read_limited(response.into_body(), ANSWER_MAX, self.limit).await;
        let text = text.map_err(|error| scene(tape).fail(ErrorClass::Network, format!("{what}: {error}")))?;
        Ok((status, text.to_vec()))
    }
}

fn refused(tape: &Tape, what: &str, status: StatusCode, text: &[u8]) -> Failure {
    let problem: Option<Value> = serde_json::from_slice(text).ok();
    let said = |key: &str| problem.as_ref()?.get(key)?.as_str().map(str::to_owned);
    let text = match (said("title"), said("detail")) {
        (Some(title), Some(detail)) => format!("{title}: {detail}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => String::from_utf8_lossy(&text[..text.len().min(300)]).into_owned(),
    };
    scene(tape).status(what, status, &text)
}

/// The storage's name for a request that it took.
fn request_of(tape: &Tape, what: &str, text: &[u8]) -> Result<String, Failure> {
    let name = read::<StageAnswer>(tape, what, text)?.request_id;
    if name.len() > NAME_MAX {
        let text = format!(
            "{what}: the name of the request has {} bytes, at most {NAME_MAX} are taken",
            name.len()
        );
        return Err(scene(tape).fail(ErrorClass::Protocol, text));
    }
    Ok(name)
}

/// A request's name as one segment of a path: it came from the storage, and leads nowhere else.
fn segment(request: &str) -> String {
    percent_encoding::utf8_percent_encode(request, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
}

fn read<T: DeserializeOwned>(tape: &Tape, what: &str, text: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(text).map_err(|error| {
        let mut failure = scene(tape).fail(
            ErrorClass::Protocol,
            format!("{what}: an answer that makes no sense: {error}"),
        );
        failure.retry = Retry::Later;
        failure
    })
}

fn staged(file: &StatusFile) -> Staged {
    let state = file.state.as_deref().unwrap_or_default().to_ascii_uppercase();
    match (&file.error, file.on_disk, state.as_str()) {
        (Some(error), ..) => Staged::Failed(error.clone()),
        (None, Some(true), _) | (None, _, "COMPLETED") => Staged::Online,
        (None, _, "FAILED") => Staged::Failed("the tape system gave it up, and says not why".into()),
        (None, _, "CANCELED" | "CANCELLED") => Staged::Failed("the request was cancelled at the storage".into()),
        _ => Staged::Pending,
    }
}

/// Any answer of a storage about tape, in the role of each endpoint: the result fits into messages, and leads to no
/// other host.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let tape = Tape {
        endpoint: "https://se.example.org:8443".into(),
        party: Party::Source,
        right: Right::default(),
    };
    let what = "GET https://se.example.org:8443/api/v1/stage/1";
    let mut failures = vec![refused(&tape, what, StatusCode::BAD_GATEWAY, data)];
    failures.extend(read::<Discovery>(&tape, what, data).err());
    failures.extend(read::<Vec<InfoFile>>(&tape, what, data).err());
    match read::<StageAnswer>(&tape, what, data) {
        Ok(answer) => assert!(!segment(&answer.request_id).contains(['/', '?', '#', '.', ' '])),
        Err(failure) => failures.push(failure),
    }
    match read::<StatusAnswer>(&tape, what, data) {
        Ok(answer) => {
            for file in &answer.files {
                assert!(!plain(&file.path).contains("//"));
                if let Staged::Failed(text) = staged(file) {
                    failures.push(super::stager::failed(&file.path, &text));
                }
            }
        }
        Err(failure) => failures.push(failure),
    }
    for failure in failures {
        assert!(failure.message.len() <= 1024, "{}", failure.message.len());
        assert!(!failure.message.chars().any(char::is_control), "{:?}", failure.message);
    }
}

/// The path of a URL, as tape endpoints are asked for it.
pub(super) fn path_of(surl: &Surl) -> String {
    let url = surl.http_url();
    let start = url.find("://").map_or(0, |at| at + 3);
    let path = url[start..].find('/').map_or("/", |at| &url[start + at..]);
    path.split('?').next().unwrap_or_default().to_owned()
}

/// The tape of a side.
pub(crate) fn tape_of(side: &Side) -> Tape {
    Tape {
        endpoint: side.surl.endpoint(),
        party: side.party,
        right: side.right.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    fn check(json: &str, expected: &Staged) {
        let file: StatusFile = serde_json::from_str(json).unwrap();
        assert_eq!(&staged(&file), expected, "{json}");
    }

    #[test]
    fn states_are_read_as_the_api_says_them() {
        // `onDisk` or `state`, never both; an error is final; dCache and EOS write CANCELLED with two l.
        check(r#"{"path":"/f","onDisk":true}"#, &Staged::Online);
        check(r#"{"path":"/f","onDisk":false}"#, &Staged::Pending);
        check(r#"{"path":"/f","state":"COMPLETED"}"#, &Staged::Online);
        check(r#"{"path":"/f","state":"SUBMITTED"}"#, &Staged::Pending);
        check(r#"{"path":"/f","state":"STARTED"}"#, &Staged::Pending);
        check(
            r#"{"path":"/f","onDisk":false,"error":"no such file"}"#,
            &Staged::Failed("no such file".into()),
        );
        for state in ["FAILED", "CANCELED", "CANCELLED"] {
            let file: StatusFile = serde_json::from_str(&format!(r#"{{"path":"/f","state":"{state}"}}"#)).unwrap();
            assert!(matches!(staged(&file), Staged::Failed(_)));
        }
    }

    #[test]
    fn a_request_has_a_name_that_can_be_kept() {
        // Five thousand files kept one of megabytes each, in memory and in their rows.
        let tape = Tape {
            endpoint: "https://tape.ex".into(),
            party: Party::Source,
            right: Right::default(),
        };
        let answer = |name: &str| json!({ "requestId": name }).to_string();
        let named = |name: &str| request_of(&tape, "POST", answer(name).as_bytes());
        assert_eq!(named("8f14e45f-ceea").unwrap(), "8f14e45f-ceea");
        assert!(named(&"x".repeat(NAME_MAX)).is_ok());
        let failure = named(&"x".repeat(1 << 20)).unwrap_err();
        assert!(failure.message.len() < 300, "{}", failure.message.len());
    }

    #[test]
    fn paths_and_requests_are_tamed() {
        assert_eq!(plain("//a///b/c"), "/a/b/c");
        assert_eq!(segment("../../x?y"), "%2E%2E%2F%2E%2E%2Fx%3Fy");
        assert_eq!(segment("8f14e45f-ceea"), "8f14e45f-ceea");
    }
}
