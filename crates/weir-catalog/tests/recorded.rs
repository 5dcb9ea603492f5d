//! The door answers as Rucio's server does: each recorded exchange is repeated, and compared field by field.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{collections::BTreeMap, sync::Arc};

use axum::{Router, body::Body};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;
use tower::ServiceExt as _;
use weir_auth::Secret;
use weir_catalog::{
    accounts::{
        self,
        identities::{self, Identity, PasswordHash},
    },
    door,
    logins::Logins,
    requests::uid::Tag,
    schema,
};
use weir_database::{Database, Session};
use weir_model::catalog::{AccountType, IdentityType};
use weir_store::postgres::testing::{Server, wanted};

/// A request, and the answer of Rucio 41.5.1.
#[derive(Debug, Deserialize)]
struct Exchange {
    name: String,
    method: String,
    path: String,
    headers: BTreeMap<String, Option<String>>,
    body: Option<Value>,
    answer: Recorded,
}

#[derive(Debug, Deserialize)]
struct Recorded {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Value,
}

/// Answers that differ on purpose: the status and the class here.
const OTHERWISE: &[(&str, u16, &str)] = &[
    // Rucio fails with an error of its own.
    ("validate, no token", 401, "CannotAuthenticate"),
];

/// Answers with another body on purpose.
const OTHER_BODIES: &[&str] = &[
    // Rucio writes a Python dictionary, which no client parses.
    "validate",
    // A page for browsers.
    "whoami",
    // A daemon of Rucio's adds usage up later.
    "usage of account",
];

/// Fields with another value on purpose.
const OTHER_FIELDS: &[(&str, &[&str])] = &[
    // Null there as long as the dataset is open.
    ("locks of dataset", &["bytes", "length"]),
];

/// The key of what Weir adds to an object, which Rucio's client passes over.
const EXTENSION: &str = "weir";

/// The rows of a listing without the fields that differ on purpose.
fn compared(name: &str, body: &Value) -> Value {
    let mut body = sorted(body);
    let fields = OTHER_FIELDS.iter().filter(|(other, _)| *other == name);
    for field in fields.flat_map(|(_, fields)| *fields) {
        for row in body.as_array_mut().into_iter().flatten() {
            row.as_object_mut()
                .and_then(|row| row.remove(*field))
                .expect("the field is there");
        }
    }
    body
}

/// The first path segments that are answered. The rest says that it is not built.
const BUILT: &[&str] = &[
    "ping", "auth", "accounts", "scopes", "rses", "dids", "replicas", "rules", "requests", "locks",
];

fn exchanges() -> Vec<Exchange> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/rucio/exchanges.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn tasks() -> door::Tasks {
    door::Tasks {
        evaluator: Arc::default(),
        transfers: Arc::default(),
        webhook: None,
        tag: Tag::new(1),
        services: Arc::default(),
        in_flight: 10,
    }
}

/// The catalogue as Rucio's was: an account `root` for lab/lab.
async fn bootstrapped(database: &Database) {
    let password = PasswordHash::new(&Secret::new("lab")).unwrap();
    let work = move |session: &mut dyn Session| {
        let root = "root".parse().unwrap();
        accounts::add(session, &root, AccountType::Service, None, 1000)?;
        let lab = Identity {
            identity: "lab".into(),
            kind: IdentityType::UserPass,
            email: None,
        };
        identities::add(session, &lab, &root, true, Some(&password), 1000)
    };
    database.write(work).await.unwrap();
}

