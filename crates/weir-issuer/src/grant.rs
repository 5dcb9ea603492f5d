//! The grant for a client's request. Pure: no clock, no key, no network.

use http::StatusCode;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use weir_auth::{Scope, Secret};
use weir_service::config::Invalid;

use crate::config::Client;
use crate::request::{Credentials, Refusal, TokenRequest};

/// A client as the issuer knows it.
#[derive(Debug)]
pub(crate) struct KnownClient {
    pub(crate) id: String,
    pub(crate) subject: String,
    secret_hash: [u8; 32],
    pub(crate) scopes: Vec<Scope>,
    pub(crate) audiences: Vec<String>,
    /// Whether it may exchange and refresh.
    pub(crate) exchange: bool,
    default_audience: String,
    groups: Vec<String>,
}

impl KnownClient {
    /// Reads the client's secret, if that is in a file.
    pub(crate) fn new(client: &Client, place: usize) -> Result<Self, Invalid> {
        Ok(Self {
            id: client.id.clone(),
            subject: client.subject.clone().unwrap_or_else(|| client.id.clone()),
            secret_hash: client.secret_hash(place)?,
            // The configuration was checked: every scope can be read.
            scopes: client
                .scopes
                .iter()
                .filter_map(|text| Scope::parse(text).ok())
                .collect(),
            audiences: client.audiences.clone(),
            exchange: client.exchange,
            default_audience: client.default_audience().to_owned(),
            groups: client.groups.clone(),
        })
    }

    /// Whether it is the client that speaks. Hashes are compared in full, so that time tells nothing about the secret.
    fn is(&self, secret: &Secret) -> bool {
        let hash: [u8; 32] = Sha256::digest(secret.expose()).into();
        hash.iter()
            .zip(&self.secret_hash)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
    }
}

/// A token to be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Never empty, no scope twice.
    pub(crate) scopes: Vec<Scope>,
    /// Never empty.
    pub(crate) audiences: Vec<String>,
    /// Empty unless the scope `wlcg.groups` is granted.
    pub(crate) groups: Vec<String>,
    /// The subject.
    pub(crate) subject: String,
    /// The chain of exchanges that it continues; `None` for a token in the client's own name.
    pub(crate) chain: Option<Chain>,
}

/// Tokens that follow from one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// When the first of them was made, in seconds since the epoch.
    pub(crate) origin: u64,
    /// When the last of them ends.
    pub(crate) ends: u64,
}

impl KnownClient {
    /// Whether it may have tokens for this service.
    pub(crate) fn may_reach(&self, audience: &String) -> bool {
        self.audiences.contains(audience) || self.audiences.iter().any(|allowed| allowed == "*")
    }
}

/// The client that the credentials belong to.
///
/// An unknown id costs the same hash as a wrong secret.
pub(crate) fn authenticate<'c>(
    clients: &'c [KnownClient],
    credentials: &[Credentials],
) -> Result<&'c KnownClient, Refusal> {
    let mut found = None;
    for one in credentials {
        let named = clients.iter().find(|client| client.id == one.id);
        for secret in &one.secrets {
            match named {
                Some(client) if client.is(secret) => found = Some(client),
                Some(_) => {}
                None => drop(Sha256::digest(secret.expose())),
            }
        }
    }
    found.ok_or_else(Refusal::client)
}

/// Narrows a request to the client's rights.
pub(crate) fn grant(client: &KnownClient, request: &TokenRequest) -> Result<Grant, Refusal> {
    let may = || client.scopes.iter().map(Scope::to_string).collect::<Vec<_>>().join(" ");
    if request.scopes.is_empty() {
        return Err(Refusal::bad(
            "invalid_scope",
            format!("no scope is asked for; this client may ask for {}", may()),
        ));
    }
    let scopes = narrow(&request.scopes, &client.scopes);
    if scopes.is_empty() {
        return Err(Refusal::bad(
            "invalid_scope",
            format!("this client may only ask for {}", may()),
        ));
    }
    let audiences = if request.audiences.is_empty() {
        vec![client.default_audience.clone()]
    } else {
        request.audiences.clone()
    };
    if let Some(refused) = audiences.iter().find(|asked| !client.may_reach(asked)) {
        let description = format!("this client may have no token for {refused}");
        return Err(Refusal::bad("invalid_target", description));
    }
    let with_groups = scopes
        .iter()
        .any(|scope| matches!(scope, Scope::Other(text) if text == "wlcg.groups"));
    Ok(Grant {
        scopes,
        audiences,
        groups: if with_groups { client.groups.clone() } else { Vec::new() },
        subject: client.subject.clone(),
        chain: None,
    })
}

