//! The probe of any endpoint: its kind, its working and refused operations, and its speed.

use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_auth::Secret;
use weir_auth::client::TokenSource;
use weir_http::{Client, body};
use weir_units::{BitRate, Bytes};

use super::{Check, Outcome, TestFile, endpoint, in_time, timed};
use crate::services::storage::{StorageDoor, StorageError};

/// Time for a question.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest answer to a question.
const ANSWER_MAX: usize = 256 * 1024;

/// The result of a probe.
#[derive(Debug, Clone, Serialize)]
pub struct Probed {
    /// Where it was asked.
    pub url: String,
    /// Its kind, in a few words.
    pub kind: String,
    /// The checks, in order.
    pub checks: Vec<Check>,
    /// How fast it took and gave a file.
    pub speeds: Vec<Speed>,
}

/// How fast something was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// `write` or `read`.
    pub what: &'static str,
    /// Bytes that were moved, by one stream.
    pub bytes: u64,
    /// From the request to the end of the answer, in seconds.
    pub took_s: f64,
    /// To the first byte of the content, in seconds; of reads alone.
    pub first_byte_s: Option<f64>,
    /// Bytes ÷ that time, in bit/s.
    pub rate_bps: BitRate,
}

/// The credentials and limits of a probe.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The client, with its trusted authorities.
    pub client: Client,
    /// A token for it; without one nothing is written there.
    pub token: Option<Secret>,
    /// Size of the file that is written and read to see how fast it is.
    pub size: u64,
    /// Longest time for everything.
    pub limit: Duration,
}

/// Probes the endpoint of a URL: `https://` or `root://`. Files at a storage are written below a directory of their
/// own, and deleted again.
pub async fn probe(url: &str, asking: &Asking) -> Probed {
    let deadline = tokio::time::Instant::now() + asking.limit;
    let mut probed = Probed {
        url: url.to_owned(),
        kind: "unknown".to_owned(),
        checks: Vec::new(),
        speeds: Vec::new(),
    };
    if let Some(address) = root_address(url) {
        let check = timed("connection", in_time(deadline, greet(&address, &mut probed.kind))).await;
        probed.checks.push(check);
        return probed;
    }
    probed.checks = endpoint::look_at(&asking.client, (Method::OPTIONS, url), deadline).await;
    if probed
        .checks
        .iter()
        .any(|check| check.outcome.has_failed() && check.name != "clock")
    {
        return probed;
    }
    let (kind, is_storage) = kind_of(&asking.client, url).await;
    probed.kind = kind;
    if !is_storage {
        return probed;
    }
    let door = door(url, asking);
    probed
        .checks
        .push(timed("strangers", in_time(deadline, Box::pin(strangers(&door)))).await);
    if asking.token.is_none() {
        let why = "there is no token: name one with --token-file".to_owned();
        let outcome = Outcome::Skipped { why };
        probed.checks.push(Check::new("write", outcome));
        return probed;
    }
    let file = TestFile {
        path: format!("{}/0", door.directory),
        seed: 1,
        number: 0,
        size: super::FILE_SIZE,
    };
    let (checks, is_written) = Box::pin(endpoint::work_at(&door, &file, 0, None, deadline)).await;
    probed.checks.extend(checks);
    if is_written {
        let large = TestFile {
            path: format!("{}/1", door.directory),
            number: 1,
            size: asking.size,
            ..file.clone()
        };
        match tokio::time::timeout_at(deadline, Box::pin(speeds(&door, &large))).await {
            Ok(Ok(speeds)) => probed.speeds = speeds,
            Ok(Err(outcome)) => probed.checks.push(Check::new("speed", outcome)),
            Err(_) => {
                let cause = format!("{:.1} did not go there and back in time", Bytes(asking.size));
                let outcome = Outcome::failed(cause, "give it more time with --limit, or a smaller --size");
                probed.checks.push(Check::new("speed", outcome));
            }
        }
        let _large = door.delete(&large.path).await;
        probed.checks.push(endpoint::delete(&door, &file, None).await);
    }
    probed
}

