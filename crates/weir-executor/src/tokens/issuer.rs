//! One issuer: its token endpoint, our credentials there, and its circuit breaker.
//!
//! One failed contact opens the breaker for a while: transfers that need the issuer wait, and no request is sent. Then
//! one request is let through; if that fails too, the breaker stays open.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use weir_auth::{
    Secret,
    client::{Granted, Grants, TokenError, Wanted},
    error_chain,
    verifier::token_endpoint,
};
use weir_http::Client;

use super::{
    Trouble,
    figures::{Came, Figures, Grant},
};
use crate::config::{IssuerConfig, TokensConfig};

/// How long an issuer is believed to grant tokens where it said it does.
const DISCOVERY_KEPT: Duration = Duration::from_secs(3600);

/// An issuer that wants to be left alone for longer is asked nevertheless: it may have meant something else.
const PAUSE_MAX: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Issuer {
    config: IssuerConfig,
    client: Client,
    /// As it was last read: it may be replaced while the service runs.
    secret: Mutex<Secret>,
    limit: Duration,
    pause: Duration,
    grants: Mutex<Option<(Grants, Instant)>>,
    places: Semaphore,
    gate: Mutex<Gate>,
    /// Whether the newest answer timed out: then no transfer holds a slot of a link to wait for another.
    slow: AtomicBool,
    pub(super) figures: Figures,
}

/// Whether it is asked.
#[derive(Debug, Default)]
struct Gate {
    /// Until then it is not, and why.
    shut: Option<(Instant, String)>,
    /// A request is trying whether the issuer is back.
    trying: bool,
}

/// The right to make one request. To be given back through [`Issuer::judge`].
pub(super) struct Pass<'a> {
    issuer: &'a Issuer,
    _place: SemaphorePermit<'a>,
    judged: bool,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.judged {
            self.issuer.gate.lock().trying = false;
        }
    }
}

impl Issuer {
    pub(super) fn new(client: Client, issuer: IssuerConfig, secret: Secret, config: &TokensConfig) -> Self {
        Self {
            config: issuer,
            client,
            secret: Mutex::new(secret),
            limit: config.request_timeout,
            pause: config.issuer_pause,
            grants: Mutex::default(),
            places: Semaphore::new(config.requests),
            gate: Mutex::default(),
            slow: AtomicBool::new(false),
            figures: Figures::default(),
        }
    }

    /// Whether it is configured like this.
    pub(super) fn is(&self, config: &IssuerConfig) -> bool {
        self.config == *config
    }

    pub(super) fn url(&self) -> &str {
        &self.config.url
    }

    /// Why it is not asked now, if it is not.
    pub(super) fn shut(&self) -> Option<String> {
        let gate = self.gate.lock();
        let (until, why) = gate.shut.as_ref()?;
        (gate.trying || Instant::now() < *until).then(|| why.clone())
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    pub(super) fn was_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    /// Waits for one of few places. None if it is shut by then.
    pub(super) async fn admit(&self) -> Result<Pass<'_>, Trouble> {
        let place = self.places.acquire().await;
        let place = place.map_err(|_| Trouble::Waits("the service stops".into()))?;
        let mut gate = self.gate.lock();
        if let Some((until, why)) = &gate.shut {
            if gate.trying || Instant::now() < *until {
                return Err(Trouble::Waits(why.clone()));
            }
            gate.trying = true;
        }
        drop(gate);
        Ok(Pass {
            issuer: self,
            _place: place,
            judged: false,
        })
    }

    /// Shows a token, or a refresh token.
    pub(super) async fn ask(
        &self,
        pass: &mut Pass<'_>,
        grant: Grant,
        shown: &Secret,
        wanted: &Wanted,
    ) -> Result<Granted, Trouble> {
        let begin = Instant::now();
        let answer = match self.grants().await {
            Ok(grants) if grant == Grant::Exchange => grants.exchange(shown, wanted).await,
            Ok(grants) => grants.refresh(shown, wanted).await,
            Err(why) => {
                self.figures.count(grant, Came::Failure, begin.elapsed());
                return Err(self.failed(pass, why.clone(), why, None));
            }
        };
        let came = came(&answer);
        self.figures.count(grant, came, begin.elapsed());
        match answer {
            Ok(granted) => {
                self.answered(pass, begin.elapsed());
                Ok(granted)
            }
            Err(error) => {
                let why = self.told(&error, wanted, shown);
                if came == Came::Refusal {
                    self.answered(pass, begin.elapsed());
                    return Err(Trouble::Refused(why, error.code() == Some("invalid_grant")));
                }
                Err(self.failed(pass, why, for_everybody(&error), error.retry_after()))
            }
        }
    }