/// Ids, tokens and times as the recording has them.
fn steady(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(steady_text(text)),
        Value::Array(all) => all.iter().map(steady).collect(),
        Value::Object(all) => all
            .iter()
            .filter(|(key, _)| *key != EXTENSION)
            .map(|(key, value)| (key.clone(), steady(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn steady_text(text: &str) -> String {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_date = text.len() == 29 && text.ends_with(" UTC");
    let is_time = text.len() == 19 && text.as_bytes()[10] == b'T';
    match (is_id, is_date, is_time) {
        (true, ..) => "<id>".to_owned(),
        (_, true, _) => "<time>".to_owned(),
        (.., true) => "<iso time>".to_owned(),
        _ => text.to_owned(),
    }
}

async fn ask(router: &Router, exchange: &Exchange, (token, rule): (&str, &str)) -> Response<Body> {
    let path = exchange.path.replace("{account}", "root").replace("{rule}", rule);
    let mut headers = BTreeMap::from([
        ("X-Rucio-VO", Some("def")),
        ("X-Rucio-Account", Some("root")),
        ("X-Rucio-Auth-Token", Some(token).filter(|token| !token.is_empty())),
    ]);
    headers.extend(
        exchange
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref())),
    );
    let mut request = Request::builder().method(exchange.method.as_str()).uri(path);
    for (name, value) in headers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        request = request.header(name, value);
    }
    let body = exchange.body.as_ref().map(Value::to_string).unwrap_or_default();
    router
        .clone()
        .oneshot(request.body(Body::from(body)).unwrap())
        .await
        .unwrap()
}

/// The body, as the recording has it.
fn read(kind: &str, text: &str) -> Value {
    if kind == "application/x-json-stream" {
        return text
            .lines()
            .map(|line| steady(&serde_json::from_str(line).unwrap()))
            .collect();
    }
    serde_json::from_str(text).map_or_else(|_| Value::from(text), |body| steady(&body))
}

/// Lists in one order: rows come in any.
fn sorted(body: &Value) -> Value {
    let Value::Array(rows) = body else {
        return body.clone();
    };
    let mut rows = rows.clone();
    rows.sort_by_key(Value::to_string);
    rows.into()
}

/// How an answer differs from the recorded one; nothing if it does not.
fn difference(exchange: &Exchange, (status, headers, body): (u16, &http::HeaderMap, &Value)) -> Vec<String> {
    let recorded = &exchange.answer;
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut found = Vec::new();
    let otherwise = OTHERWISE.iter().find(|(name, ..)| *name == exchange.name);
    if let Some((_, expected, class)) = otherwise {
        if (status, header("ExceptionClass").as_deref()) != (*expected, Some(*class)) {
            found.push(format!("{status} where {expected} {class} was to come"));
        }
        return found;
    }
    if status != recorded.status {
        found.push(format!("{status} where Rucio answers {}", recorded.status));
    }
    for (name, expected) in &recorded.headers {
        let told = header(name).unwrap_or_default();
        let is_same = match name.as_str() {
            "X-Rucio-Auth-Token" => told.len() == 64,
            // The sentence is for people.
            "ExceptionMessage" => !told.is_empty(),
            "Content-Type" if OTHER_BODIES.contains(&exchange.name.as_str()) => true,
            _ => steady_text(&told) == *expected,
        };
        if !is_same {
            found.push(format!("{name}: {told} where Rucio says {expected}"));
        }
    }
    let class = |body: &Value| body.get("ExceptionClass").cloned();
    let is_same = match class(&recorded.body) {
        Some(expected) => class(body) == Some(expected),
        None => {
            compared(&exchange.name, body) == compared(&exchange.name, &recorded.body)
                || OTHER_BODIES.contains(&exchange.name.as_str())
        }
    };
    if !is_same {
        found.push(format!("body {body}\nwhere Rucio says {}", recorded.body));
    }
    found
}

async fn repeat(database: Database) {
    bootstrapped(&database).await;
    let mut rule = String::new();
    let (router, mut token, mut n_same, mut differences) = (
        door::router(database, tasks(), Logins::default()),
        String::new(),
        0,
        Vec::new(),
    );
    for exchange in exchanges() {
        let answer = ask(&router, &exchange, (&token, &rule)).await;
        let (parts, body) = answer.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let kind = parts
            .headers
            .get("content-type")
            .map(|kind| kind.to_str().unwrap().to_owned());
        let body = read(kind.as_deref().unwrap_or_default(), &text);
        if exchange.name == "add rule" {
            rule = serde_json::from_str::<Vec<String>>(&text).unwrap().remove(0);
        }
        if exchange.name == "userpass" {
            token = parts.headers["x-rucio-auth-token"].to_str().unwrap().to_owned();
        }
        let first = exchange.path.split(['/', '?']).nth(1).unwrap_or_default();
        if !BUILT.contains(&first) {
            assert_eq!(parts.status, 501, "{}: {text}", exchange.name);
            assert!(text.contains("is not built here"), "{text}");
            continue;
        }
        let found = difference(&exchange, (parts.status.as_u16(), &parts.headers, &body));
        n_same += usize::from(found.is_empty());
        differences.extend(found.iter().map(|one| format!("{}: {one}", exchange.name)));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(n_same >= 100, "{n_same}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open_file(&directory.path().join("catalog.db"), schema::MIGRATIONS).unwrap();
    repeat(database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    if !wanted() {
        return;
    }
    let address = Server::shared().database();
    let connector = weir_store::postgres::Connector::new(&address, &weir_http::TrustRoots::default()).unwrap();
    repeat(Database::on_server(connector, schema::MIGRATIONS).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beyond_the_limit_and_strangers_are_refused() {
    // Anybody could fill the memory.
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open_file(&directory.path().join("catalog.db"), schema::MIGRATIONS).unwrap();
    bootstrapped(&database).await;
    let router = door::router(database, tasks(), Logins::default());
    let ask = |method: &'static str, path: &'static str, headers: Vec<(&'static str, String)>, body: Body| {
        let router = router.clone();
        async move {
            let request = headers
                .into_iter()
                .fold(Request::builder().method(method).uri(path), |request, (name, value)| {
                    request.header(name, value)
                });
            router.oneshot(request.body(body).unwrap()).await.unwrap()
        }
    };
    let login = ["X-Rucio-Account", "X-Rucio-Username", "X-Rucio-Password"];
    let login = login
        .into_iter()
        .zip(["root", "lab", "lab"].map(str::to_owned))
        .collect();
    let answer = ask("GET", "/auth/userpass", login, Body::empty()).await;
    let token = answer.headers()["x-rucio-auth-token"].to_str().unwrap().to_owned();
    let large = || Body::from(vec![b' '; 70 << 20]);
    let with = |token: &str, length: Option<&str>| {
        let mut headers = vec![("X-Rucio-Auth-Token", token.to_owned())];
        headers.extend(length.map(|length| ("Content-Length", length.to_owned())));
        headers
    };
    for length in [Some("73400320"), None] {
        let answer = ask("POST", "/replicas", with(&token, length), large()).await;
        assert_eq!(answer.status(), 413, "{length:?}");
    }
    // A stranger's body is not read.
    let never = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let answer = ask("POST", "/replicas", with("guessed", None), never).await;
    assert_eq!(answer.status(), 401);
    for body in [
        "[",
        "7",
        "[1]",
        r#"{"files": 7}"#,
        r#"{"rse": "A", "files": [7]}"#,
        "\u{0}",
    ] {
        let answer = ask("POST", "/replicas", with(&token, None), Body::from(body)).await;
        assert_eq!(answer.status(), 400, "{body}");
    }
}
