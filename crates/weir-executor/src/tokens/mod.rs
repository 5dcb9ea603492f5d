//! Tokens that are renewed just before use.
//!
//! A submitted token is used as it is while it lives, whatever the issuer says: a long life is never shortened here. A
//! token that is about to expire is replaced by a fresh one, if its issuer is configured with credentials of this
//! service and its job does not say `unmanaged_tokens`. The first time this is a token exchange (RFC 8693), which also
//! gives a refresh token for later times.
//!
//! - A submitter may have found a file's token. So only a token issued to the submitter is renewed, or one that a
//!   listed broker submits ([`owner`]), and only after its issuer's signature was verified.
//! - One request for a token, however many transfers need it: by the hash of the submitted one.
//! - Waits are short: an attempt returns its slot after [`PATIENCE`], much sooner while the issuer is slow, at once
//!   while its breaker is open; the request continues without it. The wait costs no retry.
//! - New tokens are stored sealed ([`Renewal`]), in batches and asynchronously. With several nodes one asks at a time
//!   ([`Orders::claim_renewal`]): an issuer that rotates refresh tokens would revoke both if two nodes showed the same
//!   one.
//! - An expired token cannot be exchanged, so those of waiting transfers are exchanged ahead ([`sweep`]), slowly.

mod claims;
mod figures;
#[cfg(any(test, fuzzing))]
mod fuzzing;
#[cfg(test)]
mod granter;
mod held;
mod issuer;
mod outbox;
mod owner;
mod right;
mod sweep;
#[cfg(test)]
mod tests;
mod trouble;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::{FutureExt as _, future::Shared};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_auth::{Secret, Verifier, client::Granted};
use weir_http::{Client, Reloadable};
use weir_service::metrics::{Kind, Page};
use weir_world::{ErrorClass, Failure};

pub(crate) use claims::expiry;
#[cfg(any(test, fuzzing))]
pub(super) use fuzzing::fuzz;
pub(crate) use right::Right;

use crate::requests::failure::Scene;
use weir_service::config::ConfigError;
use weir_service::time::{self, Millis};
use weir_store::StoreError;

use crate::{
    config::{BrokerConfig, IssuerConfig, TokensConfig},
    job::{NewJob, TokenHash, hash_of},
    orders::{Expiring, Orders, Renewal, Turn},
};
use claims::{Claims, Outline, lacking, malformed};
use figures::{Grant, Lives};
use held::{AnswerCache, CachedAnswer};
use issuer::Issuer;
use outbox::Outbox;
use owner::Owners;
use trouble::{Outcome, PATIENCE, Trouble};

/// The same while others have waited in vain: long enough to find an issuer that is well again.
const PATIENCE_WITH_SLOW: Duration = Duration::from_millis(100);

/// Life taken for granted if neither the issuer nor the token tells.
const LIFE_DEFAULT: Millis = 300_000;

/// Tokens that are being renewed, or wait for their turn: an attempt that needs another one comes again.
const FLIGHTS_MAX: usize = 2000;

type Flight = Shared<oneshot::Receiver<Outcome>>;

/// The configured issuers, and the submitters whose tokens may be renewed.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The accepted issuers.
    pub issuers: &'a [IssuerConfig],
    /// The brokers, which submit with tokens of others.
    pub brokers: &'a [BrokerConfig],
    /// How tokens are renewed.
    pub tokens: &'a TokensConfig,
}

/// Keeps tokens fresh. One for all executors of a process.
pub struct TokenRefresher {
    store: Arc<dyn Orders>,
    client: Client,
    trusted: Reloadable<Trusted>,
    config: TokensConfig,
    held: Mutex<AnswerCache>,
    /// Requests under way, by the hash of the submitted token.
    flights: Mutex<HashMap<TokenHash, Flight>>,
    outbox: Outbox,
    lives: Lives,
}

/// Issuers and owners, as the configuration has them; exchanged as a whole when that is read again.
struct Trusted {
    /// The issuers at which this service has credentials.
    issuers: BTreeMap<String, Arc<Issuer>>,
    owners: Owners,
    /// Knows the keys of all issuers.
    verifier: Verifier,
}

