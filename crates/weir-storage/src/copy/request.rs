//! The headers of a COPY.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use weir_units::Checksum;

use crate::digest;

/// The most streams that a client may ask for, as XRootD has it.
const STREAMS_LIMIT: u32 = 100;

/// The parameters of a COPY.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// The other side.
    pub asked: Asked,
    /// The headers that `TransferHeader…` and `Copy-Header` set on the inner request. `Authorization` is marked
    /// sensitive.
    pub forwarded: HeaderMap,
    /// Whether the other side must have a checksum to compare; none if the client does not say.
    pub require_checksum: Option<bool>,
    /// Checksums that the client announces for the file.
    pub expected: Vec<Checksum>,
    /// Streams that a pull shall have.
    pub streams: Streams,
}

/// How many streams a copy shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// So many; at least 1.
    Asked(u32),
    /// As many as the way needs: the client does not say, or says 0, as gfal-copy does when its user said nothing.
    Ours,
}

/// The direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// `Source`: we read from it.
    Pull(Uri),
    /// `Destination`: we write to it.
    Push(Uri),
}

/// Reads the headers of a COPY.
///
/// # Errors
/// A text for the client (400): both of `Source` and `Destination` or neither, a URL with another scheme, a delegation
/// that is not offered, a header that cannot be forwarded.
pub fn parse(headers: &HeaderMap) -> Result<CopyRequest, String> {
    let asked = match (one(headers, "source")?, one(headers, "destination")?) {
        (Some(_), Some(_)) => return Err("COPY with both Source and Destination is ambiguous".into()),
        (None, None) => return Err("COPY needs a Source (pull) or a Destination (push)".into()),
        (Some(source), None) => Asked::Pull(remote(source, "Source")?),
        (None, Some(destination)) => Asked::Push(remote(destination, "Destination")?),
    };
    if let Some(credential) = one(headers, "credential")?
        && !credential.eq_ignore_ascii_case("none")
    {
        return Err(format!(
            "Credential: {credential} is not offered, only none: send the other side's token in TransferHeaderAuthorization"
        ));
    }
    let require_checksum = match one(headers, "requirechecksumverification")? {
        None => None,
        Some(value) if value.eq_ignore_ascii_case("true") => Some(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Some(false),
        Some(_) => return Err("RequireChecksumVerification must be true or false".into()),
    };
    let streams = one(headers, "x-number-of-streams")?
        .map_or(Ok(0), str::parse::<u32>)
        .ok()
        .filter(|streams| *streams <= STREAMS_LIMIT)
        .ok_or("X-Number-Of-Streams must be a number from 0 to 100")?;
    Ok(CopyRequest {
        asked,
        forwarded: forwarded(headers)?,
        require_checksum,
        expected: digest::announced(headers).map_err(|error| error.to_string())?,
        streams: if streams == 0 {
            Streams::Ours
        } else {
            Streams::Asked(streams)
        },
    })
}

/// A header that may come once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(format!("{name} comes more than once"));
    }
    first
        .map(|value| value.to_str().map(str::trim).map_err(|_| format!("{name} is no text")))
        .transpose()
}

/// The other side's URL; `dav` and `davs` become `http` and `https`.
fn remote(text: &str, name: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| format!("{name} is no URL"))?;
    let scheme = match uri.scheme_str().map(str::to_ascii_lowercase).as_deref() {
        Some("https" | "davs") => "https",
        Some("http" | "dav") => "http",
        Some(other) => {
            return Err(format!(
                "{name}: {other} is not spoken here, only https, davs, http and dav"
            ));
        }
        None => return Err(format!("{name} must be a whole URL, with scheme and host")),
    };
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if authority.is_empty() || uri.host().is_none_or(str::is_empty) {
        return Err(format!("{name} has no host"));
    }
    if authority.contains('@') {
        return Err(format!("{name} must not hold user names or passwords"));
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query(path)
        .build()
        .map_err(|_| format!("{name} is no URL"))
}

/// Headers that frame a message or name its receiver; a third party cannot set them.
const NOT_FORWARDED: [&str; 14] = [
    "host",
    "content-length",
    "content-range",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "range",
    "proxy-authorization",
    "proxy-connection",
];