    async fn grants(&self) -> Result<Grants, String> {
        let lock = || self.grants.lock();
        let known = lock().clone();
        if let Some((grants, _)) = known.filter(|(_, since)| since.elapsed() < DISCOVERY_KEPT) {
            return Ok(grants);
        }
        let endpoint = token_endpoint(&self.client, self.url()).await?;
        let (id, secret) = self.credentials().await?;
        let grants = Grants::new(self.client.clone(), endpoint, (&id, &secret), self.limit);
        *self.secret.lock() = secret;
        *lock() = Some((grants.clone(), Instant::now()));
        Ok(grants)
    }

    /// Our credentials: read again after each failure, so that a replaced secret is found.
    async fn credentials(&self) -> Result<(String, Secret), String> {
        let config = self.config.clone();
        let read = tokio::task::spawn_blocking(move || config.credentials()).await;
        let read = read.map_err(|error| error_chain(&error))?;
        let credentials = read.map_err(|error| error_chain(&error))?;
        credentials.ok_or_else(|| "it gives this service no credentials".to_owned())
    }

    fn answered(&self, pass: &mut Pass<'_>, took: Duration) {
        pass.judged = true;
        if took < super::PATIENCE {
            self.slow.store(false, Relaxed);
        }
        let reopened = std::mem::take(&mut *self.gate.lock()).shut.is_some();
        if reopened {
            tracing::info!(issuer = self.url(), "the token issuer answers again");
        }
    }

    /// `why` is for the token's own transfer, and for the log; `for_all` for the others that wait.
    fn failed(&self, pass: &mut Pass<'_>, why: String, for_all: String, asked: Option<Duration>) -> Trouble {
        pass.judged = true;
        // It may have moved.
        *self.grants.lock() = None;
        let pause = self.pause.max(asked.unwrap_or_default().min(PAUSE_MAX));
        tracing::warn!(
            issuer = self.url(),
            why,
            ?pause,
            "the token issuer grants nothing; transfers that need it wait"
        );
        let shut = Some((Instant::now() + pause, for_all));
        *self.gate.lock() = Gate { shut, trying: false };
        Trouble::Waits(why)
    }

    /// The error for people. An issuer may repeat the shown token.
    fn told(&self, error: &TokenError, wanted: &Wanted, shown: &Secret) -> String {
        let text = match error {
            TokenError::Refused { status, reason, .. } => {
                let cut = |text: &str| text.chars().take(300).collect::<String>();
                let (scope, audience) = (cut(&wanted.scope), cut(&wanted.audience));
                format!("HTTP {status}, {reason} (asked for scope \"{scope}\" and audience \"{audience}\")")
            }
            _ => error_chain(error),
        };
        let secret = self.secret.lock();
        text.replace(shown.expose(), weir_auth::MASK)
            .replace(secret.expose(), weir_auth::MASK)
    }
}

/// The issuer's message without the token, for other waiters: they must not learn its owner or its files.
fn for_everybody(error: &TokenError) -> String {
    match error {
        TokenError::Refused { status, .. } => {
            let code = error.code().map(|code| format!(", {code}")).unwrap_or_default();
            format!("HTTP {status}{code}")
        }
        _ => error_chain(error),
    }
}

/// Classifies an answer. A refusal concerns the shown token. An error about this service's own credentials is a
/// failure: it affects all tokens, and an operator must mend it.
fn came(answer: &Result<Granted, TokenError>) -> Came {
    match answer {
        Ok(_) => Came::Token,
        Err(error @ TokenError::Refused { status, .. }) if status.is_client_error() && !error.is_temporary() => {
            let ours = ["invalid_client", "unauthorized_client", "unsupported_grant_type"];
            // A page instead of an error: of a proxy that refuses the request, or of one that leads nowhere.
            let about_request = [400, 413, 414, 422, 431].contains(&status.as_u16());
            match error.code() {
                None if about_request => Came::Refusal,
                None => Came::Failure,
                Some(code) if ours.contains(&code) => Came::Failure,
                Some(_) => Came::Refusal,
            }
        }
        Err(_) => Came::Failure,
    }
}