impl Trusted {
    /// Issuers that were known before and have not changed go on as they were.
    fn new(client: &Client, verifier: Verifier, rules: Rules<'_>, before: Option<&Self>) -> Result<Self, ConfigError> {
        let mut issuers = BTreeMap::new();
        for issuer in rules.issuers {
            let Some((_, secret)) = issuer.credentials()? else {
                continue;
            };
            let same = before.and_then(|before| before.issuers.get(&issuer.url));
            let known = match same.filter(|known| known.is(issuer)) {
                Some(known) => known.clone(),
                None => Arc::new(Issuer::new(client.clone(), issuer.clone(), secret, rules.tokens)),
            };
            issuers.insert(issuer.url.clone(), known);
        }
        Ok(Self {
            issuers,
            owners: Owners::new(rules.issuers, rules.brokers),
            verifier,
        })
    }

    fn renews(&self, job: &NewJob, token: &Outline) -> bool {
        let managed = !job.params.unmanaged_tokens && self.issuers.contains_key(&token.issuer);
        managed && self.owners.may_renew(job, &token.issuer, &token.subject)
    }
}

impl std::fmt::Debug for TokenRefresher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenRefresher")
            .field("issuers", &self.trusted.get().issuers.keys())
            .finish_non_exhaustive()
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

impl TokenRefresher {
    /// A refresher that renews tokens of those issuers that give this service credentials.
    ///
    /// # Errors
    /// If a secret cannot be read, or others than its owner may.
    pub fn new(
        client: &Client,
        verifier: Verifier,
        store: Arc<dyn Orders>,
        rules: Rules<'_>,
    ) -> Result<Arc<Self>, ConfigError> {
        let trusted = Trusted::new(client, verifier, rules, None)?;
        Ok(Arc::new(Self {
            outbox: Outbox::new(store.clone()),
            store,
            client: client.clone(),
            trusted: Arc::new(trusted).into(),
            config: rules.tokens.clone(),
            held: Mutex::default(),
            flights: Mutex::default(),
            lives: Lives::default(),
        }))
    }

    /// Prepares the issuers and brokers of another configuration. Requests in hand keep the former ones.
    ///
    /// # Errors
    /// If a secret cannot be read, or others than its owner may read it.
    pub fn prepare(
        self: &Arc<Self>,
        verifier: Verifier,
        issuers: &[IssuerConfig],
        brokers: &[BrokerConfig],
    ) -> Result<impl FnOnce() + use<>, ConfigError> {
        let rules = Rules {
            issuers,
            brokers,
            tokens: &self.config,
        };
        let next = Trusted::new(&self.client, verifier, rules, Some(&self.trusted.get()))?;
        let next = Arc::new(next);
        let this = self.clone();
        Ok(move || this.trusted.set(next))
    }

    /// A refresher that leaves every token as it is.
    pub fn idle(client: &Client, store: Arc<dyn Orders>) -> Arc<Self> {
        let rules = Rules {
            issuers: &[],
            brokers: &[],
            tokens: &TokensConfig::default(),
        };
        let verifier = Verifier::new(weir_auth::VerifierConfig::default(), client.clone());
        Self::new(client, verifier, store, rules).expect("nothing is to be read")
    }

    /// The tokens of a submission that may have to be renewed.
    ///
    /// # Errors
    /// Names a malformed or expired token. Such tokens are refused, or a finder could get the owner's renewed one.
    pub fn expiring(
        &self,
        job: &NewJob,
        tokens: &BTreeMap<TokenHash, Secret>,
    ) -> Result<BTreeMap<TokenHash, Expiring>, String> {
        let (now, latest) = (job.submitted, time::latest());
        let trusted = self.trusted.get();
        let mut expiring = BTreeMap::new();
        for (hash, token) in tokens {
            if let Some(why) = malformed(token) {
                return Err(format!(
                    "A token of the files is malformed: {why}; submit it as its issuer gave it"
                ));
            }
            let Some(outline) = Outline::read(token) else { continue };
            let expires = Millis::try_from(outline.expires)
                .unwrap_or(Millis::MAX)
                .saturating_mul(1000);
            if expires <= latest {
                let issuer = outline.issuer.chars().take(120).collect::<String>();
                return Err(format!("A token of {issuer} has expired; submit with a fresh one"));
            }
            if !trusted.renews(job, &outline) {
                continue;
            }
            // A token with a long life is left alone as long as possible; otherwise half its life.
            let half = now.saturating_add(expires.saturating_sub(now) / 2);
            let due = half.max(expires.saturating_sub(millis(self.config.exchange_ahead)));
            expiring.insert(*hash, Expiring { expires, due });
        }
        Ok(expiring)
    }

    /// Whether this token is renewed for this job.
    pub fn may_renew(&self, job: &NewJob, token: &Secret) -> bool {
        let trusted = self.trusted.get();
        !trusted.issuers.is_empty() && Outline::read(token).is_some_and(|outline| trusted.renews(job, &outline))
    }

