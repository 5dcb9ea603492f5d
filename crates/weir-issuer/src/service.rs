//! The issuer's door, and the task that turns its keys.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::RwLock;
use serde_json::{Value, json};
use thiserror::Error;
use tracing::{info, warn};
use weir_auth::jws::TOKEN_MAX;
use weir_auth::signing::{jwks, key_set};
use weir_auth::{Scope, Secret};
use weir_http::{BodyError, ConnectionInfo, Identity, Reloadable, RunningServer, ServerLimits, ServerTls};
use weir_service::health::Readiness;
use weir_service::reload::{Part, Reloads, Renew, keep_up, look, look_at};
use weir_service::tasks::Tasks;
use weir_service::tls::TlsFiles;

use crate::config::{ConfigError, IssuerConfig};
use crate::exchange::Source;
use crate::figures::Figures;
use crate::grant::{Claims, Grant, KnownClient, grant};
use crate::keys::{KeyError, KeyStore, Ring};
use crate::offer::{Offer, settle};
use crate::request::{self, Basis, Refusal, TokenRequest};

/// Largest request for a token, in bytes: some hundred scopes with long paths.
const REQUEST_MAX: usize = 32 * 1024;
/// How long a request's body may take to arrive. Anybody may send one, and holds a connection as long.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// How much of a token's scopes the log shows, in bytes.
const SCOPE_SHOWN: usize = 200;
/// How often the keys are looked at. The wait for the next turn is never longer, so that a clock that is set is noticed.
const KEY_CHECK: Duration = Duration::from_secs(60);

/// The reason why an issuer does not start.
pub type StartError = weir_service::StartError<OpenError>;

/// The issuer's signing keys cannot be read or written.
#[derive(Debug, Error)]
#[error("could not open the signing keys")]
pub struct OpenError(#[from] KeyError);

impl weir_service::OwnError for OpenError {}

/// An issuer that is not running.
#[derive(Debug)]
pub struct Issuer;

/// An issuer that is running, until it is dropped or shut down.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    server: RunningServer,
    tasks: Tasks,
}

#[derive(Debug)]
struct Shared {
    url: String,
    offer: Reloadable<Offer>,
    store: KeyStore,
    ring: RwLock<Published>,
    figures: Figures,
    tls: ServerTls,
    reloads: Reloads,
}

impl Renew for Shared {
    fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    fn files(&self) -> Vec<(Part, Vec<PathBuf>)> {
        files(&self.offer.get().config)
    }

    fn take(&self, _certificate: Part) -> Result<(), String> {
        let offer = self.offer.get();
        let served = offer.config.tls.as_ref().map(|tls| tls.serve(None)).transpose();
        if let Some((tls, end)) = served.map_err(|error| weir_auth::error_chain(&error))? {
            self.tls.renew(&tls);
            self.reloads.shows_certificate(end);
        }
        Ok(())
    }
}

/// The configured files that other programs renew. An issuer whose identity was given by the program that embeds it has
/// none.
fn files(config: &IssuerConfig) -> Vec<(Part, Vec<PathBuf>)> {
    vec![(Part::Certificate, config.tls.iter().flat_map(TlsFiles::files).collect())]
}

/// The ring, and its public half as it is served.
#[derive(Debug)]
struct Published {
    ring: Ring,
    jwks: String,
    /// Whether the last attempt to turn it failed.
    stuck: bool,
}

impl Published {
    fn new(ring: Ring) -> Self {
        Self {
            jwks: jwks(ring.published()).to_string(),
            ring,
            stuck: false,
        }
    }
}

