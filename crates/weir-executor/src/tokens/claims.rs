//! The claims of a token, unverified: the judgement of storage and issuer counts.

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

/// The owner of a token, and its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outline {
    /// `iss`.
    pub(super) issuer: String,
    /// `sub`; empty if it has none.
    pub(super) subject: String,
    /// `exp`, in seconds since the epoch.
    pub(super) expires: u64,
}

impl Outline {
    /// Reads it, with as little work as that takes: a job may bring a token for each of its files.
    pub(super) fn read(token: &Secret) -> Option<Self> {
        if token.expose().len() > TOKEN_MAX {
            return None;
        }
        #[derive(Deserialize)]
        struct Claims {
            iss: String,
            #[serde(default)]
            sub: String,
            exp: f64,
        }
        let claims: Claims = serde_json::from_slice(&payload(token)?).ok()?;
        Some(Self {
            issuer: claims.iss,
            subject: claims.sub,
            expires: claims.exp as u64,
        })
    }
}

/// Why a text that has the three parts of a JWT is none. A text without them is opaque, such as a macaroon, and the storage's
/// business alone.
pub(super) fn malformed(token: &Secret) -> Option<&'static str> {
    let parts = token.expose().split('.').collect::<Vec<_>>();
    let [header, payload, signature] = parts.as_slice() else {
        return None;
    };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
    let object = |part: &str| serde_json::from_slice::<serde_json::Map<_, Value>>(&decoded(part)?).ok();
    let Some(_) = object(header) else {
        return Some("its header is not a JSON object in base64url");
    };
    let Some(claims) = object(payload) else {
        return Some("its payload is not a JSON object in base64url");
    };
    if claims.get("exp").is_some_and(|exp| !exp.is_number()) {
        return Some("its exp is not a number");
    }
    let signed = decoded(signature).is_some_and(|bytes| !bytes.is_empty());
    (!signed).then_some("its signature is missing, or not base64url")
}

/// The issuer of a token, and its rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    /// `iss`.
    pub(super) issuer: String,
    /// Its scope and audience: those of a fresh one, no more and no less.
    pub(super) wanted: Wanted,
}

impl Claims {
    /// `None` also for values that no issuer uses: such a token, shown to the issuer again and again, could make it
    /// refuse every token.
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

/// The rights that a fresh token lacks, for people. Only its readable claims are compared: an opaque token lacks
/// nothing, and scopes that storages ignore may be missing.
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
    fn only_texts_with_the_parts_of_a_token_are_judged() {
        // A macaroon would be refused; a token that no storage takes would wait in a queue for hours.
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let of = |header: &str, payload: &str, signature: &str| {
            malformed(&Secret::new(format!("{}.{}.{signature}", part(header), part(payload))))
        };
        assert_eq!(malformed(&token(&json!({ "exp": 12 }))), None);
        assert_eq!(malformed(&token(&json!({}))), None);
        for opaque in ["MDAxY2xvY2F0aW9uIGE", "a.b", "a.b.c.d", ""] {
            assert_eq!(malformed(&Secret::new(opaque)), None, "{opaque}");
        }
        for (flaw, word) in [
            (malformed(&Secret::new("a.b.c")), "header"),
            (malformed(&Secret::new("..")), "header"),
            (of("[]", "{}", "c2ln"), "header"),
            (of("{}", "no", "c2ln"), "payload"),
            (of("{}", r#"{"exp":"soon"}"#, "c2ln"), "exp"),
            (of("{}", "{}", ""), "signature"),
            (of("{}", "{}", "!"), "signature"),
        ] {
            assert!(flaw.is_some_and(|flaw| flaw.contains(word)), "{word}: {flaw:?}");
        }
    }

    #[test]
    fn a_token_that_lost_a_right_is_found_out() {
        // It would fail at the storage, with an unknown cause.
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
