//! Looking at a file: does it exist, how large, which checksum, how old.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use weir_http::Client;
use weir_units::{Algorithm, Checksum};
use weir_world::{Failure, Phase};

use crate::job::SIZE_MAX;
use crate::requests::wire::{Forward, Side, send, text_of};

/// The result of a HEAD request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stat {
    /// Size; `None` if not told.
    pub(crate) size: Option<u64>,
    /// The checksum that was asked for; `None` if not told.
    pub(crate) checksum: Option<Checksum>,
    /// Time since the last change, by the storage's own clock.
    pub(crate) age: Option<Duration>,
    /// `ETag`, as it came.
    pub(crate) etag: Option<String>,
    /// `Last-Modified`, as it came.
    pub(crate) modified: Option<String>,
    /// `Server`, as it came.
    pub(crate) server: Option<String>,
}

impl Stat {
    /// Whether two looks saw the same file, as far as can be told.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.size, &self.etag, &self.modified) == (other.size, &other.etag, &other.modified)
    }
}

/// Time limits of a look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Without a checksum.
    pub(crate) plain: Duration,
    /// With one: the storage may have to read the whole file.
    pub(crate) digest: Duration,
}

/// Looks at a file. `None`: there is none.
///
/// Asks for a checksum if an algorithm is given, and again without if the storage refuses such a request.
pub(crate) async fn stat(
    client: &Client,
    side: &Side,
    phase: Phase,
    algorithm: Option<Algorithm>,
    patience: Patience,
) -> Result<Option<Stat>, Failure> {
    let Some(algorithm) = algorithm else {
        return look(client, side, phase, None, patience.plain).await;
    };
    match look(client, side, phase, Some(algorithm), patience.digest).await {
        Err(failure) if is_about_the_digest(&failure) => look(client, side, phase, None, patience.plain).await,
        outcome => outcome,
    }
}

/// A storage that cannot do the algorithm may refuse the request as a whole.
fn is_about_the_digest(failure: &Failure) -> bool {
    failure.class == weir_world::ErrorClass::Protocol || failure.class == weir_world::ErrorClass::Checksum
}

/// Whether a WebDAV collection is at this path; `None` if the storage did not say.
///
/// A storage that does not know PROPFIND has no collections to tell of.
pub(crate) async fn is_collection(client: &Client, side: &Side, phase: Phase, limit: Duration) -> Option<bool> {
    let method = Method::from_bytes(b"PROPFIND").expect("PROPFIND is a token");
    let headers = HeaderMap::from_iter([(HeaderName::from_static("depth"), HeaderValue::from_static("0"))]);
    let answer = send(client, side, phase, (method, headers), Forward::Same, limit)
        .await
        .ok()?;
    match answer.response.status() {
        StatusCode::MULTI_STATUS => says_collection(&text_of(answer.response).await),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Some(false),
        _ => None,
    }
}

/// Reads RFC 4918 section 15.9 as carefully as a deletion asks for: a name that looks like the element counts as it.
fn says_collection(multistatus: &str) -> Option<bool> {
    let text = multistatus.to_ascii_lowercase();
    let whole = text.contains("multistatus") && text.trim_end().ends_with('>') && text.contains("resourcetype");
    whole.then(|| text.contains(":collection") || text.contains("<collection"))
}

async fn look(
    client: &Client,
    side: &Side,
    phase: Phase,
    algorithm: Option<Algorithm>,
    limit: Duration,
) -> Result<Option<Stat>, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(algorithm) = algorithm {
        let name = algorithm.digest_name();
        headers.insert("want-digest", HeaderValue::from_static(name));
    }
    let answer = send(client, side, phase, (Method::HEAD, headers), Forward::Same, limit).await?;
    let response = answer.response;
    match response.status() {
        status if status.is_success() => Ok(Some(read(response.headers(), algorithm))),
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
        status => {
            let what = side.naming(&Method::HEAD);
            // The answer to HEAD has no body; some storages say why in a header.
            let text = reason_header(response.headers());
            let _ = text_of(response).await;
            Err(side.scene(phase).status(&what, status, &text))
        }
    }
}

/// `WWW-Authenticate` says which scope or audience was missing.
fn reason_header(headers: &HeaderMap) -> String {
    let value = headers
        .get("x-weir-reason")
        .or_else(|| headers.get(header::WWW_AUTHENTICATE));
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn read(headers: &HeaderMap, algorithm: Option<Algorithm>) -> Stat {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let size = text(header::CONTENT_LENGTH)
        .and_then(|value| value.trim().parse().ok())
        .filter(|size| *size <= SIZE_MAX);
    let checksum = algorithm.and_then(|algorithm| {
        headers
            .get_all("digest")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(weir_units::parse_digest_header)
            .find(|checksum| checksum.algorithm == algorithm)
    });
    let date = |name| text(name).and_then(|value| httpdate::parse_http_date(value).ok());
    let age = match (date(header::DATE), date(header::LAST_MODIFIED)) {
        (Some(now), Some(then)) => Some(now.duration_since(then).unwrap_or_default()),
        _ => None,
    };
    Stat {
        size,
        checksum,
        age,
        etag: text(header::ETAG).map(str::to_owned),
        modified: text(header::LAST_MODIFIED).map(str::to_owned),
        server: text(header::SERVER).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_look_reads_size_checksum_and_age() {
        let stat = read(
            &headers(&[
                ("content-length", "12"),
                ("digest", "md5=1B2M2Y8AsgTpgAmY7PhCfg==,adler32=0a1b2c3d"),
                ("date", "Sat, 21 Nov 2026 11:00:10 GMT"),
                ("last-modified", "Sat, 21 Nov 2026 11:00:00 GMT"),
            ]),
            Some(Algorithm::Adler32),
        );
        assert_eq!(stat.size, Some(12));
        assert_eq!(stat.checksum.unwrap().to_string(), "adler32:0a1b2c3d");
        assert_eq!(stat.age, Some(Duration::from_secs(10)));
    }

    #[test]
    fn only_a_clear_word_says_that_there_is_no_collection() {
        let answer = |kind: &str| {
            let kind = format!("<D:resourcetype>{kind}</D:resourcetype>");
            format!("<D:multistatus xmlns:D=\"DAV:\"><D:response>{kind}</D:response></D:multistatus>\n")
        };
        assert_eq!(says_collection(&answer("")), Some(false));
        assert_eq!(says_collection(&answer("<D:collection/>")), Some(true));
        assert_eq!(says_collection(&answer("<collection xmlns=\"DAV:\"/>")), Some(true));
        assert_eq!(says_collection(&answer("")[..60]), None);
        assert_eq!(says_collection("<D:multistatus></D:multistatus>"), None);
        assert_eq!(says_collection(""), None);
    }

    #[test]
    fn nothing_is_made_up() {
        let stat = read(
            &headers(&[("content-length", "x"), ("digest", "garbage")]),
            Some(Algorithm::Adler32),
        );
        assert_eq!(stat, Stat::default());
        assert_eq!(
            read(&headers(&[("content-length", "18446744073709551615")]), None).size,
            None
        );
    }
}
