//! Verification of tokens: signed by a trusted issuer, in time, and meant for this service.

mod discovery;
mod fetch;
mod keys;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;

use crate::cache::{Cache, CachedToken};
use crate::error::{AuthError, printable};
use crate::jws::{KeySet, TOKEN_MAX, Unverified};
use crate::path::StoragePath;
use crate::scitokens::Dialect;
use crate::token::{Claims, Expected, Token, check_started};

use keys::IssuerKeys;

pub use discovery::token_endpoint;
pub use fetch::{Fetch, FetchError, FetchFuture};
pub use keys::KeyOrigin;
pub use keys::{KeyTiming, count_keys};

/// Default for [`VerifierConfig::leeway`].
pub const LEEWAY: Duration = Duration::from_secs(60);

/// The trusted issuers, and the audiences of this service.
#[derive(Debug, Clone)]
pub struct VerifierConfig {
    /// Trusted issuers; any number. Of two with the same URL the later one counts.
    pub issuers: Vec<TrustedIssuer>,
    /// Names of this service: a token must carry one of them in `aud`. Compared exactly.
    pub audiences: Vec<String>,
    /// Whether the audience `https://wlcg.cern.ch/jwt/v1/any` is taken too.
    pub any_audience: bool,
    /// How far clocks may be apart at the start of a token's validity; its end is exact.
    pub leeway: Duration,
    /// When keys are fetched, again and for how long they are kept.
    pub timing: KeyTiming,
}

impl Default for VerifierConfig {
    /// No issuer, no audience but "any", 60 s of leeway.
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            audiences: Vec::new(),
            any_audience: true,
            leeway: LEEWAY,
            timing: KeyTiming::default(),
        }
    }
}

/// An issuer whose tokens are accepted.
#[derive(Debug, Clone)]
pub struct TrustedIssuer {
    /// `iss`, character by character: a trailing slash counts.
    pub url: String,
    /// Where its word counts: the paths of its scopes are below these. Usually one; `/` for all of the service.
    pub prefixes: Vec<StoragePath>,
    /// Audiences of this service that only this issuer may use, beside those of the configuration.
    pub audiences: Vec<String>,
    /// In which dialects it may write its tokens.
    pub dialects: Vec<Dialect>,
    /// Where its public keys come from.
    pub keys: KeyOrigin,
}

impl TrustedIssuer {
    /// An issuer of WLCG tokens trusted for the whole of this service, with its keys from its discovery document.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefixes: vec![StoragePath::root()],
            audiences: Vec::new(),
            dialects: vec![Dialect::Wlcg],
            keys: KeyOrigin::Discovery,
        }
    }
}

/// Verifies tokens. Cheap to ask again: verified tokens are remembered until they expire or their key is withdrawn.
///
/// Keys are fetched when they are first needed, refreshed in the background, and kept while the issuer is down. Tokens of
/// issuers that are not configured never cause a request.
#[derive(Debug, Clone)]
pub struct Verifier {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    issuers: Vec<Issuer>,
    by_url: HashMap<String, usize>,
    any_audience: bool,
    leeway: Duration,
    cache: Cache,
}

#[derive(Debug)]
struct Issuer {
    url: String,
    prefixes: Vec<StoragePath>,
    audiences: Vec<String>,
    dialects: Vec<Dialect>,
    keys: IssuerKeys,
}

impl Verifier {
    /// A verifier that fetches keys with this client, whose roots must hold the issuers' authorities.
    ///
    /// It contacts no issuer yet; see [`Verifier::warm`].
    pub fn new(config: VerifierConfig, client: weir_http::Client) -> Self {
        let fetch: Arc<dyn Fetch> = Arc::new(client);
        Self::with_fetch(config, &fetch)
    }

    /// A verifier that fetches keys in a way of the caller's.
    pub fn with_fetch(config: VerifierConfig, fetch: &Arc<dyn Fetch>) -> Self {
        Self::make(config, fetch, None)
    }

    /// A verifier with another configuration, which knows already the keys that this one has fetched. A change of the
    /// configuration while an issuer is away does not shut out its users.
    #[must_use]
    pub fn succeeded_by(&self, config: VerifierConfig, client: weir_http::Client) -> Self {
        let fetch: Arc<dyn Fetch> = Arc::new(client);
        Self::make(config, &fetch, Some(&self.shared))
    }