    fn issuer_of(&self, token: &Secret) -> Option<(Arc<Issuer>, Claims)> {
        let trusted = self.trusted.get();
        if trusted.issuers.is_empty() {
            return None;
        }
        let claims = Claims::read(token)?;
        Some((trusted.issuers.get(&claims.issuer)?.clone(), claims))
    }

    /// A token to use now, in place of the submitted one.
    ///
    /// # Errors
    /// It has expired, and there is no fresh one: for good, or ([`Party::Issuer`], [`Retry::Later`]) not yet.
    pub(crate) async fn fresh(
        self: &Arc<Self>,
        scene: Scene,
        token: &Secret,
        managed: bool,
    ) -> Result<Secret, Failure> {
        let used = self.chosen(scene, token, managed).await?;
        if let Some(expires) = expiry(&used) {
            let now = u64::try_from(time::latest() / 1000).unwrap_or_default();
            self.lives.count(expires.saturating_sub(now));
        }
        Ok(used)
    }

    async fn chosen(self: &Arc<Self>, scene: Scene, token: &Secret, managed: bool) -> Result<Secret, Failure> {
        // An unreadable token is left to the storage.
        let Some(expires) = expiry(token) else {
            return Ok(token.clone());
        };
        let now = u64::try_from(time::latest() / 1000).unwrap_or_default();
        if expires > now.saturating_add(self.config.refresh_margin.as_secs()) {
            return Ok(token.clone());
        }
        let renewed = match self.issuer_of(token).filter(|_| managed) {
            Some((issuer, claims)) => self
                .renewed(&issuer, claims, token)
                .await
                .map_err(|trouble| (issuer, trouble)),
            None if expires > now => return Ok(token.clone()),
            None => return Err(expired(scene, now - expires)),
        };
        match renewed {
            Ok(fresh) => Ok(fresh),
            Err(_) if expires > now => Ok(token.clone()),
            Err((issuer, trouble)) => Err(trouble.failure(scene, (issuer.url(), &issuer.figures.waits))),
        }
    }

    async fn renewed(self: &Arc<Self>, issuer: &Arc<Issuer>, claims: Claims, token: &Secret) -> Outcome {
        let hash = hash_of(token.expose());
        let known = self.held.lock().get(hash, time::latest());
        match known {
            Some(CachedAnswer::Fresh(fresh, _)) => return Ok(fresh),
            Some(CachedAnswer::Refused(why, _)) => return Err(Trouble::Refused(why, false)),
            // The store is not asked again and again while no issuer can be asked.
            Some(CachedAnswer::Nothing) if let Some(why) = issuer.shut() => return Err(Trouble::Waits(why)),
            Some(CachedAnswer::Nothing) | None => {}
        }
        if self.is_crowded(hash) {
            return Err(Trouble::Waits("very many tokens wait for it".into()));
        }
        let flight = self.join(issuer, claims, token, hash);
        let patience = if issuer.is_slow() { PATIENCE_WITH_SLOW } else { PATIENCE };
        let Ok(landed) = tokio::time::timeout(patience, flight).await else {
            issuer.was_slow();
            return Err(Trouble::Waits("it has been asked, and has not answered yet".into()));
        };
        landed.unwrap_or_else(|_| Err(Trouble::Waits("the service stops".into())))
    }

    /// Whether so many tokens are being renewed that this one has to come again later.
    fn is_crowded(&self, hash: TokenHash) -> bool {
        let flights = self.flights.lock();
        flights.len() >= FLIGHTS_MAX && !flights.contains_key(&hash)
    }

