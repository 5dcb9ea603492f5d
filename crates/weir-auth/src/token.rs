//! Claims of an access token: the required ones, and their allowed values (WLCG profile 1.3; [`Dialect::SciTokens`] for
//! issuers configured with it).
//!
//! Nothing here checks a signature: see [`crate::verifier`]. [`Claims::parse`] and [`Claims::validate`] take data off
//! the wire and never panic.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;

use crate::error::{AuthError, printable};
use crate::path::StoragePath;
use crate::scitokens::{self, Dialect};
use crate::scope::{Scope, StorageAction, parse_scopes};

/// The audience that means every service (WLCG token profile).
pub const ANY_AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";

/// A verified token: signature, issuer, time and audience were right when it was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// `iss`: one of the configured issuers, exactly as configured.
    pub issuer: String,
    /// By which rules it was written.
    pub dialect: Dialect,
    /// `sub`: unique within the issuer. Empty if a SciToken does not say.
    pub subject: String,
    /// `jti`: the name of this very token; fit for logs. Empty if a SciToken has none.
    pub id: String,
    /// `scope`, in its order and in the words of the WLCG profile. Paths are relative to the issuer's prefixes.
    pub scopes: Vec<Scope>,
    /// `wlcg.groups`, in its order of preference; names that break the grammar are left out.
    pub groups: Vec<Group>,
    /// `client_id` or `azp`: the program that got the token.
    pub client_id: Option<String>,
    /// `exp`: from then on the token is void.
    pub expires: SystemTime,
    /// `nbf`: before then it is not valid yet.
    pub not_before: Option<SystemTime>,
    /// Where the issuer's word counts at this service.
    pub prefixes: Vec<StoragePath>,
    capabilities: Vec<Capability>,
    has_capability: bool,
}

/// Memory of a token's part beside its text: the pointer, and the allocator's overhead.
const ALLOCATION: usize = 64;

/// A storage scope with the issuer's prefix before its path: a right at this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The allowed action.
    pub action: StorageAction,
    /// At which path of this service, and below.
    pub path: StoragePath,
}

/// The basis of a token's rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access<'a> {
    /// By its capabilities alone. The list is empty if they are all for other kinds of service.
    Capabilities(&'a [Capability]),
    /// By its groups (may be empty), because it holds no capability.
    Groups(&'a [Group]),
}

impl Token {
    /// The basis of the token's rights: capabilities go before groups.
    pub fn access(&self) -> Access<'_> {
        if self.has_capability {
            Access::Capabilities(&self.capabilities)
        } else {
            Access::Groups(&self.groups)
        }
    }

    /// About how many bytes the token takes in memory.
    pub(crate) fn memory(&self) -> usize {
        let texts = [&self.issuer, &self.subject, &self.id]
            .into_iter()
            .chain(&self.client_id)
            .map(String::len);
        let scopes = self.scopes.iter().map(|scope| match scope {
            Scope::Storage { path, .. } => path.memory(),
            Scope::Compute(text) | Scope::Other(text) => text.len(),
        });
        let groups = self.groups.iter().map(|group| group.0.len());
        let paths = self.capabilities.iter().map(|capability| capability.path.memory());
        let prefixes = self.prefixes.iter().map(StoragePath::memory);
        let parts = texts.chain(scopes).chain(groups).chain(paths).chain(prefixes);
        size_of::<Self>() + parts.map(|bytes| bytes + ALLOCATION).sum::<usize>()
    }

    /// Whether the token holds this scope that has no path, such as `fts`.
    pub fn has_scope(&self, name: &str) -> bool {
        self.scopes
            .iter()
            .any(|scope| matches!(scope, Scope::Other(text) | Scope::Compute(text) if text == name))
    }
}

/// A group of a VO, such as `/dteam/production`: compared as a whole, parents are not implied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(String);

impl Group {
    /// Reads a group: a slash and a name, once or more; names of letters, digits, `.`, `_` and `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let names = text.strip_prefix('/')?;
        let good = |name: &str| {
            let mut bytes = name.bytes();
            bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        names.split('/').all(good).then(|| Self(text.to_owned()))
    }

    /// The group, with its leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The values that a service expects of claims.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Names of this service; one of them must be in `aud`.
    pub audiences: &'a [String],
    /// Whether tokens for every service are taken too: [`ANY_AUDIENCE`], or `ANY` in a SciToken.
    pub any_audience: bool,
    /// In which dialects the issuer may write.
    pub dialects: &'a [Dialect],
    /// How far a clock may be off at the *start* of validity.
    pub leeway: Duration,
    /// Where the issuer's word counts.
    pub prefixes: &'a [StoragePath],
}