fn door(url: &str, asking: &Asking) -> StorageDoor {
    let url = url.trim_end_matches('/').to_owned();
    let token = asking.token.clone().unwrap_or_else(|| Secret::new(""));
    StorageDoor {
        without_checksums: std::sync::Arc::default(),
        name: "it".to_owned(),
        audience: weir_grid::origin(&url).to_owned(),
        scope_prefix: String::new(),
        embedded: false,
        quota: None,
        directory: format!("/weir-probe-{:08x}", uuid::Uuid::new_v4().as_fields().0),
        tokens: TokenSource::fixed(token),
        client: asking.client.clone(),
        url,
    }
}

/// Determines the kind of an endpoint; true for a storage.
async fn kind_of(client: &Client, url: &str) -> (String, bool) {
    let base = url.trim_end_matches('/');
    let origin = weir_grid::origin(base);
    let json = |path: String| async move { ask(client, Method::GET, &path).await.and_then(|answer| answer.json) };
    if let Some(found) = json(format!("{origin}/.well-known/openid-configuration")).await
        && let Some(issuer) = found["issuer"].as_str()
    {
        return (format!("token issuer (OpenID Connect) {issuer}"), false);
    }
    if let Some(found) = json(format!("{base}/")).await
        && found["api"].is_object()
        && found.get("delegation").is_some()
    {
        let version = |part: &Value| format!("{}.{}.{}", part["major"], part["minor"], part["patch"]);
        return (
            format!("transfer service (FTS3 REST), API {}", version(&found["api"])),
            false,
        );
    }
    if let Some(found) = json(format!("{base}/ping")).await
        && let Some(version) = found["version"].as_str()
    {
        return (format!("catalogue (Rucio REST), version {version}"), false);
    }
    let Some(options) = ask(client, Method::OPTIONS, base).await else {
        return ("HTTPS server".to_owned(), false);
    };
    let allows = |method: &str| {
        options
            .allow
            .split(',')
            .any(|allowed| allowed.trim().eq_ignore_ascii_case(method))
    };
    if options.dav.is_some() || allows("PROPFIND") {
        let copies = if allows("COPY") { ", copies" } else { "" };
        let class = options.dav.map_or_else(String::new, |class| format!(", class {class}"));
        return (format!("storage (WebDAV{class}{copies})"), true);
    }
    ("HTTPS server".to_owned(), false)
}

struct Answered {
    dav: Option<String>,
    allow: String,
    json: Option<Value>,
}