/// `TransferHeaderX: v` and `Copy-Header: X: v` become `X: v`. The prefix alone means nothing.
fn forwarded(headers: &HeaderMap) -> Result<HeaderMap, String> {
    let mut result = HeaderMap::new();
    for (name, value) in headers {
        let lower = name.as_str();
        let pair = if let Some(inner) = lower.strip_prefix("transferheader") {
            Some((inner.to_owned(), value.clone()))
        } else if lower == "copy-header" {
            let text = value.to_str().map_err(|_| "Copy-Header is no text")?;
            let (inner, value) = text.split_once(':').ok_or("Copy-Header must read \"Name: value\"")?;
            let value = HeaderValue::from_str(value.trim()).map_err(|_| "Copy-Header holds what no header can")?;
            Some((inner.trim().to_ascii_lowercase(), value))
        } else {
            None
        };
        let Some((inner, mut value)) = pair else { continue };
        // `SciTag` itself goes before `TransferHeaderSciTag`.
        if inner.is_empty()
            || NOT_FORWARDED.contains(&inner.as_str())
            || (inner == "scitag" && headers.contains_key("scitag"))
        {
            continue;
        }
        let inner = HeaderName::from_bytes(inner.as_bytes()).map_err(|_| format!("{name} names no valid header"))?;
        if inner == header::AUTHORIZATION {
            if result.contains_key(&inner) {
                return Err("Authorization for the other side comes more than once".into());
            }
            value.set_sensitive(true);
        }
        result.append(inner, value);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap()))
            .collect()
    }

    /// Requests as gfal2 and FTS send them; a misread header sends the wrong token, or none.
    #[test]
    fn a_copy_as_transfer_services_send_it() {
        let copy = parse(&headers(&[
            ("Source", "davs://se.example.org:8443/vo/f%201?x=y"),
            ("X-Number-Of-Streams", "0"),
            ("Secure-Redirection", "1"),
            ("TransferHeaderAuthorization", "Bearer abc"),
            ("transferheaderx-y", "1"),
            ("TransferHeader", "nothing"),
            ("TransferHeaderContent-Length", "5"),
            ("Credential", "none"),
            ("X-No-Delegate", "true"),
            ("RequireChecksumVerification", "false"),
            ("SciTag", "66"),
            ("TransferHeaderSciTag", "67"),
            ("Copy-Header", "X-Z: two"),
            ("Digest", "adler32=0a1b2c3d"),
        ]))
        .unwrap();
        assert_eq!(
            copy.asked,
            Asked::Pull("https://se.example.org:8443/vo/f%201?x=y".parse().unwrap())
        );
        assert_eq!(
            copy.forwarded,
            headers(&[("authorization", "Bearer abc"), ("x-y", "1"), ("x-z", "two")])
        );
        assert!(copy.forwarded["authorization"].is_sensitive());
        assert_eq!(
            (copy.streams, copy.require_checksum, copy.expected.len()),
            (Streams::Ours, Some(false), 1)
        );
    }

    /// An ambiguous COPY once truncated a source.
    #[test]
    fn a_meaningless_request_is_refused() {
        let check = |lines: &[(&str, &str)], expected: &str| {
            let error = parse(&headers(lines)).unwrap_err();
            assert!(error.contains(expected), "{lines:?}: {error}");
        };
        let source = ("Source", "https://a/f");
        check(&[], "needs a Source");
        check(&[source, ("Destination", "https://b/f")], "ambiguous");
        check(&[source, source], "more than once");
        check(&[("Source", "/f")], "whole URL");
        check(&[("Source", "gsiftp://a/f")], "gsiftp");
        check(&[("Source", "https:///f")], "URL");
        check(&[("Source", "https://user:secret@a/f")], "passwords");
        check(&[("Source", "https://a b/f")], "URL");
        check(&[source, ("Credential", "gridsite")], "gridsite");
        check(&[source, ("RequireChecksumVerification", "maybe")], "true or false");
        check(&[source, ("X-Number-Of-Streams", "101")], "0 to 100");
        check(&[source, ("X-Number-Of-Streams", "-1")], "0 to 100");
        check(
            &[
                source,
                ("Copy-Header", "Authorization: Bearer a"),
                ("TransferHeaderAuthorization", "Bearer b"),
            ],
            "more than once",
        );
    }

    /// A flow label that is no number must not fail a copy.
    #[test]
    fn odd_flow_labels_are_passed_over() {
        for value in ["", "x", "99999999999999999999", "-1"] {
            parse(&headers(&[
                ("Source", "https://a/f"),
                ("SciTag", value),
                ("SciTag", "66"),
            ]))
            .unwrap();
        }
    }
}
