//! One issuer's public keys: fetched when first needed, refreshed in the background, kept while the issuer is down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use tracing::{info, warn};

use super::discovery::{Metadata, is_https};
use super::fetch::Fetch;
use crate::error::AuthError;
use crate::jws::{JWKS_MAX, KeySet};

/// Wait after the first failed fetch; doubled with each further one.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest wait between two fetches that fail.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// When keys are fetched, again, and for how long they are kept (WLCG token profile 1.3, "Token signing keys").
#[derive(Debug, Clone, Copy)]
pub struct KeyTiming {
    /// Age at which keys are fetched again in the background. The profile asks for 1 to 6 h.
    pub refresh: Duration,
    /// Age beyond which keys are not used if the issuer has not answered since. The profile asks for 1 to 4 days.
    pub keep: Duration,
    /// Shortest time between two fetches that tokens with an unknown key, or a wrong signature, cause.
    pub unknown_key: Duration,
}

impl Default for KeyTiming {
    /// 6 h, 2 days, 10 s.
    fn default() -> Self {
        Self {
            refresh: Duration::from_secs(6 * 3600),
            keep: Duration::from_secs(2 * 86_400),
            unknown_key: Duration::from_secs(10),
        }
    }
}

/// The keys of one issuer.
#[derive(Debug)]
pub(super) enum IssuerKeys {
    Static(Arc<KeySet>),
    Discovered(Arc<Discovered>),
}

impl IssuerKeys {
    /// `known`: the keys that an earlier verifier has of the same issuer.
    pub(super) fn new(
        url: String,
        origin: KeyOrigin,
        timing: KeyTiming,
        fetch: Arc<dyn Fetch>,
        known: Option<&Self>,
    ) -> Self {
        let state = match known {
            Some(Self::Discovered(known)) => known.snapshot(),
            Some(Self::Static(_)) | None => State::default(),
        };
        match origin {
            KeyOrigin::Static(keys) => Self::Static(Arc::new(keys)),
            KeyOrigin::Discovery => Self::Discovered(Arc::new(Discovered {
                url,
                timing,
                fetch,
                state: RwLock::new(state),
                gate: tokio::sync::Mutex::default(),
                refreshing: AtomicBool::new(false),
            })),
        }
    }

    /// Whether there are keys that may be used now, without asking for them.
    pub(super) fn are_known(&self, now: SystemTime) -> bool {
        match self {
            Self::Static(_) => true,
            Self::Discovered(discovered) => discovered.snapshot().usable(now, discovered.timing.keep).is_some(),
        }
    }

    /// The keys to use now.
    pub(super) async fn current(&self, now: SystemTime) -> Result<Arc<KeySet>, AuthError> {
        match self {
            Self::Static(keys) => Ok(Arc::clone(keys)),
            Self::Discovered(discovered) => discovered.current(now).await,
        }
    }

    /// The keys after a token was seen that none of them signed: fetched again, unless that was done a moment ago.
    pub(super) async fn after_unknown_key(&self, now: SystemTime) -> Result<Arc<KeySet>, AuthError> {
        match self {
            Self::Static(keys) => Ok(Arc::clone(keys)),
            Self::Discovered(discovered) => discovered.after_unknown_key(now).await,
        }
    }
}

#[derive(Debug)]
pub(super) struct Discovered {
    url: String,
    timing: KeyTiming,
    fetch: Arc<dyn Fetch>,
    state: RwLock<State>,
    /// Held while a fetch is under way: one at a time; waiting callers use its result.
    gate: tokio::sync::Mutex<()>,
    refreshing: AtomicBool,
}

#[derive(Debug, Clone, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// When the keys came. By the wall clock, since their age is compared over days.
    fetched: Option<SystemTime>,
    /// Counts attempts that ended, so that a waiter sees that another one's came to an end.
    attempts: u64,
    /// When the last attempt ended, by a clock that never steps.
    ended: Option<Instant>,
    failures: u32,
    error: String,
}

impl State {
    /// Keys that may still be used; a clock that stepped back does not make them old.
    fn usable(&self, now: SystemTime, keep: Duration) -> Option<Arc<KeySet>> {
        let age = now.duration_since(self.fetched?).unwrap_or_default();
        self.keys.clone().filter(|_| age < keep)
    }

    /// Whether it is time for another fetch; a clock that stepped back makes it so.
    fn due(&self, now: SystemTime, refresh: Duration) -> bool {
        self.fetched
            .is_none_or(|fetched| now.duration_since(fetched).map_or(true, |age| age >= refresh))
    }

