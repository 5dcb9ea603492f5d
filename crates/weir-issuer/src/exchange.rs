//! Token exchange and refresh: tokens in another user's name (RFC 8693, RFC 6749 section 6). Pure: no clock, no
//! network.
//!
//! A new token never has more rights than its predecessor, and never more than the client itself may have. Requested
//! rights beyond that are refused by name, not left out: the transfer would fail at the storage.
//!
//! Only a token with the scope `offline_access` may be exchanged: otherwise a leaked token could be renewed for ever.
//! The chain of tokens that follow from one, over any number of exchanges, ends `refresh_lifetime` after the first was
//! made.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use weir_auth::jws::{KeySet, Unverified};
use weir_auth::{ANY_AUDIENCE, Scope, Secret};

use crate::grant::{Chain, Grant, KnownClient};
use crate::request::{OFFLINE, Refusal, TokenRequest};

/// The claims of a token that others may follow from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    iss: String,
    sub: String,
    exp: u64,
    /// When it was made.
    #[serde(default)]
    iat: Option<u64>,
    /// When the token was made from which a chain of exchanges began, if this one is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth_time: Option<u64>,
    #[serde(default)]
    scope: String,
    aud: Audience,
    #[serde(rename = "wlcg.groups", default)]
    groups: Vec<String>,
    /// The owner of a refresh token. Access tokens have this claim too, and there it does not count.
    #[serde(default)]
    client_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Source {
    /// The claims of an unexpired token that one of these keys signed.
    pub(crate) fn of_access(token: &Secret, keys: &KeySet, (issuer, now): (&str, u64)) -> Result<Self, Refusal> {
        // RFC 8693 section 2.2.2 has this code for every fault of the token that is shown.
        let wrong = |why: &str| Refusal::bad("invalid_request", format!("the subject token {why}"));
        let unverified = Unverified::parse(token.expose()).map_err(|_| wrong("is no token of this issuer"))?;
        let signed = keys.candidates(&unverified).any(|key| unverified.is_signed_by(key));
        let source = serde_json::from_slice::<Self>(&unverified.payload).ok();
        let source = source.filter(|source| signed && source.iss == issuer);
        let source = source.ok_or_else(|| wrong("is no token of this issuer"))?;
        if source.exp <= now {
            return Err(wrong("has expired"));
        }
        if !source.scope.split(' ').any(|scope| scope == OFFLINE) {
            return Err(wrong(
                "does not have the scope offline_access, without which none is exchanged",
            ));
        }
        Ok(source)
    }

    /// The time when the first token of the chain was made; `lifetime` is that of refresh tokens, in which earlier
    /// versions wrote only the end.
    fn origin(&self, lifetime: u64) -> u64 {
        let begin = self.auth_time.or(self.iat);
        begin.unwrap_or_else(|| self.exp.saturating_sub(lifetime))
    }

    fn scopes(&self) -> Vec<Scope> {
        self.scope
            .split(' ')
            .filter_map(|text| Scope::parse(text).ok())
            .collect()
    }

    fn audiences(&self) -> &[String] {
        match &self.aud {
            Audience::One(one) => std::slice::from_ref(one),
            Audience::Many(many) => many,
        }
    }

    /// The grant for a client; claims that it does not request stay as they are. `offline_access` is not passed on: an
    /// exchanged token is not exchanged again, unless the client may have such tokens and requests one.
    pub(crate) fn narrowed(
        &self,
        client: &KnownClient,
        request: &TokenRequest,
        (lifetime, now): (u64, u64),
    ) -> Result<Grant, Refusal> {
        let origin = self.origin(lifetime);
        let ends = origin.saturating_add(lifetime);
        if ends <= now {
            let text = format!(
                "the first token of this chain was made {} s ago, and refresh_lifetime is {lifetime} s",
                now - origin
            );
            return Err(Refusal::bad("invalid_grant", text));
        }
        let offline = Scope::Other(OFFLINE.to_owned());
        let own = self
            .scopes()
            .into_iter()
            .filter(|scope| *scope != offline)
            .collect::<Vec<_>>();
        let scopes = if request.scopes.is_empty() {
            &own
        } else {
            &request.scopes
        };
        let within = |wide: &[Scope], scope: &Scope| wide.iter().any(|wide| wide.covers(scope));
        for scope in scopes {
            let lacks = match (within(&own, scope), within(&client.scopes, scope)) {
                (true, true) => continue,
                (false, _) => "the token that is shown",
                (true, false) => "this client",
            };
            return Err(Refusal::bad("invalid_scope", format!("{lacks} does not have {scope}")));
        }
        if scopes.is_empty() {
            return Err(Refusal::bad("invalid_scope", "the token that is shown has no scope"));
        }
        let named = self.audiences();
        let audiences = if request.audiences.is_empty() {
            named
        } else {
            &request.audiences
        };
        let any = named.iter().any(|one| one == ANY_AUDIENCE);
        for audience in audiences {
            let lacks = match (any || named.contains(audience), client.may_reach(audience)) {
                (true, true) => continue,
                (false, _) => "the token that is shown is not for",
                (true, false) => "this client may have no token for",
            };
            return Err(Refusal::bad("invalid_target", format!("{lacks} {audience}")));
        }
        let with_groups = scopes.iter().any(|scope| scope.to_string() == "wlcg.groups");
        let mut scopes = scopes.clone();
        if request.offline && client.scopes.contains(&offline) {
            scopes.push(offline);
        }
        Ok(Grant {
            scopes,
            audiences: audiences.to_vec(),
            groups: if with_groups { self.groups.clone() } else { Vec::new() },
            subject: self.sub.clone(),
            chain: Some(Chain { origin, ends }),
        })
    }
}