impl Issuer {
    /// Starts an issuer on the current runtime.
    ///
    /// # Errors
    /// [`StartError`]; then nothing is left running.
    pub fn start(config: &IssuerConfig, identity: &Identity) -> Result<Running, StartError> {
        weir_service::config::check(config)?;
        let tls = ServerTls::from(Some(weir_http::server_config(identity)?));
        let store = KeyStore::open(&config.key_directory).map_err(OpenError)?;
        let ring = store.load_or_create(seconds()).map_err(OpenError)?;
        let refresh_key = store.refresh_key().map_err(OpenError)?;
        let offer = Offer::new(config.clone(), refresh_key.expose().as_bytes());
        let offer = offer.map_err(ConfigError::from)?;
        let listen = StartError::listen(config.listen);
        let listener = weir_http::bind(config.listen).map_err(&listen)?;
        let address = listener.local_addr().map_err(&listen)?;
        let shared = Arc::new(Shared {
            url: config.url.clone().unwrap_or_else(|| format!("https://{address}")),
            offer: Arc::new(offer).into(),
            store,
            ring: RwLock::new(Published::new(ring)),
            figures: Figures::default(),
            tls: tls.clone(),
            reloads: Reloads::default(),
        });
        shared.reloads.have_read(look_at(files(config)));
        shared
            .reloads
            .shows_certificate(weir_auth::x509::ends(&identity.chain_pem));
        let server = weir_http::serve(listener, tls, limits(config), router(&shared)).map_err(&listen)?;
        info!(url = %shared.url, %address, clients = config.clients.len(), "the issuer is ready");
        let tasks = Tasks::default();
        tasks.spawn(turn_keys(Arc::clone(&shared)));
        tasks.spawn(keep_up(Arc::downgrade(&shared)));
        Ok(Running { shared, server, tasks })
    }
}

fn limits(config: &IssuerConfig) -> ServerLimits {
    ServerLimits {
        connections: config.limits.connections,
        connections_per_client: Some(config.limits.per_client()),
        ..ServerLimits::default()
    }
}

impl Running {
    /// `iss` of its tokens.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Where tokens are asked for.
    pub fn token_url(&self) -> String {
        self.shared.at("/token")
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Lets the next key sign from now on. Tokens signed before stay good.
    ///
    /// # Errors
    /// [`KeyError`]; then the old key goes on signing.
    pub fn rotate(&self) -> Result<(), KeyError> {
        self.shared.advance(true)
    }

    /// Applies another configuration while it serves: requests in hand go on as they began. The secrets of clients and
    /// the certificate are read again, too.
    ///
    /// Returns a sentence for each key that needs a restart; these keep their values.
    ///
    /// # Errors
    /// It cannot be served; then nothing has changed.
    pub async fn reload(&self, config: &IssuerConfig) -> Result<Vec<String>, StartError> {
        let _turn = self.shared.reloads.turn().await;
        let taken = self.exchange(config);
        self.shared.reloads.took(&taken);
        taken
    }

    fn exchange(&self, config: &IssuerConfig) -> Result<Vec<String>, StartError> {
        weir_service::config::check(config)?;
        let before = self.shared.offer.get();
        let (config, waiting) = settle(&before.config, config);
        let seen = look_at(files(&config));
        let served = config.tls.as_ref().map(|tls| tls.serve(None)).transpose()?;
        let limits = limits(&config);
        let offer = before.succeeded_by(config).map_err(ConfigError::from)?;
        // From here on nothing can fail.
        if let Some((tls, end)) = served {
            self.shared.tls.renew(&tls);
            self.shared.reloads.shows_certificate(end);
        }
        self.shared.reloads.have_read(seen);
        self.server.adjust(limits);
        self.shared.offer.set(Arc::new(offer));
        Ok(waiting)
    }

    /// Puts down that there was a configuration to take which cannot be read. Nothing changes.
    pub fn refuse_reload(&self, why: &str) {
        self.shared.reloads.told(Part::Configuration, Err(why));
    }

    /// Looks at the files of the certificate, and takes them if they have changed, as it does each minute by itself.
    pub async fn look(&self) {
        look(self.shared.clone()).await;
    }

    /// Lets requests in hand end, then stops.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        self.tasks.end().await;
    }
}