    /// Joins a request for the same token, or starts one. It continues even if all callers leave: an issuer's token
    /// must not be lost.
    fn join(self: &Arc<Self>, issuer: &Arc<Issuer>, claims: Claims, token: &Secret, hash: TokenHash) -> Flight {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&hash) {
            return flight.clone();
        }
        let (land, flight) = oneshot::channel();
        let flight = flight.shared();
        flights.insert(hash, flight.clone());
        let (this, issuer, token) = (self.clone(), issuer.clone(), token.clone());
        tokio::spawn(async move {
            let _flying = Flying { refresher: &this, hash };
            let outcome = this.fly(&issuer, &claims, &token, hash).await;
            // All callers may have left.
            let _ = land.send(outcome);
        });
        flight
    }

    async fn fly(&self, issuer: &Issuer, claims: &Claims, token: &Secret, hash: TokenHash) -> Outcome {
        // Another request's new token may still be on its way to the store.
        if let Some(CachedAnswer::Fresh(fresh, _)) = self.held.lock().get(hash, time::latest()) {
            return Ok(fresh);
        }
        let kept = self.read(move |store| store.renewal(hash)).await?;
        if let Some(fresh) = self.still_good(hash, kept.as_ref()) {
            return Ok(fresh);
        }
        if kept.is_none() {
            self.held.lock().put(hash, CachedAnswer::Nothing);
        }
        if kept.is_none() {
            self.verify(token, hash).await?;
        }
        let mut pass = issuer.admit().await?;
        // Discovery, a refresh, an exchange and another refresh may come under it.
        let life = 5 * millis(self.config.request_timeout) + 20_000;
        let kept = match self.read(move |store| store.claim_renewal(hash, life)).await? {
            Turn::Ours(kept) => kept,
            Turn::Theirs => return Err(Trouble::Waits("another node is asking it".into())),
        };
        let outcome = match self.still_good(hash, kept.as_ref()) {
            Some(fresh) => Ok(fresh),
            None => self.ask(issuer, &mut pass, claims, token, (hash, kept)).await,
        };
        match outcome {
            Ok(fresh) => Ok(fresh),
            Err(trouble) => {
                match &trouble {
                    Trouble::Refused(why, _) => {
                        tracing::warn!(
                            issuer = issuer.url(),
                            token = hash.short(),
                            why,
                            "a token cannot be renewed"
                        );
                        self.held.lock().refuse(hash, why.clone(), time::latest());
                        self.outbox.put(hash, None);
                    }
                    Trouble::Waits(_) => self.outbox.release(hash),
                }
                Err(trouble)
            }
        }
    }

    /// Verifies the issuer's signature: a forged token is never shown to the issuer.
    async fn verify(&self, token: &Secret, hash: TokenHash) -> Result<(), Trouble> {
        let verifier = self.trusted.get().verifier.clone();
        let Err(error) = verifier.verify_signature(token.expose(), time::system()).await else {
            return Ok(());
        };
        let why = format!(
            "the signature of the token could not be verified: {}",
            weir_auth::error_chain(&error)
        );
        if error.status() == http::StatusCode::SERVICE_UNAVAILABLE {
            return Err(Trouble::Waits(why));
        }
        tracing::warn!(token = hash.short(), why, "a token cannot be renewed");
        self.held.lock().refuse(hash, why.clone(), time::latest());
        self.outbox.put(hash, None);
        Err(Trouble::Refused(why, true))
    }

    fn still_good(&self, hash: TokenHash, kept: Option<&Renewal>) -> Option<Secret> {
        let kept = kept.filter(|kept| time::latest() < kept.good_until)?;
        let access = kept.access.clone()?;
        self.held
            .lock()
            .put(hash, CachedAnswer::Fresh(access.clone(), kept.good_until));
        Some(access)
    }

    /// Refreshes; or exchanges a token that was never exchanged, or whose refresh token is refused.
    async fn ask(
        &self,
        issuer: &Issuer,
        pass: &mut issuer::Pass<'_>,
        claims: &Claims,
        token: &Secret,
        (hash, kept): (TokenHash, Option<Renewal>),
    ) -> Outcome {
        let wanted = &claims.wanted;
        let alive =
            || expiry(token).is_none_or(|end| Millis::try_from(end).is_ok_and(|end| end > time::latest() / 1000));
        let mut refresh = kept.and_then(|kept| kept.refresh);
        let mut granted = None;
        if let Some(shown) = &refresh {
            match issuer.ask(pass, Grant::Refresh, shown, wanted).await {
                Ok(answer) => granted = Some(answer),
                Err(Trouble::Refused(_, true)) if alive() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        let mut granted = match granted {
            Some(granted) => granted,
            None if alive() => issuer.ask(pass, Grant::Exchange, token, wanted).await?,
            None => return Err(Trouble::Refused("it expired before it could be exchanged".into(), true)),
        };
        if let Some(fresh) = granted.refresh.clone() {
            refresh = Some(fresh);
        }
        if let (None, Some(shown)) = (&granted.access, &refresh) {
            // Granted tokens must not be lost, whatever happens next.
            self.outbox
                .put(hash, Some(renewal(&self.config, None, refresh.clone())));
            granted = issuer.ask(pass, Grant::Refresh, shown, wanted).await?;
            refresh = granted.refresh.clone().or(refresh);
        }
        let Some(access) = granted.access.clone() else {
            self.outbox.put(hash, Some(renewal(&self.config, None, refresh)));
            return Err(Trouble::Waits("it gave no access token".into()));
        };
        if let Some(lost) = lacking(&access, granted.scope.as_deref(), wanted) {
            // Kept without the token that lacks something: neither a restart nor another node may find and use it.
            self.outbox.put(hash, Some(renewal(&self.config, None, refresh)));
            return Err(Trouble::Refused(format!("its new token lacks {lost}"), false));
        }
        let renewal = renewal(&self.config, Some(&granted), refresh);
        self.outbox.put(hash, Some(renewal.clone()));
        self.held
            .lock()
            .put(hash, CachedAnswer::Fresh(access.clone(), renewal.good_until));
        Ok(access)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Orders) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Trouble> {
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || read(store.as_ref())).await;
        match read {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(error)) => Err(Trouble::Waits(weir_auth::error_chain(&error))),
            Err(error) => Err(Trouble::Waits(weir_auth::error_chain(&error))),
        }
    }

    /// Returns when all issuers' tokens are stored. Requests under way are awaited for some seconds.
    pub async fn close(&self) {
        let flying = self.flights.lock().values().cloned().collect::<Vec<_>>();
        let landed = futures_util::future::join_all(flying);
        let _ = tokio::time::timeout(Duration::from_secs(3), landed).await;
        self.outbox.close().await;
    }

    /// For the service's page.
    pub fn show(&self, page: &mut Page) {
        let trusted = self.trusted.get();
        let issuers = || trusted.issuers.values().map(|issuer| (issuer.url(), issuer));
        let help = "Requests for tokens, by issuer, grant and result";
        page.family("weir_transfer_token_requests_total", Kind::Counter, help);
        for (url, issuer) in issuers() {
            for (grant, result, count) in issuer.figures.requests() {
                page.sample(&[("issuer", url), ("grant", grant), ("result", result)], count);
            }
        }
        let help = "Time of a request for a token";
        let times = issuers().map(|(url, issuer)| ([("issuer", url)], issuer.figures.seconds()));
        page.histograms("weir_transfer_token_request_seconds", help, times);
        let help = "Life that tokens of all issuers had left when attempts used them";
        let all = [([("", ""); 0], self.lives.histogram())];
        page.histograms("weir_transfer_token_life_seconds", help, all);
        let help = "Attempts that were sent back to wait for the issuer";
        page.family("weir_transfer_token_waits_total", Kind::Counter, help);
        for (url, issuer) in issuers() {
            page.sample(&[("issuer", url)], issuer.figures.waits.load(Relaxed));
        }
        let help = "1 if the issuer is asked, 0 while it is left alone after a failure";
        page.family("weir_transfer_token_issuer_ok", Kind::Gauge, help);
        for (url, issuer) in issuers() {
            page.sample(&[("issuer", url)], u32::from(issuer.shut().is_none()));
        }
        let (held, pending) = (self.held.lock().fresh(time::latest()), self.flights.lock().len());
        let help = "Fresh tokens in memory";
        page.single("weir_transfer_tokens_held", Kind::Gauge, help, held);
        let help = "Tokens that are being renewed, or wait for their turn";
        page.single("weir_transfer_tokens_pending", Kind::Gauge, help, pending);
    }
}

