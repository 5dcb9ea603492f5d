//! Invariants of the parsers here, for any input. Built for tests and for the targets of `fuzz/` only.
#![allow(clippy::unwrap_used, reason = "a panic is how a target fails")]

use std::time::{Duration, UNIX_EPOCH};

use crate::{
    StoragePath,
    client::{read_answer, refusal},
    jws::{KEYS_MAX, KeySet, Unverified},
    redact,
    scitokens::{self, Dialect},
    scope::parse_scopes,
    token::{Access, Claims, Expected},
};

/// A key of an issuer that signed nothing here.
const STRANGER: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k",
    "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

/// A token with an ending that is nowhere else.
const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJlIG9mIHRoZSB0b2tlbg";

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// A received bearer token: no signature may verify, and its claims are parsed all the same.
pub fn token(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(token) = Unverified::parse(text) else { return };
    let keys = KeySet::parse(STRANGER.as_bytes()).unwrap();
    assert_eq!(keys.len(), 1);
    assert!(!keys.candidates(&token).any(|key| token.is_signed_by(key)));
    claims(&token.payload);
}

/// The payload of a token: accepted rights must lie within the issuer's prefixes, and in time.
pub fn claims(data: &[u8]) {
    let Ok(claims) = Claims::parse(data) else { return };
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let prefixes = ["/a", "/b c/"].map(|path| StoragePath::from_plain(path).unwrap());
    let leeway = Duration::from_secs(60);
    let expected = Expected {
        audiences: &["https://se.example.org".to_owned()],
        any_audience: false,
        dialects: &[Dialect::Wlcg, Dialect::SciTokens],
        leeway,
        prefixes: &prefixes,
    };
    let Ok(token) = claims.validate(&expected, now) else {
        return;
    };
    assert!(token.expires > now);
    assert!(token.not_before.is_none_or(|start| start <= now + leeway));
    assert!(!token.issuer.is_empty());
    assert!(token.dialect == Dialect::SciTokens || !token.subject.is_empty() && !token.id.is_empty());
    match token.access() {
        Access::Capabilities(capabilities) => {
            for capability in capabilities {
                let home = prefixes.iter().find(|prefix| capability.path.is_within(prefix));
                check_path(&capability.path, home.expect("a scope leads out of its prefix"));
            }
        }
        Access::Groups(groups) => {
            for group in groups {
                let group = group.as_str();
                assert!(group.starts_with('/') && group.split('/').all(|part| part != ".."));
            }
        }
    }
}

/// A key set: keys that are left must be usable.
pub fn keys(data: &[u8]) {
    let Ok(keys) = KeySet::parse(data) else { return };
    assert!(keys.len() <= KEYS_MAX);
    let token = Unverified::parse(TOKEN).unwrap();
    assert!(!keys.candidates(&token).any(|key| token.is_signed_by(key)));
}

/// Scopes, with blanks between: written out they must read back as the same, and cover themselves.
pub fn scopes(data: &[u8]) {
    let Some(text) = text(data) else { return };
    for scope in scitokens::parse_scopes(text).unwrap_or_default() {
        let scope = scope.to_string();
        assert!(parse_scopes(&scope).is_ok() || scope.starts_with("storage."), "{scope}");
    }
    let Ok(scopes) = parse_scopes(text) else { return };
    for scope in &scopes {
        assert_eq!(parse_scopes(&scope.to_string()).as_deref(), Ok(&[scope.clone()][..]));
        assert!(scope.covers(scope));
    }
}

/// Two paths of URLs, a line each: rules about them must agree with their texts.
pub fn paths(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let (one, two) = text.split_once('\n').unwrap_or((text, "/"));
    if let (Ok(one), Ok(two)) = (StoragePath::from_url_path(one), StoragePath::from_url_path(two)) {
        check_path(&one, &two);
        check_path(&two, &one);
        check_path(&one.join(&two), &one);
    }
}

/// Checks that `path` is usable, and that its relation to `other` is that of their texts.
fn check_path(path: &StoragePath, other: &StoragePath) {
    for name in path.names() {
        assert!(!["", ".", ".."].contains(&name), "{path:?}");
        assert!(!name.contains(['/', '\0']), "{path:?}");
    }
    let text = path.to_url_path();
    assert_eq!(StoragePath::from_url_path(&text).as_ref(), Ok(path));
    assert_eq!(StoragePath::from_scope_path(&text).as_ref(), Ok(path));
    // The same question put to texts: equal, or longer by a slash and more.
    let (bare, above) = (text.trim_end_matches('/'), other.to_url_path());
    let above = above.trim_end_matches('/');
    let within = bare == above || bare.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
    assert_eq!(path.is_within(other), within, "{path:?} {other:?}");
    assert!(within || !other.covers(path));
    if let Some(rest) = path.relative_to(other) {
        // The place itself is a directory as seen from there.
        assert!(other.join(&rest).is_same_place(path));
    }
}

/// Any text with a token in it, at the first NUL: the token must go, wherever it stands.
pub fn redaction(data: &[u8]) {
    let Some(text) = text(data) else { return };
    redact(text);
    if let Some((before, after)) = text.split_once('\0') {
        let clean = redact(&format!("{before}{TOKEN}{after}"));
        for part in TOKEN.split('.') {
            assert!(text.contains(part) || !clean.contains(part), "{clean}");
        }
    }
}

/// An issuer's answer to a token request: its error must be fit for a log, and its token for a header.
pub fn answers(data: &[u8]) {
    let said = refusal(data);
    assert!(said.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
    let _ = read_answer(data, std::time::Instant::now());
}

#[cfg(test)]
mod tests {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("auth_token", super::token);
        run("auth_claims", super::claims);
        run("auth_keys", super::keys);
        run("auth_scopes", super::scopes);
        run("auth_paths", super::paths);
        run("auth_redaction", super::redaction);
        run("auth_answers", super::answers);
    }
}
