//! Fuzz targets for answers of storages and issuers, and for URLs of files.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weir_auth::Secret;
use weir_units::Algorithm;
use weir_world::{Party, Phase};

use crate::{
    copying::markers::{MarkerItem, Markers},
    requests::{
        failure::{Scene, told_by_weir},
        wire,
    },
    steps::stat,
    surl::Surl,
};

/// A token that no message may hold.
const TOKEN: &str = "s3cr3t-0f-the-call";

/// The body of a third-party copy's answer: pieces of any size must say the same, but for a count that is final only if it came with the
/// verdict.
pub fn markers(data: &[u8]) {
    let read = |piece: usize| {
        let (mut markers, mut told) = (Markers::default(), Vec::new());
        data.chunks(piece).for_each(|piece| markers.feed(piece, &mut told));
        markers.finish(&mut told);
        told
    };
    let whole = read(data.len().max(1));
    let bare = |told: &[MarkerItem]| -> Vec<MarkerItem> {
        let without_count = |told: &MarkerItem| match told {
            MarkerItem::Success(_) => MarkerItem::Success(None),
            other => other.clone(),
        };
        told.iter().map(without_count).collect()
    };
    assert_eq!(bare(&whole), bare(&read(1)));
    for told in whole {
        if let MarkerItem::Failure(text) = told {
            failures(text.as_bytes());
        }
    }
}

/// A failure line or the text of an error page: the resulting failure must fit into a row and a log.
pub fn failures(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = told_by_weir(&text);
    let scene = Scene::new(Party::Destination, Phase::Transfer);
    for status in [StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY] {
        let failure = scene.status("COPY https://se.example.org/f", status, &wire::strip_tags(&text));
        assert!(failure.message.len() <= 1024);
        assert!(!failure.message.chars().any(char::is_control));
        assert!(!failure.remedy.is_empty());
    }
}

/// An answer to PROPFIND.
pub fn listings(data: &[u8]) {
    crate::namespace::fuzz(data);
}

/// An answer of the Tape REST API.
pub fn tapes(data: &[u8]) {
    crate::tape::fuzz(data);
}

/// An issuer's answer to an exchange or a refresh of a token.
pub fn grants(data: &[u8]) {
    crate::tokens::fuzz(data);
}

/// Header lines of an answer to HEAD, and the claims of a token that goes along.
pub fn answers(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    for algorithm in Algorithm::ALL {
        let stat = stat::read(&headers, Some(algorithm));
        assert!(stat.checksum.is_none_or(|checksum| checksum.algorithm == algorithm));
    }
    let _ = crate::tokens::expiry(&Secret::new(String::from_utf8_lossy(data)));
}

/// A URL of a file, as it is and with a secret in its query.
pub fn surls(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(surl) = Surl::parse(text) {
        check_surl(&surl);
    }
    let shown = match Surl::parse(&format!("{text}?authz={TOKEN}")) {
        Ok(surl) => surl.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains(TOKEN) || !shown.contains(TOKEN), "{shown}");
}

/// It must lead to the host that it names, and messages must not carry its query.
fn check_surl(surl: &Surl) {
    assert_eq!(Surl::parse(surl.as_str()).as_ref(), Ok(surl));
    let shown = surl.to_string();
    assert!(
        shown
            .split_once('?')
            .is_none_or(|(_, query)| query.is_empty() || query == "***"),
        "{shown}"
    );
    if let Ok(uri) = surl.http_url().parse::<http::Uri>() {
        let host = surl.se();
        assert_eq!(
            uri.host().map(str::to_ascii_lowercase).as_deref(),
            host.split_once("://").map(|(_, host)| host)
        );
        assert_eq!(surl.scheme().is_encrypted(), uri.scheme_str() == Some("https"));
        assert!(surl.endpoint().starts_with(&format!("{}://", surl.scheme().wire())));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("transfer_surls", super::surls);
        run("transfer_markers", super::markers);
        run("transfer_failures", super::failures);
        run("transfer_answers", super::answers);
        run("transfer_tapes", super::tapes);
        run("transfer_grants", super::grants);
        run("transfer_listings", super::listings);
    }
}
