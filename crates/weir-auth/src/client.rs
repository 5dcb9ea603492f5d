//! Tokens for requests of our own: given, from a file, or from an issuer.

mod answer;

mod error;

mod grants;
mod rucio;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use http::{Request, StatusCode, header};
use parking_lot::Mutex;
use weir_http::{body, form::encode};

use crate::secret::Secret;

use answer::{ANSWER_MAX, REQUEST_TIMEOUT, held};
pub(crate) use answer::{Held, read_answer, refusal};
pub use error::TokenError;
pub use grants::{Granted, Grants, Wanted};
pub use rucio::RucioLogin;

/// Most cached pairs of scopes and audience; beyond them tokens are not cached.
const SLOTS_MAX: usize = 16_384;
/// Wait after a failed renewal while the token in hand is still good.
const RENEWAL_BACKOFF: Duration = Duration::from_secs(5);

/// The source of tokens. Clones share their cache.
#[derive(Debug, Clone)]
pub struct TokenSource(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Fixed(Secret),
    File(PathBuf),
    Client(Arc<IssuerClient>),
}

impl TokenSource {
    /// Always returns this token, for any scopes and audience.
    pub fn fixed(token: Secret) -> Self {
        Self(Kind::Fixed(token))
    }

    /// Returns the content of the file, read each time: another program renews it.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Kind::File(path.into()))
    }

    /// From an issuer's token endpoint by client credentials (RFC 6749 section 4.4).
    pub fn client_credentials(
        client: weir_http::Client,
        token_url: impl Into<String>,
        client_id: &str,
        secret: &Secret,
    ) -> Self {
        Self(Kind::Client(Arc::new(IssuerClient {
            client,
            token_url: token_url.into(),
            way: Way::Credentials(basic(client_id, secret)),
            slots: Mutex::default(),
        })))
    }

    /// A Rucio server's own tokens, by login at the authentication server with this URL. Scopes and audience mean nothing to it. The client
    /// shows the certificate of [`RucioLogin::Certificate`].
    pub fn rucio(client: weir_http::Client, auth_url: &str, account: &str, login: RucioLogin) -> Self {
        Self(Kind::Client(Arc::new(IssuerClient {
            client,
            token_url: format!("{}{}", auth_url.trim_end_matches('/'), login.path()),
            way: Way::Rucio(account.to_owned(), login),
            slots: Mutex::default(),
        })))
    }

    /// A token with these scopes (separated by blanks) for this audience (empty: the issuer's default).
    ///
    /// Tokens of an issuer are cached per scopes and audience, renewed in the background from two thirds of their life
    /// on, and never requested twice at once. A good token is returned even if the issuer is down.
    ///
    /// # Errors
    /// [`TokenError`]; none holds a token or a secret.
    pub async fn token(&self, scopes: &str, audience: &str) -> Result<Secret, TokenError> {
        match &self.0 {
            Kind::Fixed(token) => Ok(token.clone()),
            Kind::File(path) => read_file(path.clone()).await,
            Kind::Client(issuer) => issuer.token(scopes, audience).await,
        }
    }

    /// Lets go of a token that a service refused, so that the next request gets a new one.
    pub fn discard(&self, scopes: &str, audience: &str) {
        if let Kind::Client(issuer) = &self.0 {
            issuer.slots.lock().remove(&(scopes.to_owned(), audience.to_owned()));
        }
    }
}