    /// Whether the last attempt failed so recently that another would only add to the load.
    fn backing_off(&self) -> bool {
        if self.failures == 0 {
            return false;
        }
        let wait = BACKOFF_MIN
            .saturating_mul(1 << self.failures.min(10).saturating_sub(1))
            .min(BACKOFF_MAX);
        self.ended.is_some_and(|ended| ended.elapsed() < wait)
    }
}

impl Discovered {
    async fn current(self: &Arc<Self>, now: SystemTime) -> Result<Arc<KeySet>, AuthError> {
        let (keys, attempts) = {
            let state = self.state.read();
            let keys = state.usable(now, self.timing.keep);
            if keys.is_some() && state.due(now, self.timing.refresh) && !state.backing_off() {
                self.refresh_in_background(now);
            }
            (keys, state.attempts)
        };
        match keys {
            Some(keys) => Ok(keys),
            None => self.fetch_once(now, attempts, State::backing_off).await,
        }
    }

    async fn after_unknown_key(&self, now: SystemTime) -> Result<Arc<KeySet>, AuthError> {
        let attempts = self.snapshot().attempts;
        let interval = self.timing.unknown_key;
        self.fetch_once(now, attempts, |state| {
            state.backing_off() || state.ended.is_some_and(|ended| ended.elapsed() < interval)
        })
        .await
    }

    /// Fetches, unless another fetch ended since `seen` attempts were counted, or `spare` forbids it.
    async fn fetch_once(
        &self,
        now: SystemTime,
        seen: u64,
        spare: impl FnOnce(&State) -> bool,
    ) -> Result<Arc<KeySet>, AuthError> {
        let _gate = self.gate.lock().await;
        let state = self.snapshot();
        if state.attempts == seen && !spare(&state) {
            self.attempt(now).await;
        }
        let state = self.snapshot();
        match state.usable(now, self.timing.keep) {
            Some(keys) if state.failures == 0 => Ok(keys),
            _ => Err(AuthError::KeysUnavailable {
                issuer: self.url.clone(),
                reason: state.error,
            }),
        }
    }

    fn refresh_in_background(self: &Arc<Self>, now: SystemTime) {
        if self.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let _gate = this.gate.lock().await;
            this.attempt(now).await;
            this.refreshing.store(false, Ordering::Release);
        });
    }

    /// One fetch; the caller holds the gate.
    async fn attempt(&self, now: SystemTime) {
        let outcome = fetch_keys(&*self.fetch, &self.url).await;
        let mut state = self.state.write();
        state.attempts += 1;
        state.ended = Some(Instant::now());
        match outcome {
            Ok(keys) => {
                info!(issuer = %self.url, keys = keys.len(), "fetched the issuer's keys");
                state.keys = Some(Arc::new(keys));
                state.fetched = Some(now);
                state.failures = 0;
                state.error.clear();
            }
            Err(reason) => {
                warn!(issuer = %self.url, %reason, "could not fetch the issuer's keys");
                state.failures += 1;
                state.error = reason;
            }
        }
    }

    fn snapshot(&self) -> State {
        self.state.read().clone()
    }
}

/// The number of an issuer's keys for signatures that are accepted here.
///
/// # Errors
/// A sentence: it does not answer, answers for another issuer, or has no such key.
pub async fn count_keys(fetch: &dyn Fetch, issuer: &str) -> Result<usize, String> {
    Ok(fetch_keys(fetch, issuer).await?.len())
}

/// The issuer's metadata, then the key set; errors are sentences.
async fn fetch_keys(fetch: &dyn Fetch, issuer: &str) -> Result<KeySet, String> {
    let url = Metadata::fetch(fetch, issuer).await?.jwks_uri;
    let url = url.ok_or("its discovery document is not JSON with issuer and jwks_uri")?;
    if !is_https(&url) {
        return Err("its jwks_uri does not begin with https://".to_owned());
    }
    let keys = fetch.get(&url, JWKS_MAX).await.map_err(|error| error.to_string())?;
    let keys = KeySet::parse(&keys)?;
    if keys.is_empty() {
        return Err("its key set holds no key for ES256 or RS256".to_owned());
    }
    Ok(keys)
}

/// Where an issuer's public keys come from.
#[derive(Debug, Clone)]
pub enum KeyOrigin {
    /// From the issuer's discovery document, over TLS.
    Discovery,
    /// From the configuration; never fetched.
    Static(KeySet),
}