/// Makes and reads refresh tokens: JWTs that only this issuer can read (HS256), so that none is kept here. One is good for the client
/// it was given to, until it expires, however often it is shown: a client that lost an answer shows it again.
pub(crate) struct Refresher {
    key: hmac::Key,
    lifetime: u64,
}

impl std::fmt::Debug for Refresher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refresher(***)")
    }
}

/// Not the type of an access token: no service accepts it as one, not even one that knows the key.
const HEADER: &str = r#"{"alg":"HS256","typ":"refresh+jwt"}"#;

impl Refresher {
    pub(crate) fn new(key: &[u8], lifetime: std::time::Duration) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            lifetime: lifetime.as_secs(),
        }
    }

    /// The same with another lifetime.
    pub(crate) fn lasting(&self, lifetime: std::time::Duration) -> Self {
        Self {
            key: self.key.clone(),
            lifetime: lifetime.as_secs(),
        }
    }

    /// Seconds for which a token, and all that follows from it, may be renewed.
    pub(crate) fn lifetime(&self) -> u64 {
        self.lifetime
    }

    /// A refresh token for a grant, until its chain ends.
    pub(crate) fn issue(&self, issuer: &str, client: &KnownClient, grant: &Grant, now: u64) -> Secret {
        let source = Source {
            iss: issuer.to_owned(),
            sub: grant.subject.clone(),
            exp: grant.chain.map_or(now + self.lifetime, |chain| chain.ends),
            iat: Some(now),
            auth_time: Some(grant.chain.map_or(now, |chain| chain.origin)),
            scope: grant.scopes.iter().map(Scope::to_string).collect::<Vec<_>>().join(" "),
            aud: Audience::Many(grant.audiences.clone()),
            groups: grant.groups.clone(),
            client_id: client.id.clone(),
        };
        let payload = serde_json::to_vec(&source).expect("texts and numbers are always JSON");
        let mut token = URL_SAFE_NO_PAD.encode(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(payload, &mut token);
        let tag = hmac::sign(&self.key, token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(tag.as_ref(), &mut token);
        Secret::new(token)
    }

    /// The grant of this client's refresh token.
    pub(crate) fn read(
        &self,
        token: &Secret,
        client: &KnownClient,
        (issuer, now): (&str, u64),
    ) -> Result<Source, Refusal> {
        let wrong = |why: &str| Refusal::bad("invalid_grant", format!("the refresh token {why}"));
        let open = || {
            let (signed, tag) = token.expose().rsplit_once('.')?;
            hmac::verify(&self.key, signed.as_bytes(), &URL_SAFE_NO_PAD.decode(tag).ok()?).ok()?;
            let payload = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
            serde_json::from_slice::<Source>(&payload).ok()
        };
        let source = open().filter(|source| source.client_id == client.id && source.iss == issuer);
        let source = source.ok_or_else(|| wrong("is none of this client"))?;
        if source.exp <= now {
            return Err(wrong("has expired"));
        }
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::time::Duration;

    use proptest::prelude::*;
    use weir_auth::SigningKey;
    use weir_auth::signing::key_set;

    use super::*;
    use crate::config::Client;
    use crate::request::Basis;

    fn client(id: &str, scopes: &[&str], audiences: &[&str]) -> KnownClient {
        let secret = Secret::new("0123456789abcdef");
        KnownClient::new(&Client::with_secret(id, &secret, scopes, audiences), 0).unwrap()
    }

    fn source(scope: &str, audiences: &[&str]) -> Source {
        Source {
            iss: "https://i".into(),
            sub: "alice".into(),
            exp: 100,
            iat: Some(0),
            auth_time: None,
            scope: scope.into(),
            aud: Audience::Many(audiences.iter().map(|one| (*one).to_owned()).collect()),
            groups: vec!["/vo".into()],
            client_id: "c".into(),
        }
    }

    fn ask(scopes: &str, audiences: &[&str]) -> TokenRequest {
        TokenRequest {
            basis: Basis::Client,
            credentials: Vec::new(),
            scopes: scopes
                .split_whitespace()
                .map(|text| Scope::parse(text).unwrap())
                .collect(),
            audiences: audiences.iter().map(|one| (*one).to_owned()).collect(),
            offline: false,
        }
    }

    /// Refresh tokens live this long, and it is soon after the source was made.
    const HERE: (u64, u64) = (1000, 50);

    #[test]
    fn nothing_is_granted_beyond_what_is_shown() {
        // A transfer service could do more than its users.
        let service = client("fts", &["storage.read:/", "storage.modify:/vo", "wlcg.groups"], &["*"]);
        let shown = source(
            "storage.read:/a storage.modify:/vo/b storage.modify:/x wlcg.groups",
            &["https://s", "https://t"],
        );
        let granted = |scopes: &str, audiences: &[&str]| {
            let grant = shown.narrowed(&service, &ask(scopes, audiences), HERE)?;
            let scopes = grant.scopes.iter().map(Scope::to_string).collect::<Vec<_>>().join(" ");
            Ok::<_, Refusal>((scopes, grant.audiences.join(" "), grant.groups.len(), grant.subject))
        };
        let (scopes, audiences, groups, subject) = granted("storage.read:/a/b", &["https://s"]).unwrap();
        assert_eq!(
            (scopes.as_str(), audiences.as_str(), groups),
            ("storage.read:/a/b", "https://s", 0)
        );
        assert_eq!(subject, "alice");
        assert_eq!(granted("wlcg.groups", &[]).unwrap().2, 1);
        assert_eq!(granted("storage.read:/a", &[]).unwrap().1, "https://s https://t");
        let refused = |scopes: &str, audiences: &[&str]| {
            let refusal = granted(scopes, audiences).unwrap_err();
            format!("{}: {}", refusal.error, refusal.description)
        };
        assert_eq!(
            refused("storage.read:/", &[]),
            "invalid_scope: the token that is shown does not have storage.read:/"
        );
        assert_eq!(
            refused("storage.modify:/x", &[]),
            "invalid_scope: this client does not have storage.modify:/x"
        );
        assert!(
            refused("", &[]).contains("storage.modify:/x"),
            "all that is shown is asked for"
        );
        assert_eq!(
            refused("storage.read:/a", &["https://u"]),
            "invalid_target: the token that is shown is not for https://u"
        );
        let near = client("fts", &["storage.read:/"], &["https://s"]);
        let refusal = shown
            .narrowed(&near, &ask("storage.read:/a", &["https://t"]), HERE)
            .unwrap_err();
        assert_eq!(refusal.description, "this client may have no token for https://t");
        let any = source("storage.read:/", &[ANY_AUDIENCE]);
        assert_eq!(
            any.narrowed(&near, &ask("", &["https://s"]), HERE).unwrap().audiences,
            ["https://s"]
        );
        assert!(
            any.narrowed(&near, &ask("", &[]), HERE).is_err(),
            "a client of one service gets no token for all"
        );
    }

    #[test]
    fn a_refresh_token_serves_its_client_alone_and_for_its_time() {
        // A finder of one in a log would have all rights of its user.
        let (ours, other) = (
            client("fts", &["storage.read:/"], &["*"]),
            client("other", &["storage.read:/"], &["*"]),
        );
        let refresher = Refresher::new(b"key", Duration::from_secs(100));
        let first = Source {
            iat: Some(1000),
            ..source("storage.read:/a", &["https://s"])
        };
        let grant = first.narrowed(&ours, &ask("", &[]), (100, 1000)).unwrap();
        let token = refresher.issue("https://i", &ours, &grant, 1000);
        let read = |token: &Secret, client, at| refresher.read(token, client, ("https://i", at)).map_err(|r| r.error);
        assert_eq!(
            read(&token, &ours, 1099)
                .unwrap()
                .narrowed(&ours, &ask("", &[]), (100, 1099))
                .unwrap(),
            grant
        );
        assert_eq!(read(&token, &ours, 1100), Err("invalid_grant"));
        assert_eq!(read(&token, &other, 1000), Err("invalid_grant"));
        let stranger = Refresher::new(b"another key", Duration::from_secs(100));
        assert!(stranger.read(&token, &ours, ("https://i", 1000)).is_err());
        assert!(refresher.read(&token, &ours, ("https://j", 1000)).is_err());
        assert!(
            Unverified::parse(token.expose()).is_err(),
            "no service takes it for an access token"
        );
    }

    #[test]
    fn only_living_tokens_of_this_issuer_are_exchanged() {
        let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let keys = key_set([&key]);
        let read = |token: &Secret, now| Source::of_access(token, &keys, ("https://i", now)).map_err(|r| r.description);
        let shown = source("storage.read:/ offline_access", &["https://s"]);
        let token = key.sign(&shown).unwrap();
        assert_eq!(read(&token, 99), Ok(shown.clone()));
        let online = key.sign(&source("storage.read:/", &["https://s"])).unwrap();
        assert!(read(&online, 99).unwrap_err().contains("offline_access"));
        assert!(read(&token, 100).unwrap_err().contains("expired"));
        assert!(read(&other.sign(&shown).unwrap(), 99).is_err());
        let foreign = Source {
            iss: "https://j".into(),
            ..shown.clone()
        };
        assert!(read(&key.sign(&foreign).unwrap(), 99).is_err());
        let refresher = Refresher::new(b"key", Duration::from_secs(100));
        let ours = client("fts", &["storage.read:/"], &["*"]);
        let grant = shown.narrowed(&ours, &ask("", &[]), HERE).unwrap();
        assert!(
            read(&refresher.issue("https://i", &ours, &grant, 0), 1).is_err(),
            "a refresh token is no access token"
        );
    }

    #[test]
    fn a_chain_of_exchanges_ends_when_its_first_token_is_as_old_as_a_refresh_token_may_be() {
        // A finder of a token of a minute could have it renewed for ever.
        let refresher = Refresher::new(b"key", Duration::from_secs(1000));
        let chained = client("fts", &["storage.read:/", OFFLINE], &["*"]);
        let again = TokenRequest {
            offline: true,
            ..ask("", &[])
        };
        let mut shown = source("storage.read:/a offline_access", &["https://s"]);
        for now in [100, 500, 999] {
            let grant = shown.narrowed(&chained, &again, (1000, now)).unwrap();
            assert_eq!(grant.chain, Some(Chain { origin: 0, ends: 1000 }));
            let refresh = refresher.issue("https://i", &chained, &grant, now);
            let refresh = refresher.read(&refresh, &chained, ("https://i", now)).unwrap();
            assert_eq!((refresh.exp, refresh.origin(1000)), (1000, 0));
            assert_eq!(refresh.narrowed(&chained, &again, (1000, now)).unwrap(), grant);
            // The access token that was granted, shown again.
            shown = Source {
                iat: Some(now),
                auth_time: grant.chain.map(|chain| chain.origin),
                scope: grant.scopes.iter().map(Scope::to_string).collect::<Vec<_>>().join(" "),
                ..shown
            };
            assert_eq!(shown.scope, "storage.read:/a offline_access");
        }
        let refusal = shown.narrowed(&chained, &again, (1000, 1000)).unwrap_err();
        assert_eq!(refusal.error, "invalid_grant");
        let plain = client("fts", &["storage.read:/"], &["*"]);
        let grant = shown.narrowed(&plain, &again, (1000, 500)).unwrap();
        assert_eq!(
            grant.scopes.len(),
            1,
            "what a service passes on cannot be exchanged again"
        );
        // A refresh token of a version that wrote neither time.
        let old = Source {
            iat: None,
            auth_time: None,
            exp: 1700,
            ..source("storage.read:/a", &["https://s"])
        };
        assert_eq!(old.origin(1000), 700);
    }

    proptest! {
        #[test]
        fn no_text_is_taken_for_a_token(text in "[a-zA-Z0-9._-]{0,200}") {
            // A strange token would take the issuer down, or be believed.
            let token = Secret::new(text);
            let refresher = Refresher::new(b"key", Duration::from_secs(1));
            let ours = client("fts", &["storage.read:/"], &["*"]);
            prop_assert!(refresher.read(&token, &ours, ("https://i", 0)).is_err());
            prop_assert!(Source::of_access(&token, &KeySet::default(), ("https://i", 0)).is_err());
        }
    }
}