/// The payload of a token as it came: known claims, unchecked.
#[derive(Debug, Clone, Deserialize)]
pub struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    jti: Option<String>,
    scope: Option<String>,
    #[serde(rename = "wlcg.ver")]
    version: Option<String>,
    /// Of any type: other kinds of token have a claim of this name too.
    #[serde(rename = "ver")]
    other_version: Option<Value>,
    #[serde(rename = "wlcg.groups")]
    groups: Option<Vec<String>>,
    client_id: Option<String>,
    azp: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Claims {
    /// Reads the JSON of a payload. A claim given twice is refused.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] if it is no JSON object or a claim has the wrong type.
    pub fn parse(json: &[u8]) -> Result<Self, AuthError> {
        serde_json::from_slice(json).map_err(|_| AuthError::Malformed("its payload is not a JSON object of claims"))
    }

    /// The issuer, unchecked.
    ///
    /// # Errors
    /// [`AuthError::MissingClaim`] if there is none.
    pub fn issuer(&self) -> Result<&str, AuthError> {
        self.iss
            .as_deref()
            .filter(|text| !text.is_empty())
            .ok_or(AuthError::MissingClaim("iss"))
    }

    /// Checks every claim but the issuer's name, which the caller has looked up.
    ///
    /// # Errors
    /// The first claim that is missing or does not hold.
    pub fn validate(self, expected: &Expected<'_>, now: SystemTime) -> Result<Token, AuthError> {
        let issuer = self.issuer()?.to_owned();
        let dialect = self.dialect(expected.dialects)?;
        let (subject, id) = match dialect {
            Dialect::Wlcg => {
                time(self.iat, "iat")?;
                (required(self.sub, "sub")?, required(self.jti, "jti")?)
            }
            Dialect::SciTokens => (self.sub.unwrap_or_default(), self.jti.unwrap_or_default()),
        };
        let expires = time(self.exp, "exp")?;
        if now >= expires {
            return Err(AuthError::Expired {
                ago: now.duration_since(expires).unwrap_or_default(),
            });
        }
        let not_before = self.nbf.map(|nbf| time(Some(nbf), "nbf")).transpose()?;
        check_started(not_before, now, expected.leeway)?;
        check_audience(self.aud, expected, dialect)?;
        let scopes = self.scope.as_deref().unwrap_or_default();
        let scopes = match dialect {
            Dialect::Wlcg => parse_scopes(scopes)?,
            Dialect::SciTokens => scitokens::parse_scopes(scopes)?,
        };
        let groups = self
            .groups
            .unwrap_or_default()
            .iter()
            .filter_map(|text| Group::parse(text))
            .collect();
        Ok(Token {
            issuer,
            dialect,
            subject,
            id,
            capabilities: capabilities(&scopes, expected.prefixes),
            has_capability: scopes.iter().any(Scope::is_capability),
            scopes,
            groups,
            client_id: self.client_id.or(self.azp),
            expires,
            not_before,
            prefixes: expected.prefixes.to_vec(),
        })
    }

    /// The dialect of the token: the WLCG profile if it names that version, whatever its other claims.
    fn dialect(&self, taken: &[Dialect]) -> Result<Dialect, AuthError> {
        let other = self.other_version.as_ref().and_then(Value::as_str);
        let (dialect, version) = match (self.version.as_deref(), other) {
            (None, Some(version)) if version.starts_with("scitoken:") => (Dialect::SciTokens, version),
            (version, _) => (Dialect::Wlcg, check_version(version)?),
        };
        if taken.contains(&dialect) && (dialect == Dialect::Wlcg || version == scitokens::VERSION) {
            return Ok(dialect);
        }
        Err(AuthError::Dialect(printable(version)))
    }
}

/// Whether a token's time has come, the leeway granted.
pub(crate) fn check_started(
    not_before: Option<SystemTime>,
    now: SystemTime,
    leeway: Duration,
) -> Result<(), AuthError> {
    match not_before {
        Some(start) if now + leeway < start => Err(AuthError::NotYetValid {
            starts_in: start.duration_since(now).unwrap_or_default(),
        }),
        _ => Ok(()),
    }
}

/// Every storage scope below every prefix.
fn capabilities(scopes: &[Scope], prefixes: &[StoragePath]) -> Vec<Capability> {
    let mut all = Vec::new();
    for scope in scopes {
        let Scope::Storage { action, path } = scope else {
            continue;
        };
        for prefix in prefixes {
            all.push(Capability {
                action: *action,
                path: prefix.join(path),
            });
        }
    }
    all
}

fn required(claim: Option<String>, name: &'static str) -> Result<String, AuthError> {
    claim
        .filter(|text| !text.is_empty())
        .ok_or(AuthError::MissingClaim(name))
}