async fn read_file(path: PathBuf) -> Result<Secret, TokenError> {
    let task = tokio::task::spawn_blocking(move || {
        Secret::read(&path).map_err(|source| TokenError::File {
            path,
            source: Arc::new(source),
        })
    });
    match task.await {
        Ok(outcome) => outcome,
        // The task cannot be cancelled, only panic, and then the panic goes on here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[derive(Debug)]
struct IssuerClient {
    client: weir_http::Client,
    token_url: String,
    way: Way,
    slots: Mutex<HashMap<(String, String), Arc<Slot>>>,
}

/// How an issuer is asked.
#[derive(Debug)]
enum Way {
    /// By client credentials, with this `Authorization`.
    Credentials(Secret),
    /// By login to this account.
    Rucio(String, RucioLogin),
}

/// The token for one pair of scopes and audience.
#[derive(Debug, Default)]
struct Slot {
    held: Mutex<Option<Held>>,
    /// Held during a request to the issuer, so that it is made once; waiting callers share its result.
    gate: tokio::sync::Mutex<Option<TokenError>>,
    /// Counts the requests that ended while a caller may have waited.
    ended: AtomicU64,
    renewing: AtomicBool,
}

impl Slot {
    fn held(&self) -> Option<Held> {
        self.held.lock().clone().filter(|held| Instant::now() < held.end)
    }

    fn set(&self, held: Held) {
        *self.held.lock() = Some(held);
    }
}

impl IssuerClient {
    async fn token(self: &Arc<Self>, scopes: &str, audience: &str) -> Result<Secret, TokenError> {
        let slot = self.slot(scopes, audience);
        if let Some(held) = slot.held() {
            if Instant::now() >= held.renew {
                self.renew_in_background(&slot, scopes, audience);
            }
            return Ok(held.token);
        }
        let seen = slot.ended.load(Ordering::Acquire);
        let mut failure = slot.gate.lock().await;
        if let Some(held) = slot.held() {
            return Ok(held.token);
        }
        if let Some(error) = failure.as_ref().filter(|_| slot.ended.load(Ordering::Acquire) != seen) {
            return Err(error.clone());
        }
        let outcome = self.ask(scopes, audience).await;
        slot.ended.fetch_add(1, Ordering::AcqRel);
        *failure = outcome.as_ref().err().cloned();
        let held = outcome?;
        slot.set(held.clone());
        Ok(held.token)
    }

    fn renew_in_background(self: &Arc<Self>, slot: &Arc<Slot>, scopes: &str, audience: &str) {
        if slot.renewing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (this, slot) = (Arc::clone(self), Arc::clone(slot));
        let (scopes, audience) = (scopes.to_owned(), audience.to_owned());
        tokio::spawn(async move {
            match this.ask(&scopes, &audience).await {
                Ok(held) => slot.set(held),
                Err(error) => {
                    tracing::warn!(%error, token_url = %this.token_url, "could not renew a token, the old one goes on");
                    if let Some(held) = slot.held() {
                        slot.set(Held {
                            renew: Instant::now() + RENEWAL_BACKOFF,
                            ..held
                        });
                    }
                }
            }
            slot.renewing.store(false, Ordering::Release);
        });
    }

    fn slot(&self, scopes: &str, audience: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        let key = (scopes.to_owned(), audience.to_owned());
        if let Some(slot) = slots.get(&key) {
            return Arc::clone(slot);
        }
        if slots.len() >= SLOTS_MAX {
            // A caller may wait for a slot without a token; a slot that only the map references is unused.
            slots.retain(|_, slot| slot.held().is_some() || Arc::strong_count(slot) > 1);
        }
        let slot = Arc::new(Slot::default());
        if slots.len() < SLOTS_MAX {
            slots.insert(key, Arc::clone(&slot));
        }
        slot
    }

    async fn ask(&self, scopes: &str, audience: &str) -> Result<Held, TokenError> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(scopes, audience)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(TokenError::Timeout {
                token_url: self.token_url.clone(),
                limit: REQUEST_TIMEOUT,
            }),
        }
    }

    async fn exchange(&self, scopes: &str, audience: &str) -> Result<Held, TokenError> {
        let authorization = match &self.way {
            Way::Credentials(authorization) => authorization,
            Way::Rucio(account, login) => return rucio::log_in(&self.client, &self.token_url, account, login).await,
        };
        let form = form("client_credentials", &[("scope", scopes), ("audience", audience)]);
        // The life is counted from before the request, so that the token never ends earlier than we believe.
        let asked = Instant::now();
        let answer = post(&self.client, (&self.token_url, authorization), form, (scopes, audience)).await?;
        read_answer(&answer, asked).ok_or_else(|| TokenError::NoToken {
            token_url: self.token_url.clone(),
        })
    }
}

/// The form of a request for a token; fields without a value are left out.
fn form(grant: &str, fields: &[(&str, &str)]) -> String {
    let grant = ("grant_type", grant);
    let given = fields.iter().copied().filter(|(_, value)| !value.is_empty());
    weir_http::form::write(std::iter::once(grant).chain(given))
}

/// Sends a form to a token endpoint: the answer, if it is 200.
async fn post(
    client: &weir_http::Client,
    (token_url, authorization): (&str, &Secret),
    form: String,
    (scopes, audience): (&str, &str),
) -> Result<Vec<u8>, TokenError> {
    let request = Request::post(token_url)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json")
        .header(header::AUTHORIZATION, authorization.expose())
        .body(body::full(form))
        .map_err(|_| TokenError::Url(token_url.to_owned()))?;
    let response = client
        .send(request)
        .await
        .map_err(|error| TokenError::Ask(Arc::new(error)))?;
    let status = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
    let answer = body::read_limited(response.into_body(), ANSWER_MAX, REQUEST_TIMEOUT)
        .await
        .map_err(|error| TokenError::Answer(Arc::new(error)))?;
    if status != StatusCode::OK {
        return Err(TokenError::Refused {
            token_url: token_url.to_owned(),
            scopes: scopes.to_owned(),
            audience: audience.to_owned(),
            status,
            reason: refusal(&answer),
            retry_after: retry_after.map(Duration::from_secs),
        });
    }
    Ok(answer.to_vec())
}

/// The value of an `Authorization` header: id and secret form-encoded, then in base64 (RFC 6749 section 2.3.1).
fn basic(client_id: &str, secret: &Secret) -> Secret {
    let pair = format!("{}:{}", encode(client_id), encode(secret.expose()));
    Secret::new(format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    ))
}