impl Shared {
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url.trim_end_matches('/'))
    }

    /// The path of the issuer's own URL; empty for most.
    fn path(&self) -> &str {
        let rest = self.url.get("https://".len()..).unwrap_or_default();
        rest.find('/').map_or("", |slash| rest[slash..].trim_end_matches('/'))
    }

    /// Rotates the keys if that is due, or `force` is set. Published keys are on disk.
    fn advance(&self, force: bool) -> Result<(), KeyError> {
        let times = self.offer.get().times();
        let mut published = self.ring.write();
        let outcome = self.store.advance(&published.ring, seconds(), times, force);
        published.stuck = outcome.is_err();
        if let Some(ring) = outcome? {
            info!(
                current = ring.current.id(),
                next = ring.next.id(),
                "turned the signing keys"
            );
            *published = Published::new(ring);
        }
        Ok(())
    }

    /// Whether the keys are to be turned or thinned out.
    fn is_due(&self) -> bool {
        self.ring
            .read()
            .ring
            .changes(seconds(), self.offer.get().config.rotation)
    }

    fn discovery(&self) -> Value {
        let mut grants = vec!["client_credentials"];
        if self.offer.get().clients.iter().any(|client| client.exchange) {
            grants.extend(["refresh_token", request::EXCHANGE]);
        }
        json!({
            "issuer": self.url,
            "jwks_uri": self.at("/jwks"),
            "token_endpoint": self.at("/token"),
            "grant_types_supported": grants,
            "response_types_supported": [],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "scopes_supported": [
                "storage.read", "storage.create", "storage.modify", "storage.stage", "storage.poll", "wlcg.groups"
            ],
        })
    }

    /// The answer to a request for a token, in full.
    fn answer(&self, headers: &http::HeaderMap, body: &[u8]) -> Result<Value, Refusal> {
        let request = request::read(headers, body)?;
        let offer = self.offer.get();
        let client = offer.admit(&request.credentials)?;
        let granted = self.granted(&offer, client, &request)?;
        let scope = granted
            .scopes
            .iter()
            .map(Scope::to_string)
            .collect::<Vec<_>>()
            .join(" ");
        let lifetime = offer.config.token_lifetime.as_secs();
        let claims = Claims::new(&self.url, client, &granted, &scope, seconds(), lifetime);
        let token = self.sign(&claims);
        if token.expose().len() > TOKEN_MAX {
            return Err(Refusal::bad(
                "invalid_scope",
                format!("the token would be longer than {TOKEN_MAX} bytes"),
            ));
        }
        self.figures.issued(&client.id, &request.basis);
        let shown = scope.get(..SCOPE_SHOWN).unwrap_or(&scope);
        info!(client = %client.id, jti = claims.id(), scope = shown, audience = ?granted.audiences, "issued a token");
        let mut answer = json!({
            "access_token": token.expose(),
            "token_type": "Bearer",
            "expires_in": claims.lifetime(),
            "scope": scope,
        });
        if let Basis::Exchange { refresh, .. } = request.basis {
            answer["issued_token_type"] = request::ACCESS.into();
            if refresh {
                let refresh = offer.refresher.issue(&self.url, client, &granted, seconds());
                answer["refresh_token"] = refresh.expose().into();
            }
        }
        Ok(answer)
    }

    fn granted(&self, offer: &Offer, client: &KnownClient, request: &TokenRequest) -> Result<Grant, Refusal> {
        if !matches!(request.basis, Basis::Client) && !client.exchange {
            let text = "this client may not exchange or refresh tokens";
            return Err(Refusal::bad("unauthorized_client", text));
        }
        let now = seconds();
        let here = (self.url.as_str(), now);
        let chain = (offer.refresher.lifetime(), now);
        match &request.basis {
            Basis::Client => grant(client, request),
            Basis::Refresh(token) => offer
                .refresher
                .read(token, client, here)?
                .narrowed(client, request, chain),
            Basis::Exchange { subject, .. } => {
                let keys = {
                    let published = self.ring.read();
                    key_set(published.ring.published())
                };
                Source::of_access(subject, &keys, here)?.narrowed(client, request, chain)
            }
        }
    }

    fn sign(&self, claims: &Claims<'_>) -> Secret {
        let key = Arc::clone(&self.ring.read().ring.current);
        key.sign(claims).expect("texts and numbers are always JSON")
    }
}

