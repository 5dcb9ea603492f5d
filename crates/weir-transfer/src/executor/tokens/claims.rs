//! What a token says about itself. Unverified: what counts is the storage's judgement, and the issuer's.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::Value;
use weir_auth::{Secret, client::Wanted, jws::TOKEN_MAX};

fn payload(token: &Secret) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(token.expose().split('.').nth(1)?).ok()
}

/// `exp`, in seconds since the epoch; none if it cannot be read.
pub(crate) fn expiry(token: &Secret) -> Option<u64> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let claims: Claims = serde_json::from_slice(&payload(token)?).ok()?;
    Some(claims.exp as u64)
}

/// `iss` and `exp`, with as little work as that takes: a job may bring a token for each of its files.
pub(super) fn outline(token: &Secret) -> Option<(String, u64)> {
    if token.expose().len() > TOKEN_MAX {
        return None;
    }
    #[derive(Deserialize)]
    struct Claims {
        iss: String,
        exp: f64,
    }
    let claims: Claims = serde_json::from_slice(&payload(token)?).ok()?;
    Some((claims.iss, claims.exp as u64))
}

/// Who issued a token, and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    /// `iss`.
    pub(super) issuer: String,
    /// Its scope and audience: what a fresh one is asked for, no more and no less.
    pub(super) wanted: Wanted,
}

impl Claims {
    /// None also for what no issuer makes: one such token, shown to it again and again, would have it refuse everybody's.
    pub(super) fn read(token: &Secret) -> Option<Self> {
        if token.expose().len() > TOKEN_MAX {
            return None;
        }
        let claims: Value = serde_json::from_slice(&payload(token)?).ok()?;
        Some(Self {
            issuer: claims.get("iss")?.as_str()?.to_owned(),
            wanted: Wanted {
                scope: words(claims.get("scope")),
                audience: words(claims.get("aud")),
            },
        })
    }
}

/// A text, or a list of texts: separated by blanks.
fn words(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

/// What a fresh token lacks of what was asked for, for people. Only what it tells is compared: an opaque token lacks nothing, and
/// scopes that storages do not look at may go.
pub(super) fn lacking(fresh: &Secret, told: Option<&str>, wanted: &Wanted) -> Option<String> {
    let claims = Claims::read(fresh);
    let scope = claims.as_ref().map(|claims| claims.wanted.scope.as_str()).or(told);
    let has = |all: &str, one: &str| all.split(' ').any(|word| word == one);
    if let Some(scope) = scope.filter(|scope| !scope.is_empty()) {
        let storage = wanted.scope.split(' ').filter(|word| word.starts_with("storage."));
        if let Some(lost) = storage.filter(|word| !has(scope, word)).map(str::to_owned).next() {
            return Some(format!("scope \"{lost}\""));
        }
    }
    let audience = claims.map(|claims| claims.wanted.audience).unwrap_or_default();
    let lost = wanted
        .audience
        .split(' ')
        .find(|word| !audience.is_empty() && !has(&audience, word));
    lost.map(|lost| format!("audience \"{lost}\""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use serde_json::json;

    use super::*;

    fn token(claims: &Value) -> Secret {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        Secret::new(format!("{}.{}.c2ln", part(&json!({ "alg": "ES256" })), part(claims)))
    }

    #[test]
    fn lists_and_texts_are_read_alike() {
        let read = |claims: Value| Claims::read(&token(&claims)).unwrap().wanted;
        let text = read(json!({ "iss": "i", "scope": "a b", "aud": "x" }));
        let list = read(json!({ "iss": "i", "scope": ["a", "b"], "aud": ["x"] }));
        assert_eq!(text, list);
        assert_eq!((text.scope.as_str(), text.audience.as_str()), ("a b", "x"));
        assert_eq!(expiry(&token(&json!({ "exp": 12.9 }))), Some(12));
        for strange in ["", "a.b.c", "opaque", "..", "a.!.c"] {
            assert_eq!(
                (expiry(&Secret::new(strange)), Claims::read(&Secret::new(strange))),
                (None, None)
            );
        }
        assert_eq!(expiry(&token(&json!({ "exp": "soon" }))), None);
    }

    #[test]
    fn a_token_that_lost_a_right_is_found_out() {
        // It would fail at the storage, and nobody would know why.
        let wanted = Wanted {
            scope: "storage.read:/a openid".into(),
            audience: "https://s".into(),
        };
        let check = |claims: Value| lacking(&token(&claims), None, &wanted);
        assert_eq!(
            check(json!({ "iss": "i", "scope": "storage.read:/a", "aud": ["https://s", "x"] })),
            None
        );
        let lost = check(json!({ "iss": "i", "scope": "storage.read:/b", "aud": "https://s" }));
        assert_eq!(lost.unwrap(), "scope \"storage.read:/a\"");
        let lost = check(json!({ "iss": "i", "scope": "storage.read:/a", "aud": "https://t" }));
        assert_eq!(lost.unwrap(), "audience \"https://s\"");
        assert_eq!(lacking(&Secret::new("opaque"), None, &wanted), None);
        assert!(lacking(&Secret::new("opaque"), Some("openid"), &wanted).is_some());
    }
}