    fn make(config: VerifierConfig, fetch: &Arc<dyn Fetch>, before: Option<&Shared>) -> Self {
        let mut issuers = Vec::new();
        let mut by_url = HashMap::new();
        for trusted in config.issuers {
            let known = before.and_then(|before| Some(&before.issuers[*before.by_url.get(&trusted.url)?].keys));
            let keys = IssuerKeys::new(
                trusted.url.clone(),
                trusted.keys,
                config.timing,
                Arc::clone(fetch),
                known,
            );
            by_url.insert(trusted.url.clone(), issuers.len());
            let audiences = config.audiences.iter().chain(&trusted.audiences).cloned().collect();
            issuers.push(Issuer {
                url: trusted.url,
                prefixes: trusted.prefixes,
                audiences,
                dialects: trusted.dialects,
                keys,
            });
        }
        let shared = Shared {
            issuers,
            by_url,
            any_audience: config.any_audience,
            leeway: config.leeway,
            cache: Cache::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Fetches the keys of all issuers in parallel, so that the first request need not wait.
    ///
    /// # Errors
    /// [`AuthError::KeysUnavailable`] of one of the issuers that did not answer.
    pub async fn warm(&self, now: SystemTime) -> Result<(), AuthError> {
        let mut asked = JoinSet::new();
        for issuer in 0..self.shared.issuers.len() {
            let shared = Arc::clone(&self.shared);
            asked.spawn(async move { shared.issuers[issuer].keys.current(now).await.map(drop) });
        }
        asked.join_all().await.into_iter().collect()
    }

    /// The issuers whose keys are not known now, so that their tokens cannot be verified. Sends no request.
    pub fn without_keys(&self, now: SystemTime) -> Vec<String> {
        let unknown = self.shared.issuers.iter().filter(|issuer| !issuer.keys.are_known(now));
        unknown.map(|issuer| issuer.url.clone()).collect()
    }

    /// Verifies a token.
    ///
    /// Costs a hash and a lookup if the token was verified before, else one signature check, some 50 µs. It costs a
    /// request to the issuer when its keys have not been fetched yet or the token names an unknown key.
    ///
    /// # Errors
    /// 401 for every fault of the token, 503 if the issuer's keys cannot be fetched: [`AuthError::status`].
    pub async fn verify(&self, token: &str, now: SystemTime) -> Result<Arc<Token>, AuthError> {
        if token.len() > TOKEN_MAX {
            return Err(AuthError::TooLong { limit: TOKEN_MAX });
        }
        let hash = Cache::hash(token);
        if let Some(known) = self.shared.cache.get(&hash) {
            match self.recheck(&known, now).await {
                Ok(true) => return Ok(known.token),
                Ok(false) => self.shared.cache.remove(&hash),
                Err(error) => {
                    self.shared.cache.remove(&hash);
                    return Err(error);
                }
            }
        }
        let unverified = Unverified::parse(token)?;
        let claims = Claims::parse(&unverified.payload)?;
        let number = self.shared.issuer(claims.issuer()?)?;
        let issuer = &self.shared.issuers[number];
        let key = issuer.signing_key(&unverified, now).await?;
        let token = Arc::new(claims.validate(&self.shared.expected(issuer), now)?);
        let verified = CachedToken {
            token: Arc::clone(&token),
            issuer: number,
            key,
        };
        self.shared.cache.put(hash, verified);
        Ok(token)
    }

    /// Checks that one of the trusted issuers signed this token; times and audience are not checked. For a token that
    /// is about to be shown to its issuer.
    ///
    /// # Errors
    /// [`Verifier::verify`].
    pub async fn verify_signature(&self, token: &str, now: SystemTime) -> Result<(), AuthError> {
        let unverified = Unverified::parse(token)?;
        let claims = Claims::parse(&unverified.payload)?;
        let issuer = self.shared.issuer(claims.issuer()?)?;
        self.shared.issuers[issuer]
            .signing_key(&unverified, now)
            .await
            .map(drop)
    }

    /// Whether a remembered token still holds: its time is checked again, and that its key has not been withdrawn.
    async fn recheck(&self, known: &CachedToken, now: SystemTime) -> Result<bool, AuthError> {
        let token = &known.token;
        if now >= token.expires {
            return Err(AuthError::Expired {
                ago: now.duration_since(token.expires).unwrap_or_default(),
            });
        }
        check_started(token.not_before, now, self.shared.leeway)?;
        let keys = self.shared.issuers[known.issuer].keys.current(now).await?;
        Ok(keys.holds(&known.key))
    }
}

impl Shared {
    fn issuer(&self, url: &str) -> Result<usize, AuthError> {
        let number = self.by_url.get(url).copied();
        number.ok_or_else(|| AuthError::UnknownIssuer(printable(url)))
    }

    fn expected<'a>(&self, issuer: &'a Issuer) -> Expected<'a> {
        Expected {
            audiences: &issuer.audiences,
            any_audience: self.any_audience,
            dialects: &issuer.dialects,
            leeway: self.leeway,
            prefixes: &issuer.prefixes,
        }
    }
}

impl Issuer {
    /// The fingerprint of the key that signed the token.
    ///
    /// If none of ours did, the keys are fetched again (not more often than [`KeyTiming::unknown_key`] says). The
    /// issuer may have a new key, or have put a new one under an old name.
    async fn signing_key(&self, token: &Unverified<'_>, now: SystemTime) -> Result<[u8; 32], AuthError> {
        let keys = self.keys.current(now).await?;
        let known = match find(&keys, token) {
            Found::Signer(key) => return Ok(key),
            Found::NotSigned => true,
            Found::NoSuchKey => false,
        };
        let keys = match self.keys.after_unknown_key(now).await {
            Err(_) if known => return Err(AuthError::Signature),
            outcome => outcome?,
        };
        match find(&keys, token) {
            Found::Signer(key) => Ok(key),
            Found::NotSigned => Err(AuthError::Signature),
            Found::NoSuchKey => Err(AuthError::UnknownKey {
                issuer: self.url.clone(),
                key: token
                    .key_id
                    .as_deref()
                    .map_or_else(|| "(unnamed)".to_owned(), printable),
                algorithm: token.algorithm.as_str(),
            }),
        }
    }
}

enum Found {
    /// The fingerprint of the key.
    Signer([u8; 32]),
    NotSigned,
    NoSuchKey,
}

fn find(keys: &KeySet, token: &Unverified<'_>) -> Found {
    let mut found = Found::NoSuchKey;
    for key in keys.candidates(token) {
        if token.is_signed_by(key) {
            return Found::Signer(*key.fingerprint());
        }
        found = Found::NotSigned;
    }
    found
}
