//! SciTokens 2.0: the token dialect of OSG and others, older than the WLCG profile and still in use.
//!
//! Source: the claims language at scitokens.org, and the behaviour of libscitokens. Differences from the profile:
//!
//! | | WLCG profile | SciTokens 2.0 |
//! |---|---|---|
//! | version | `wlcg.ver`: `1.x` | `ver`: `scitoken:2.0` |
//! | `sub`, `jti`, `iat` | must be there | may be missing |
//! | audience of every service | `https://wlcg.cern.ch/jwt/v1/any` | `ANY` |
//! | rights | `storage.read:/p`, … | `read:/p`; `write:/p` to make, replace, move and delete; without a path: `/p` is `/` |

use serde::{Deserialize, Serialize};

use crate::path::StoragePath;
use crate::scope::{Scope, ScopeError, StorageAction};

/// The value of `ver`.
pub(crate) const VERSION: &str = "scitoken:2.0";
/// The audience that means every service.
pub(crate) const ANY_AUDIENCE: &str = "ANY";

/// By which rules an issuer writes its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// The WLCG token profile, major version 1.
    Wlcg,
    /// SciTokens 2.0.
    SciTokens,
}

impl Dialect {
    /// The name under which a token of this dialect has the right, as to be asked of the issuer.
    pub(crate) fn name_of(self, action: StorageAction) -> &'static str {
        match (self, action) {
            (Self::SciTokens, StorageAction::Read) => "read",
            (Self::SciTokens, StorageAction::Create | StorageAction::Modify) => "write",
            // A right without a word in SciTokens can only come from a token of the profile.
            (_, action) => action.as_str(),
        }
    }
}

/// Reads a `scope` claim: scopes separated by spaces, in their order, translated to the terms of the profile.
///
/// # Errors
/// The error of the first invalid scope, which makes the whole token invalid.
pub(crate) fn parse_scopes(text: &str) -> Result<Vec<Scope>, ScopeError> {
    let scopes = text.split(' ').filter(|scope| !scope.is_empty());
    scopes.map(parse).collect()
}

fn parse(text: &str) -> Result<Scope, ScopeError> {
    let (name, path) = text.split_once(':').map_or((text, "/"), |(name, path)| (name, path));
    let (name, action) = match name {
        "read" => ("read", StorageAction::Read),
        "write" => ("write", StorageAction::Modify),
        // Of no use here, but its holder was cut down to it: groups and rules must not give more.
        _ if is_capability(name) => return Ok(Scope::Compute(text.to_owned())),
        _ => return Ok(Scope::Other(text.to_owned())),
    };
    let path = StoragePath::from_scope_path(path).map_err(|source| ScopeError::Path { action: name, source })?;
    Ok(Scope::Storage { action, path })
}

/// `queue` and `execute` are rights at computing endpoints; scopes of the profile have no meaning in this dialect.
fn is_capability(name: &str) -> bool {
    matches!(name, "queue" | "execute") || name.starts_with("storage.") || name.starts_with("compute.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde_json::{Value, json};

    use super::*;
    use crate::error::AuthError;
    use crate::token::{self, Access, Claims, Expected, Token};

    const NOW: u64 = 1_800_000_000;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }

    fn good() -> Value {
        json!({"iss": "https://issuer.example/", "aud": "ANY", "exp": NOW + 600, "ver": "scitoken:2.0", "scope": "read:/a"})
    }

    fn judge(claims: &Value, dialects: &[Dialect]) -> Result<Token, AuthError> {
        let expected = Expected {
            audiences: &[],
            any_audience: true,
            dialects,
            leeway: Duration::ZERO,
            prefixes: &[StoragePath::root()],
        };
        Claims::parse(claims.to_string().as_bytes())?.validate(&expected, now())
    }

    #[test]
    fn tokens_are_taken_by_the_rules_of_their_dialect() {
        // A token would be judged by the rules of another dialect.
        let with = |name: &str, value: Value| {
            let mut claims = good();
            claims[name] = value;
            judge(&claims, &[Dialect::Wlcg, Dialect::SciTokens])
        };
        let token = with("scope", json!("read:/a write openid")).unwrap();
        assert_eq!((token.dialect, token.subject.as_str()), (Dialect::SciTokens, ""));
        assert!(matches!(token.access(), Access::Capabilities([_, _])));
        assert_eq!(with("sub", json!("ada")).unwrap().subject, "ada");
        let cut_down = with("scope", json!("storage.read:/a")).unwrap();
        assert_eq!(cut_down.access(), Access::Capabilities(&[]));

        let any = with("aud", json!(token::ANY_AUDIENCE));
        assert!(matches!(any, Err(AuthError::Audience { .. })));
        assert_eq!(with("aud", Value::Null), Err(AuthError::MissingClaim("aud")));
        assert_eq!(with("exp", Value::Null), Err(AuthError::MissingClaim("exp")));
        assert!(with("wlcg.ver", json!("2.0")).is_err(), "the profile goes first");
        let mixed = with("wlcg.ver", json!("1.0"));
        assert_eq!(mixed, Err(AuthError::MissingClaim("iat")), "and all of its rules hold");
    }

    #[test]
    fn an_issuer_writes_only_the_dialects_that_it_is_said_to_write() {
        // An operator who trusts an issuer for one dialect would have trusted it for the looser one.
        let mut claims = good();
        judge(&claims, &[Dialect::SciTokens]).unwrap();
        let refused = |version: &str| Err(AuthError::Dialect(version.to_owned()));
        assert_eq!(judge(&claims, &[Dialect::Wlcg]), refused("scitoken:2.0"));
        for version in ["scitoken:1.0", "scitoken:2.1", "scitoken:"] {
            claims["ver"] = json!(version);
            assert_eq!(judge(&claims, &[Dialect::SciTokens]), refused(version));
        }
        for version in [json!(2), json!("2.0"), Value::Null] {
            claims["ver"] = version;
            let unknown = judge(&claims, &[Dialect::SciTokens]);
            assert_eq!(unknown, Err(AuthError::MissingClaim("wlcg.ver")));
        }
        claims["wlcg.ver"] = json!("1.0");
        assert_eq!(judge(&claims, &[Dialect::SciTokens]), refused("1.0"));
    }

    #[test]
    fn scopes_mean_what_the_dialect_says() {
        // A right would be read as another one, or as none.
        for (text, meaning) in [
            ("read:/a", "storage.read:/a"),
            ("read", "storage.read:/"),
            ("read:/", "storage.read:/"),
            ("write:/a/b%20c/", "storage.modify:/a/b%20c/"),
            ("write", "storage.modify:/"),
            ("queue", "queue"),
            ("storage.read:/a", "storage.read:/a"),
        ] {
            let scope = parse(text).unwrap();
            assert_eq!(scope.to_string(), meaning);
            assert!(scope.is_capability(), "{text}");
        }
        assert!(matches!(parse("storage.read:/a").unwrap(), Scope::Compute(_)));
        for text in ["openid", "readx:/a", "READ:/a", "reads"] {
            assert!(matches!(parse(text).unwrap(), Scope::Other(_)), "{text}");
        }
    }

    #[test]
    fn paths_that_are_not_normal_void_the_token() {
        // A token could reach paths that its scopes do not name.
        for text in [
            "read:",
            "read:a",
            "read:/..",
            "write:/a//b",
            "write:/a/%2e%2e/b",
            "read:/a%2fb",
        ] {
            assert!(parse_scopes(&format!("openid {text}")).is_err(), "{text}");
        }
    }
}