/// Turns the keys when it is time, until it is aborted.
async fn turn_keys(shared: Arc<Shared>) {
    loop {
        if shared.is_due() {
            // Writing waits for the disk.
            let shared = Arc::clone(&shared);
            let turned = tokio::task::spawn_blocking(move || shared.advance(false)).await;
            if let Ok(Err(error)) = turned {
                let error = weir_auth::error_chain(&error);
                warn!(%error, "could not turn the signing keys, the old one goes on");
            }
        }
        tokio::time::sleep(KEY_CHECK.min(shared.offer.get().config.rotation)).await;
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let path = shared.path();
    let token = post(token_endpoint);
    Router::new()
        .route(
            &format!("{path}/.well-known/openid-configuration"),
            get(discovery_endpoint),
        )
        .route(
            &format!("/.well-known/oauth-authorization-server{path}"),
            get(discovery_endpoint),
        )
        .route(&format!("{path}/jwks"), get(jwks_endpoint))
        .route(&format!("{path}/token"), token)
        .route("/.well-known/weir/health", get(health_endpoint))
        .route("/.well-known/weir/ready", get(ready_endpoint))
        .route("/.well-known/weir/metrics", get(metrics_endpoint))
        .with_state(Arc::clone(shared))
}

async fn discovery_endpoint(State(shared): State<Arc<Shared>>) -> Response {
    document(shared.discovery().to_string())
}

async fn jwks_endpoint(State(shared): State<Arc<Shared>>) -> Response {
    let jwks = shared.ring.read().jwks.clone();
    document(jwks)
}

async fn health_endpoint(State(shared): State<Arc<Shared>>) -> Response {
    let stuck = shared.ring.read().stuck;
    if stuck {
        let reason = json!({ "status": "degraded", "reason": "the signing keys could not be turned, see the log" });
        return reply(StatusCode::SERVICE_UNAVAILABLE, reason.to_string());
    }
    reply(StatusCode::OK, json!({ "status": "ok" }).to_string())
}

async fn ready_endpoint(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<ConnectionInfo>,
    headers: HeaderMap,
) -> Response {
    let mut found = Readiness::default();
    found.certificate(shared.reloads.certificate_end(), SystemTime::now());
    if shared.ring.read().stuck {
        found
            .troubles
            .push("the signing keys could not be turned, see the log".to_owned());
    }
    let allowed = &shared.offer.get().config.metrics_allow;
    let (status, answer) = found.answer(weir_http::comes_from(allowed, connection.peer.ip(), &headers));
    reply(status, answer.to_string())
}

async fn metrics_endpoint(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<ConnectionInfo>,
    headers: HeaderMap,
) -> Response {
    let offer = shared.offer.get();
    if !weir_http::comes_from(&offer.config.metrics_allow, connection.peer.ip(), &headers) {
        let reason = json!({ "error": "metrics are not shown to this address (metrics_allow)" });
        return reply(StatusCode::FORBIDDEN, reason.to_string());
    }
    let (keys, stuck) = {
        let published = shared.ring.read();
        (published.ring.published().count(), published.stuck)
    };
    let page = shared.figures.page(&offer.clients, keys, stuck, &shared.reloads);
    let mut response = reply(StatusCode::OK, page);
    let kind = HeaderValue::from_static(weir_service::metrics::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn token_endpoint(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let outcome = match weir_http::body::read_within(body, REQUEST_MAX, BODY_WITHIN).await {
        Ok(body) => shared.answer(&parts.headers, &body),
        Err(BodyError::TooLarge { .. }) => Err(Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            error: "invalid_request",
            description: format!("the request is larger than {REQUEST_MAX} bytes"),
        }),
        Err(BodyError::Stalled(_) | BodyError::Late(_)) => Err(Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            error: "invalid_request",
            description: format!("the request did not arrive within {} s", BODY_WITHIN.as_secs()),
        }),
        Err(BodyError::Broken(_)) => Err(Refusal::bad("invalid_request", "the request broke off")),
    };
    let delay = shared.offer.get().config.answer_delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    Ok(match outcome {
        Ok(answer) => reply(StatusCode::OK, answer.to_string()),
        Err(refusal) => {
            shared.figures.refused(refusal.error);
            refuse(&refusal)
        }
    })
}

fn refuse(refusal: &Refusal) -> Response {
    info!(
        status = refusal.status.as_u16(),
        error = refusal.error,
        "refused a token"
    );
    // RFC 6749 section 5.2: no quote, no backslash, ASCII alone.
    let description: String = refusal
        .description
        .chars()
        .map(|c| {
            if (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\' {
                c
            } else {
                '?'
            }
        })
        .collect();
    let body = json!({ "error": refusal.error, "error_description": description });
    let mut response = reply(refusal.status, body.to_string());
    let headers = response.headers_mut();
    match refusal.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"token\""),
            );
        }
        StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}

/// JSON that must not be cached.
fn reply(status: StatusCode, json: String) -> Response {
    with_cache(status, json, "no-store")
}

/// JSON that services may keep for a while: less than a key is published before it signs.
fn document(json: String) -> Response {
    with_cache(StatusCode::OK, json, "public, max-age=300")
}

fn with_cache(status: StatusCode, json: String, cache: &'static str) -> Response {
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

/// Seconds since the Unix epoch; zero before it.
fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