/// `MAJOR.MINOR`: the major version must be 1, a newer minor one is fine.
fn check_version(version: Option<&str>) -> Result<&str, AuthError> {
    let version = version.ok_or(AuthError::MissingClaim("wlcg.ver"))?;
    let number = |text: &str| !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    match version.split_once('.') {
        Some(("1", minor)) if number(minor) => Ok(version),
        _ => Err(AuthError::Version(printable(version))),
    }
}

/// Seconds since the epoch, whole or not (RFC 7519 section 2), within the range of a clock.
fn time(claim: Option<f64>, name: &'static str) -> Result<SystemTime, AuthError> {
    let seconds = claim.ok_or(AuthError::MissingClaim(name))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|since| UNIX_EPOCH.checked_add(since))
        .ok_or(AuthError::Malformed("one of its times is not a time"))
}

fn check_audience(audience: Option<Audience>, expected: &Expected<'_>, dialect: Dialect) -> Result<(), AuthError> {
    let named = match audience {
        Some(Audience::One(one)) => vec![one],
        Some(Audience::Many(many)) => many,
        None => Vec::new(),
    };
    if named.is_empty() {
        return Err(AuthError::MissingClaim("aud"));
    }
    let any = match dialect {
        Dialect::Wlcg => ANY_AUDIENCE,
        Dialect::SciTokens => scitokens::ANY_AUDIENCE,
    };
    let good = |name: &String| expected.audiences.contains(name) || (expected.any_audience && name == any);
    if named.iter().any(good) {
        return Ok(());
    }
    Err(AuthError::Audience {
        named: printable(&named.join(" ")),
        wanted: expected
            .audiences
            .first()
            .cloned()
            .unwrap_or_else(|| "(none: no audience is configured)".to_owned()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }

    fn good() -> Value {
        json!({
            "iss": "https://issuer.example/", "sub": "someone", "aud": "https://storage.example:8443", "jti": "1",
            "exp": NOW + 600, "nbf": NOW, "iat": NOW, "wlcg.ver": "1.0", "scope": "openid storage.read:/a",
        })
    }

    fn validate(claims: &Value, prefixes: &[&str]) -> Result<Token, AuthError> {
        let audiences = ["https://storage.example:8443".to_owned(), "storage.example".to_owned()];
        let prefixes: Vec<StoragePath> = prefixes.iter().map(|text| text.parse().unwrap()).collect();
        let expected = Expected {
            audiences: &audiences,
            any_audience: true,
            dialects: &[Dialect::Wlcg, Dialect::SciTokens],
            leeway: Duration::from_secs(60),
            prefixes: &prefixes,
        };
        Claims::parse(claims.to_string().as_bytes())?.validate(&expected, now())
    }

    fn with(name: &str, value: &Value) -> Value {
        let mut claims = good();
        claims[name] = value.clone();
        claims
    }

    /// A token with these scopes, trusted for `/`.
    pub(crate) fn token(scope: &str) -> Token {
        validate(&with("scope", &json!(scope)), &["/"]).unwrap()
    }

    /// A token with these scopes, trusted for these prefixes.
    pub(crate) fn token_below(scope: &str, prefixes: &[&str]) -> Token {
        validate(&with("scope", &json!(scope)), prefixes).unwrap()
    }

    /// A token without capabilities, with these groups.
    pub(crate) fn token_of_groups(groups: &[&str]) -> Token {
        let mut claims = with("wlcg.groups", &json!(groups));
        claims["scope"] = json!("openid");
        validate(&claims, &["/"]).unwrap()
    }

    /// A SciToken with these scopes, trusted for `/`.
    pub(crate) fn scitoken(scope: &str) -> Token {
        let claims = json!({ "iss": "https://issuer.example/", "aud": "ANY", "exp": NOW + 600, "ver": "scitoken:2.0", "scope": scope });
        validate(&claims, &["/"]).unwrap()
    }

    #[test]
    fn every_demanded_claim_is_demanded() {
        // A token without subject, audience or expiry would be accepted.
        assert!(validate(&good(), &["/"]).is_ok());
        for name in ["iss", "sub", "aud", "exp", "iat", "jti", "wlcg.ver"] {
            let mut claims = good();
            claims.as_object_mut().unwrap().remove(name);
            let name: &'static str = name;
            assert_eq!(validate(&claims, &["/"]), Err(AuthError::MissingClaim(name)));
            assert!(validate(&with(name, &Value::Null), &["/"]).is_err(), "{name} null");
        }
        for name in ["nbf", "scope", "wlcg.groups"] {
            let mut claims = good();
            claims.as_object_mut().unwrap().remove(name);
            assert!(validate(&claims, &["/"]).is_ok(), "{name} is optional");
        }
    }

    #[test]
    fn claims_of_wrong_types_are_refused() {
        // A claim would be read as something that its issuer did not say.
        for (name, value) in [
            ("iss", json!(1)),
            ("sub", json!(["a"])),
            ("aud", json!(7)),
            ("aud", json!([["a"]])),
            ("aud", json!([])),
            ("exp", json!("1800000600")),
            ("exp", json!(-1)),
            ("exp", json!(1e300)),
            ("scope", json!(["storage.read:/"])),
            ("wlcg.ver", json!(1.0)),
            ("wlcg.groups", json!("/a")),
        ] {
            assert!(validate(&with(name, &value), &["/"]).is_err(), "{name} {value}");
        }
        let twice = good().to_string().replacen('{', "{\"sub\":\"other\",", 1);
        assert!(Claims::parse(twice.as_bytes()).is_err(), "a claim given twice");
    }

    #[test]
    fn the_end_is_exact_and_the_start_has_leeway() {
        // An expired token would be accepted, or one of an issuer whose clock is a little ahead refused.
        assert!(validate(&with("exp", &json!(NOW + 1)), &["/"]).is_ok());
        assert!(matches!(
            validate(&with("exp", &json!(NOW)), &["/"]),
            Err(AuthError::Expired { .. })
        ));
        assert!(validate(&with("exp", &json!(NOW as f64 + 0.5)), &["/"]).is_ok());
        assert!(validate(&with("nbf", &json!(NOW + 60)), &["/"]).is_ok());
        assert!(matches!(
            validate(&with("nbf", &json!(NOW + 61)), &["/"]),
            Err(AuthError::NotYetValid { .. })
        ));
    }

    #[test]
    fn only_versions_one_point_something_are_taken() {
        // A token of a profile with other rules would be judged by ours.
        for version in ["1.0", "1.1", "1.3", "1.99"] {
            assert!(
                validate(&with("wlcg.ver", &json!(version)), &["/"]).is_ok(),
                "{version}"
            );
        }
        for version in [
            "", "1", "1.", "2.0", "0.9", "10.0", "01.0", "1.0.0", "1.x", "v1.0", "1.-1", " 1.0",
        ] {
            assert!(
                validate(&with("wlcg.ver", &json!(version)), &["/"]).is_err(),
                "{version}"
            );
        }
    }

    #[test]
    fn the_audience_must_name_us_exactly() {
        // A token meant for another service could be replayed here.
        for audience in [
            json!("storage.example"),
            json!(["https://other.example", "https://storage.example:8443"]),
            json!("https://wlcg.cern.ch/jwt/v1/any"),
        ] {
            assert!(validate(&with("aud", &audience), &["/"]).is_ok(), "{audience}");
        }
        for audience in [
            json!("https://STORAGE.example:8443"),
            json!("https://storage.example:8443/"),
            json!("https://storage.example"),
            json!("any"),
            json!(""),
            json!(["https://wlcg.cern.ch/jwt/v1/any/"]),
        ] {
            assert!(
                matches!(
                    validate(&with("aud", &audience), &["/"]),
                    Err(AuthError::Audience { .. })
                ),
                "{audience}"
            );
        }
    }

    #[test]
    fn capabilities_go_before_groups() {
        // A token cut down to one scope would keep all that its groups may do.
        let groups = json!(["/dteam", "/dteam/production"]);
        let mut claims = with("wlcg.groups", &groups);
        assert!(matches!(
            validate(&claims, &["/"]).unwrap().access(),
            Access::Capabilities([_])
        ));
        claims["scope"] = json!("compute.read");
        assert_eq!(validate(&claims, &["/"]).unwrap().access(), Access::Capabilities(&[]));
        claims["scope"] = json!("openid offline_access");
        assert!(matches!(
            validate(&claims, &["/"]).unwrap().access(),
            Access::Groups([_, _])
        ));
    }

    #[test]
    fn groups_that_break_the_grammar_are_left_out() {
        // A malformed name could be taken for a group.
        for good in ["/a", "/dteam/production", "/a.b-c_d/1"] {
            assert!(Group::parse(good).is_some(), "{good}");
        }
        for bad in ["", "/", "a", "//a", "/a/", "/a b", "/-a", "/../a", "/a/*", "/é"] {
            assert!(Group::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn scopes_lie_below_every_prefix_of_the_issuer() {
        // A token of one VO would reach the files of another.
        let token = validate(
            &with("scope", &json!("storage.read:/x storage.modify:/")),
            &["/vo1", "/vo2"],
        )
        .unwrap();
        let Access::Capabilities(all) = token.access() else {
            panic!("no capabilities")
        };
        let all: Vec<String> = all
            .iter()
            .map(|capability| format!("{} {}", capability.action.as_str(), capability.path))
            .collect();
        assert_eq!(
            all,
            [
                "storage.read /vo1/x",
                "storage.read /vo2/x",
                "storage.modify /vo1/",
                "storage.modify /vo2/"
            ]
        );
    }
}