/// One question without credentials; none if there is no answer.
async fn ask(client: &Client, method: Method, url: &str) -> Option<Answered> {
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header(header::ACCEPT, "application/json");
    let answer = client
        .send_within(request.body(body::empty()).ok()?, PATIENCE)
        .await
        .ok()?;
    let text = |name: &str| {
        let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let (dav, allow) = (text("dav"), text("allow").unwrap_or_default());
    let is_good = answer.status().is_success();
    let bytes = body::read_limited(answer.into_body(), ANSWER_MAX, PATIENCE).await.ok();
    let json = bytes
        .filter(|_| is_good)
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Some(Answered { dav, allow, json })
}

/// Checks whether an anonymous client can write.
async fn strangers(door: &StorageDoor) -> Outcome {
    let path = format!("{}-stranger", door.directory);
    let status = match door.write_without_token(&path).await {
        Ok(()) => StatusCode::OK,
        Err(StorageError::Refused { status, .. }) => status,
        Err(error) => {
            let cause = weir_auth::error_chain(&error);
            return Outcome::failed(cause, "see what the log of the storage says");
        }
    };
    if status.is_success() {
        let _left = door.delete(&path).await;
        return Outcome::Warning {
            detail: "a client without a token may write".to_owned(),
            remedy: "have the storage ask for credentials, unless everybody is to write there".to_owned(),
        };
    }
    let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if refused {
        Outcome::ok(format!("are refused ({status})"))
    } else {
        Outcome::ok(format!("get {status}"))
    }
}

/// Writes a file, reads it back, and measures both.
async fn speeds(door: &StorageDoor, file: &TestFile) -> Result<Vec<Speed>, Outcome> {
    let begun = Instant::now();
    let sent = door.upload(&file.path, file.seed, file.number, file.size).await;
    let sent = sent.map_err(|error| endpoint::failed(&error))?;
    let write = speed("write", file.size, begun.elapsed(), None);
    let begun = Instant::now();
    let mut first = None;
    let read = door
        .read_telling(&file.path, || first = first.or(Some(begun.elapsed())))
        .await;
    let (size, there) = read.map_err(|error| endpoint::failed(&error))?;
    if (size, &there) != (file.size, &sent) {
        let cause = format!(
            "{size} bytes came back, and they are others than the {} that were written",
            file.size
        );
        return Err(Outcome::failed(
            cause,
            "the storage gives other bytes than it took: look at it first",
        ));
    }
    Ok(vec![write, speed("read", size, begun.elapsed(), first)])
}

fn speed(what: &'static str, bytes: u64, took: Duration, first_byte: Option<Duration>) -> Speed {
    let took_s = took.as_secs_f64();
    Speed {
        what,
        bytes,
        took_s,
        first_byte_s: first_byte.map(|time| time.as_secs_f64()),
        rate_bps: BitRate((bytes as f64 * 8.0 / took_s.max(1e-9)) as u64),
    }
}

/// `host:port` of a URL of the root protocol.
fn root_address(url: &str) -> Option<String> {
    let rest = ["root://", "roots://", "xroot://", "xroots://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))?;
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port {
        host.to_owned()
    } else {
        format!("{host}:1094")
    })
}

/// The greeting of the root protocol: 20 bytes, answered with the version and the kind of server (XRootD protocol 5.2,
/// section 2.2).
async fn greet(address: &str, kind: &mut String) -> Outcome {
    let remedy = "see that the server runs, that the port is right, and that no firewall is between";
    let connected = tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(address)).await;
    let mut stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Outcome::failed(format!("could not connect to {address}: {error}"), remedy),
        Err(_) => {
            return Outcome::failed(
                format!("{address} did not answer within {} s", PATIENCE.as_secs()),
                remedy,
            );
        }
    };
    let mut greeting = [0; 20];
    greeting[12..16].copy_from_slice(&4_u32.to_be_bytes());
    greeting[16..].copy_from_slice(&2012_u32.to_be_bytes());
    let mut answer = [0; 16];
    let exchange = async {
        stream.write_all(&greeting).await?;
        stream.read_exact(&mut answer).await
    };
    if !matches!(tokio::time::timeout(PATIENCE, exchange).await, Ok(Ok(_))) || answer[..4] != [0; 4] {
        return Outcome::failed(
            format!("{address} does not speak the root protocol"),
            "see that the port is its port",
        );
    }
    let number = |at: usize| u32::from_be_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    let (version, role) = (number(8), number(12));
    let role = if role == 1 { "data server" } else { "manager" };
    *kind = format!(
        "XRootD {role}, protocol {:x}.{:x}.{:x}",
        version >> 8,
        (version >> 4) & 15,
        version & 15
    );
    Outcome::ok(format!("{address} greets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_root_url_is_found() {
        // Wrong: another host or port is asked than the URL names.
        let address = |url| root_address(url);
        assert_eq!(
            address("root://se.example.org//data/f").as_deref(),
            Some("se.example.org:1094")
        );
        assert_eq!(
            address("roots://me@se.example.org:2094/").as_deref(),
            Some("se.example.org:2094")
        );
        assert_eq!(address("xroot://[::1]:1095//f").as_deref(), Some("[::1]:1095"));
        assert_eq!(address("https://se.example.org/"), None);
    }
}
