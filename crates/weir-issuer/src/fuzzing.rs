//! Invariants of the reader of token requests, for any input. Built for tests and for the targets of `fuzz/` only.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::request;

/// `Name: value` lines, an empty line, and the body of a request for a token.
pub fn request(data: &[u8]) {
    let middle = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = middle.map_or((data, &[][..]), |at| (&data[..at], &data[at + 2..]));
    let headers = headers(head);
    match request::read(&headers, body) {
        Ok(request) => {
            assert!(!request.credentials.is_empty());
            assert!(request.credentials.iter().all(|asking| !asking.secrets.is_empty()));
            for (place, scope) in request.scopes.iter().enumerate() {
                assert!(!request.scopes[..place].contains(scope), "{scope} twice");
                assert!(!scope.to_string().contains([' ', '"', '\\']), "{scope}");
            }
            for (place, audience) in request.audiences.iter().enumerate() {
                assert!(!request.audiences[..place].contains(audience), "{audience} twice");
                assert!(!audience.is_empty() && !audience.contains(' '), "{audience}");
            }
        }
        Err(refusal) => {
            assert!([StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED].contains(&refusal.status));
            // It goes into a JSON answer and a header, and is read by people.
            assert!(!refusal.description.chars().any(char::is_control), "{refusal:?}");
        }
    }
}

/// Lines that no HTTP parser would let through are left out.
fn headers(head: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/issuer_request");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            super::request(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "there is no corpus");
    }
}