/// A request that is under way; it is not any more, however its task ends.
struct Flying<'a> {
    refresher: &'a TokenRefresher,
    hash: TokenHash,
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.refresher.flights.lock().remove(&self.hash);
    }
}

/// The part of an answer to store. A token with a short life is used for half of it: otherwise it would be renewed at
/// each use.
fn renewal(config: &TokensConfig, granted: Option<&Granted>, refresh: Option<Secret>) -> Renewal {
    let now = time::latest();
    let access = granted.and_then(|granted| granted.access.clone());
    let told = access.as_ref().and_then(expiry);
    let told = told
        .and_then(|end| Millis::try_from(end).ok())
        .map(|end| end.saturating_mul(1000));
    let life = granted.and_then(|granted| granted.life).map_or(LIFE_DEFAULT, millis);
    let expires = told.unwrap_or(now + life);
    let margin = millis(config.refresh_margin).min((expires - now).max(0) / 2);
    Renewal {
        access,
        expires,
        good_until: expires - margin,
        refresh,
    }
}

fn expired(scene: Scene, ago: u64) -> Failure {
    let text = format!("the token for the {} expired {ago} s ago", scene.party);
    let mut failure = scene.fail(ErrorClass::Token, text);
    failure.remedy = "submit with tokens that outlive the queue, or have this service renew them: it renews those of the submitter, and \
        those that a [[broker]] submits"
        .into();
    failure
}
