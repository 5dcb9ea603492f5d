//! Bodies as FTS3 reads them.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use http::{Method, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

use crate::messages::{answer::ApiError, json};
use crate::state::Door;

/// Above this, a body is parsed on a thread that may take its time: 1 MB of JSON is some 5 ms. Only submissions are larger.
const PARSE_INLINE: usize = 1 << 20;

/// Large submissions that are parsed, or looked through, at once: 100 MB of JSON become some 600 MB in memory.
static LARGE: Semaphore = Semaphore::const_new(2);

/// Memory for bodies on their way, in KiB: the bodies of thousands of connections must fit into the memory.
const ROOM_MAX: usize = 512 << 10;
static ROOM: Semaphore = Semaphore::const_new(ROOM_MAX);

/// Part of each body that needs no memory of the budget.
const FREE: usize = 256 << 10;

/// How long a large body waits for room.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// How long a body may take to arrive, or to be thrown away: it takes room as long.
const ARRIVAL: Duration = Duration::from_secs(150);

/// Timeout for the first bytes of a body. A client that sends it byte by byte holds a connection that others could use.
const PATIENCE: Duration = Duration::from_secs(15);

/// Slowest pace beyond that, in bytes per second: 6.4 Mb/s, so that 100 MB have 140 s.
const PACE: usize = 800_000;

/// A body that holds JSON: by its content type, or because the method is PUT, or URL-encoded under the odd type that one
/// old client sends.
#[derive(Debug)]
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<Arc<Door>> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Arc<Door>) -> Result<Self, ApiError> {
        let kind = kind_of(&request)?;
        parse(kind, &small(request, service).await?, service.submission.files).map(Self)
    }
}

/// The bytes of a body that is no submission: settings, bans, priorities.
pub(crate) async fn small(request: Request, service: &Door) -> Result<Vec<u8>, ApiError> {
    let limits = [service.body_max.min(PARSE_INLINE), service.body_max];
    Ok(arrive(request, limits, &ROOM).await?.0)
}

/// A submission: as [`JsonBody`], and it may be large. Its place is held as long as it is.
#[derive(Debug)]
pub(crate) struct JobBody {
    value: Value,
    place: Option<SemaphorePermit<'static>>,
}

impl JobBody {
    /// The parsed value, and its share of the memory.
    pub(crate) fn into_parts(self) -> (Value, Option<SemaphorePermit<'static>>) {
        (self.value, self.place)
    }
}

impl FromRequest<Arc<Door>> for JobBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Arc<Door>) -> Result<Self, ApiError> {
        let kind = kind_of(&request)?;
        let (bytes, _room) = arrive(request, [service.body_max; 2], &ROOM).await?;
        if bytes.len() <= PARSE_INLINE {
            let (value, place) = (parse(kind, &bytes, service.submission.files)?, None);
            return Ok(Self { value, place });
        }
        let place = LARGE.acquire().await.ok();
        let files = service.submission.files;
        let parsed = tokio::task::spawn_blocking(move || parse(kind, &bytes, files)).await;
        let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "The body could not be read");
        let value = parsed.map_err(failed)??;
        Ok(Self { value, place })
    }
}

/// The bytes of a body, and the room that they take.
type Arrived<'a> = (Vec<u8>, Option<SemaphorePermit<'a>>);

/// `limits`: the largest body, and the part of a larger one that is read and dropped before it is refused.
async fn arrive(request: Request, limits: [usize; 2], room: &Semaphore) -> Result<Arrived<'_>, ApiError> {
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|length| length.to_str().ok()?.parse().ok());
    let arrived = tokio::time::timeout(ARRIVAL, collect(request.into_body(), told, limits, room)).await;
    arrived.unwrap_or_else(|_| Err(late()))
}

fn late() -> ApiError {
    ApiError::new(
        StatusCode::REQUEST_TIMEOUT,
        "The body did not arrive in time; send it without a pause",
    )
}

/// How long so many bytes of a body may take.
fn due(bytes: usize) -> Duration {
    PATIENCE + Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / PACE as u64)
}

/// Reads a body. A large one is read on only once there is memory for it; one without a length may become as large as
/// any.
async fn collect(
    mut body: Body,
    told: Option<usize>,
    [limit, most]: [usize; 2],
    room: &Semaphore,
) -> Result<Arrived<'_>, ApiError> {
    let told = told.unwrap_or_default();
    if told > limit {
        discard(&mut body, most).await;
        return Err(too_large());
    }
    let mut taken = None;
    if told > FREE {
        taken = Some(make_room(room, told).await?);
    }
    let mut bytes = Vec::with_capacity(told);
    // The wait for room is not the client's.
    let mut begun = Instant::now();
    loop {
        let next = timeout_at(begun + due(bytes.len()), body.frame());
        let Some(frame) = next.await.map_err(|_| late())? else {
            break;
        };
        let frame = frame.map_err(|_| ApiError::bad_request("The body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            drop((bytes, taken));
            discard(&mut body, most).await;
            return Err(too_large());
        }
        if taken.is_none() && bytes.len() + data.len() > FREE {
            let waits = Instant::now();
            taken = Some(make_room(room, limit).await?);
            begun += waits.elapsed();
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, taken))
}

/// Most clients read an answer only once they have written: so much more is taken and forgotten, before it is refused.
async fn discard(body: &mut Body, most: usize) {
    let mut left = most;
    while let Some(Ok(frame)) = body.frame().await
        && let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, bytes::Bytes::len))
    {
        left = rest;
    }
}