/// Each requested scope that an allowed one covers; in place of one that is too wide, the allowed ones that it covers.
fn narrow(asked: &[Scope], allowed: &[Scope]) -> Vec<Scope> {
    let mut granted: Vec<Scope> = Vec::new();
    let mut add = |scope: &Scope| {
        if !granted.contains(scope) {
            granted.push(scope.clone());
        }
    };
    for scope in asked {
        if allowed.iter().any(|wide| wide.covers(scope)) {
            add(scope);
        } else {
            allowed.iter().filter(|narrow| scope.covers(narrow)).for_each(&mut add);
        }
    }
    granted
}

/// The claims of a token, WLCG profile 1.0: the version that issuers of the field write and every service accepts.
#[derive(Debug, Serialize)]
pub(crate) struct Claims<'a> {
    #[serde(rename = "wlcg.ver")]
    version: &'static str,
    iss: &'a str,
    sub: &'a str,
    aud: OneOrMany<'a>,
    iat: u64,
    nbf: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_time: Option<u64>,
    jti: String,
    client_id: &'a str,
    scope: &'a str,
    #[serde(rename = "wlcg.groups", skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
}

/// Services of the field that know only one audience want it as a string.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OneOrMany<'a> {
    One(&'a str),
    Many(&'a [String]),
}

/// Seconds before its making from which a token is valid, for services whose clocks are late and that grant no leeway.
const NOT_BEFORE: u64 = 60;

impl<'a> Claims<'a> {
    pub(crate) fn new(
        issuer: &'a str,
        client: &'a KnownClient,
        grant: &'a Grant,
        scope: &'a str,
        now: u64,
        lifetime: u64,
    ) -> Self {
        let aud = match grant.audiences.as_slice() {
            [one] => OneOrMany::One(one),
            many => OneOrMany::Many(many),
        };
        Self {
            version: "1.0",
            iss: issuer,
            sub: &grant.subject,
            aud,
            iat: now,
            nbf: now.saturating_sub(NOT_BEFORE),
            exp: grant.chain.map_or(u64::MAX, |chain| chain.ends).min(now + lifetime),
            auth_time: grant.chain.map(|chain| chain.origin),
            jti: uuid::Uuid::new_v4().to_string(),
            client_id: &client.id,
            scope,
            groups: &grant.groups,
        }
    }

    /// Seconds for which the token is good.
    pub(crate) fn lifetime(&self) -> u64 {
        self.exp - self.iat
    }

    /// The name of the token, for the log.
    pub(crate) fn id(&self) -> &str {
        &self.jti
    }
}

/// How many tokens a client may have now: a bucket that refills as time passes and holds one second's worth.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: f64,
    left: f64,
    seen: std::time::Instant,
}

impl Allowance {
    pub(crate) fn new(per_second: u32, now: std::time::Instant) -> Self {
        Self {
            per_second: per_second.into(),
            left: per_second.into(),
            seen: now,
        }
    }

