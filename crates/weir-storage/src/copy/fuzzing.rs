//! Invariants of the readers of another endpoint's answers, for any input. Built for tests and for the targets of
//! `fuzz/` only.
#![allow(clippy::unwrap_used, reason = "a panic is how a target fails")]

use http::Uri;

use weir_http::redirect::resolve;

/// A requested URL, and the `Location` of its answer, a line each: a redirect must be a whole URL, and one without a
/// host stays at the requested host.
pub fn redirects(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((from, location)) = text.split_once('\n') else {
        return;
    };
    let Ok(from) = from.parse::<Uri>() else { return };
    let Some(to) = resolve(&from, location) else { return };
    assert!(matches!(to.scheme_str(), Some("https" | "http")), "{to}");
    let authority = to.authority().unwrap().as_str();
    assert!(!authority.is_empty() && !authority.contains('@'), "{to}");
    assert!(to.to_string().parse::<Uri>().is_ok_and(|again| again == to), "{to}");
    let location = location.trim_matches([' ', '\t']);
    let scheme = location.split_once("://").map(|(scheme, _)| scheme);
    if scheme.is_none_or(|scheme| scheme.contains(['/', '?', '#', '%'])) && !location.starts_with("//") {
        assert_eq!(to.authority(), from.authority(), "{location}");
    }
}

#[cfg(test)]
mod tests {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("storage_redirects", super::redirects);
    }
}