async fn make_room(room: &Semaphore, bytes: usize) -> Result<SemaphorePermit<'_>, ApiError> {
    let all = ROOM_MAX.min(bytes.div_ceil(1024));
    let taken = tokio::time::timeout(ROOM_PATIENCE, room.acquire_many(all as u32)).await;
    taken.ok().and_then(Result::ok).ok_or_else(|| {
        ApiError::unavailable("Too many large submissions are on their way; try again, or split the job")
    })
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Json,
    EncodedJson,
    Form,
}

fn kind_of(request: &Request) -> Result<Kind, ApiError> {
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    match kind {
        "application/json, application/x-www-form-urlencoded" => Ok(Kind::EncodedJson),
        kind if kind.starts_with("application/json") => Ok(Kind::Json),
        _ if request.method() == Method::PUT => Ok(Kind::Json),
        kind if kind.starts_with("application/x-www-form-urlencoded") => Ok(Kind::Form),
        kind => Err(ApiError::bad_request(format!(
            "Expecting application/json, got '{kind}'"
        ))),
    }
}

fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The body is larger than this service takes; split the job",
    )
}

/// `files`: the most that a job may have.
pub(crate) fn parse(kind: Kind, bytes: &[u8], files: usize) -> Result<Value, ApiError> {
    let malformed = |why: &dyn std::fmt::Display| ApiError::bad_request(format!("Malformed input: {why}"));
    match kind {
        Kind::Json => json::read(bytes, files).map_err(|error| malformed(&error)),
        Kind::EncodedJson => {
            let text = percent_encoding::percent_decode(bytes).collect::<Vec<_>>();
            json::read(&text, files).map_err(|error| malformed(&error))
        }
        Kind::Form => {
            let form = weir_http::form::read(bytes).map_err(|error| malformed(&error))?;
            Ok(Value::Object(fields(form, files)))
        }
    }
}

/// `a=1&b=x`: values that are JSON are read as such.
fn fields(form: Vec<(String, String)>, files: usize) -> serde_json::Map<String, Value> {
    let value = |text: String| json::read(text.as_bytes(), files).unwrap_or(Value::String(text));
    form.into_iter().map(|(name, text)| (name, value(text))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    fn request(method: Method, kind: Option<&str>) -> Request {
        let mut request = Request::new(axum::body::Body::empty());
        *request.method_mut() = method;
        if let Some(kind) = kind {
            request
                .headers_mut()
                .insert(header::CONTENT_TYPE, kind.parse().unwrap());
        }
        request
    }

    /// A body of 64 KiB pieces, and how many of them were read.
    fn pieces(n: usize) -> (Body, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = read.clone();
        let pieces = (0..n).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(bytes::Bytes::from(vec![b' '; 64 << 10]))
        });
        (Body::from_stream(futures_util::stream::iter(pieces)), read)
    }

    #[tokio::test]
    async fn a_large_body_is_not_read_before_there_is_room() {
        // Hundreds of connections with 100 MB each once ended the process.
        let (room, limit) = (Semaphore::new(1024), 4 << 20);
        let taken = room.acquire_many(1024).await.unwrap();
        for (told, some) in [(None, 5), (Some(16 * (64 << 10)), 0)] {
            let (body, read) = pieces(16);
            let wait = Duration::from_millis(200);
            let early = tokio::time::timeout(wait, collect(body, told, [limit; 2], &room)).await;
            assert!(early.is_err(), "{told:?}");
            assert!(read.load(Ordering::Relaxed) <= some, "{told:?}: {read:?}");
        }
        let (small, large) = (pieces(4).0, pieces(65).0);
        assert_eq!(collect(small, None, [limit; 2], &room).await.unwrap().0.len(), FREE);
        drop(taken);
        let (body, _) = pieces(16);
        let (bytes, room_of_it) = collect(body, Some(1 << 20), [limit; 2], &room).await.unwrap();
        assert_eq!((bytes.len(), room.available_permits()), (1 << 20, 0));
        drop(room_of_it);
        let refused = collect(large, None, [limit; 2], &Semaphore::new(ROOM_MAX))
            .await
            .unwrap_err();
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[test]
    fn content_types_are_read_as_old_clients_write_them() {
        assert!(matches!(
            kind_of(&request(Method::POST, Some("application/json; charset=utf-8"))),
            Ok(Kind::Json)
        ));
        assert!(matches!(kind_of(&request(Method::PUT, None)), Ok(Kind::Json)));
        let odd = "application/json, application/x-www-form-urlencoded";
        assert!(matches!(
            kind_of(&request(Method::POST, Some(odd))),
            Ok(Kind::EncodedJson)
        ));
        assert_eq!(
            kind_of(&request(Method::POST, None)).unwrap_err().status,
            StatusCode::BAD_REQUEST
        );
        assert_eq!(
            kind_of(&request(Method::POST, Some("text/plain"))).unwrap_err().status,
            StatusCode::BAD_REQUEST
        );
    }

    #[test]
    fn bodies_are_json_or_said_to_be_malformed() {
        assert_eq!(parse(Kind::Json, b"{\"a\":1}", 9).unwrap(), json!({ "a": 1 }));
        assert_eq!(
            parse(Kind::EncodedJson, b"%7B%22a%22:1%7D", 9).unwrap(),
            json!({ "a": 1 })
        );
        assert_eq!(
            parse(Kind::Form, b"a=1&b=x%20y", 9).unwrap(),
            json!({ "a": 1, "b": "x y" })
        );
        assert!(
            parse(Kind::Json, b"{", 9)
                .unwrap_err()
                .message
                .starts_with("Malformed input")
        );
        let deep = "[".repeat(100_000);
        assert!(
            parse(Kind::Json, deep.as_bytes(), 9).is_err(),
            "deep nesting is refused, not followed"
        );
    }
}