    pub(crate) fn take(&mut self, now: std::time::Instant) -> Result<(), Refusal> {
        let passed = now.saturating_duration_since(self.seen).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.per_second);
        self.seen = now;
        if self.left < 1.0 {
            return Err(Refusal {
                status: StatusCode::TOO_MANY_REQUESTS,
                error: "temporarily_unavailable",
                description: format!(
                    "this client may have {} tokens a second; keep and reuse them",
                    self.per_second
                ),
            });
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::time::{Duration, Instant};

    use super::*;

    fn scopes(text: &str) -> Vec<Scope> {
        text.split(' ').map(|scope| Scope::parse(scope).unwrap()).collect()
    }

    fn client(allowed: &[&str], audiences: &[&str]) -> KnownClient {
        KnownClient::new(
            &Client::with_secret("c", &Secret::new("0123456789abcdef"), allowed, audiences),
            0,
        )
        .unwrap()
    }

    fn ask(text: &str, audiences: &[&str]) -> TokenRequest {
        TokenRequest {
            basis: crate::request::Basis::Client,
            credentials: Vec::new(),
            scopes: if text.is_empty() { Vec::new() } else { scopes(text) },
            audiences: audiences.iter().map(|name| (*name).to_owned()).collect(),
            offline: false,
        }
    }

    #[test]
    fn scopes_are_narrowed_to_what_the_client_may_ask() {
        // A client would get more than its configuration allows.
        let check = |allowed: &str, asked: &str, expected: &str| {
            let granted: Vec<_> = narrow(&scopes(asked), &scopes(allowed))
                .iter()
                .map(Scope::to_string)
                .collect();
            assert_eq!(granted.join(" "), expected, "{asked} of {allowed}");
        };
        check("storage.read:/", "storage.read:/a/b", "storage.read:/a/b");
        check("storage.read:/", "storage.modify:/a", "");
        check("storage.read:/a", "storage.read:/ab", "");
        check(
            "storage.read:/a storage.read:/b",
            "storage.read:/",
            "storage.read:/a storage.read:/b",
        );
        check(
            "storage.read:/ fts",
            "fts storage.read:/x storage.modify:/x",
            "fts storage.read:/x",
        );
        check("storage.modify:/", "storage.create:/a", "");
        check("storage.read:/a", "storage.read:/a storage.read:/a", "storage.read:/a");
    }

    #[test]
    fn nothing_is_granted_that_was_not_asked_for() {
        // A program that names no scope would hold all rights of its client.
        let client = client(&["storage.read:/a"], &["https://s"]);
        assert_eq!(grant(&client, &ask("", &[])).unwrap_err().error, "invalid_scope");
        let refusal = grant(&client, &ask("storage.modify:/a", &[])).unwrap_err();
        assert!(refusal.description.contains("storage.read:/a"), "{refusal:?}");
    }

    #[test]
    fn audiences_are_those_allowed() {
        // A client could get a token for a service that it has no business with.
        let narrow = client(&["storage.read:/"], &["https://a", "https://b"]);
        assert_eq!(
            grant(&narrow, &ask("storage.read:/", &[])).unwrap().audiences,
            ["https://a"]
        );
        assert_eq!(
            grant(&narrow, &ask("storage.read:/", &["https://b"]))
                .unwrap()
                .audiences,
            ["https://b"]
        );
        assert_eq!(
            grant(&narrow, &ask("storage.read:/", &["https://c"]))
                .unwrap_err()
                .error,
            "invalid_target"
        );
        let wide = client(&["storage.read:/"], &["*"]);
        assert_eq!(
            grant(&wide, &ask("storage.read:/", &["https://c"])).unwrap().audiences,
            ["https://c"]
        );
        assert_eq!(
            grant(&wide, &ask("storage.read:/", &[])).unwrap().audiences,
            [weir_auth::ANY_AUDIENCE]
        );
    }

    #[test]
    fn only_the_right_secret_of_the_right_client_is_taken() {
        // Anybody could have tokens.
        let clients = [client(&["fts"], &["*"])];
        let with = |id: &str, secret: &str| {
            authenticate(
                &clients,
                &[Credentials {
                    id: id.to_owned(),
                    secrets: vec![Secret::new(secret)],
                }],
            )
            .is_ok()
        };
        assert!(with("c", "0123456789abcdef"));
        assert!(!with("c", "0123456789abcdeF"));
        assert!(!with("c", ""));
        assert!(!with("d", "0123456789abcdef"));
        assert!(authenticate(&clients, &[]).is_err());
    }

    #[test]
    fn a_client_that_asks_too_often_is_told_to_wait() {
        // One runaway program would keep the issuer from all others.
        let start = Instant::now();
        let mut allowance = Allowance::new(2, start);
        assert!(allowance.take(start).is_ok());
        assert!(allowance.take(start).is_ok());
        assert_eq!(allowance.take(start).unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        assert!(allowance.take(start + Duration::from_millis(500)).is_ok());
        assert!(allowance.take(start + Duration::from_millis(500)).is_err());
    }
}
