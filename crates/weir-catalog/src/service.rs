//! The catalogue as a service: started, reloaded, stopped.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use axum::{
    Extension, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use weir_auth::{Secret, client::TokenError, x509::X509Error};
use weir_database::{Database, Session};
use weir_events::{SinkError, Subscription};
use weir_http::{
    Client, ClientConfig, ConnectionInfo, Identity as TlsIdentity, Reloadable, RunningServer, ServerLimits, ServerTls,
    TlsError,
};
use weir_model::catalog::{AccountType, IdentityType};
use weir_service::{
    health::Readiness,
    metrics::{Kind, Page},
    reload::{Part, Reloads, Renew, keep_up, look_at},
    tasks::Tasks,
    time,
    tls::TlsFiles,
};
use weir_store::{StoreError, postgres::Connector};

use crate::{
    accounts::{
        self,
        identities::{self, Identity, PasswordHash},
        sessions,
    },
    config::{CatalogConfig, RootConfig},
    credentials::Credentials,
    door,
    evaluator::Wakes,
    figures,
    leader::Work,
    logins::Logins,
    refusal::{Class, Refusal},
    replicas::check::{self, Finding},
    requests::uid::Tag,
    schema,
    transfers::ServiceStates,
};

/// Name of this program at a database server.
const APPLICATION: &str = "weir-catalog";

/// How often sessions that have ended are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The reason why a catalogue does not start.
pub type StartError = weir_service::StartError<OpenError>;

/// A file, credential or database of a catalogue that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its database cannot be used.
    #[error("could not use the catalogue's database")]
    Store(#[from] StoreError),
    /// The password of the account `root`, or the token of webhooks, cannot be read.
    #[error("could not read the secret file {path}")]
    Password {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The secret of its tokens cannot be read.
    #[error("could not use the catalogue's credentials")]
    Token(#[from] TokenError),
    /// The broker's password or authorities cannot be read.
    #[error("could not use the broker of transfers.stomp")]
    Broker(#[from] SinkError),
    /// The authorities of client certificates cannot be read.
    #[error("could not use the authorities of client certificates")]
    X509(#[from] X509Error),
}

impl weir_service::OwnError for OpenError {}

/// Starts catalogues.
#[derive(Debug)]
pub struct Catalog;

/// A catalogue that is running, until it is dropped or shut down.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    server: RunningServer,
    tasks: Tasks,
}

#[derive(Debug)]
struct Shared {
    url: String,
    config: Reloadable<CatalogConfig>,
    database: Database,
    tls: ServerTls,
    reloads: Reloads,
    leads: Arc<AtomicBool>,
    logins: Logins,
}

impl Renew for Shared {
    fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    fn files(&self) -> Vec<(Part, Vec<PathBuf>)> {
        files(&self.config.get())
    }

    fn take(&self, _certificate: Part) -> Result<(), String> {
        let served = serve_tls(&self.config.get(), &self.logins).map_err(|error| weir_auth::error_chain(&error))?;
        self.tls.renew(&served.0);
        self.reloads.shows_certificate(served.1);
        Ok(())
    }
}

/// The files that are watched while the service runs.
fn files(config: &CatalogConfig) -> Vec<(Part, Vec<PathBuf>)> {
    vec![(Part::Certificate, config.tls.iter().flat_map(TlsFiles::files).collect())]
}

fn serve_tls(config: &CatalogConfig, logins: &Logins) -> Result<(ServerTls, Option<SystemTime>), TlsError> {
    let served = config.tls.as_ref().map(|tls| tls.serve(logins.check())).transpose()?;
    Ok(served.unwrap_or_default())
}

/// Buffer of a connection. Heads may have 64 KiB; of an answer, a reader that has stopped keeps as much.
const BUFFER: usize = 72 * 1024;

fn limits(config: &CatalogConfig) -> ServerLimits {
    ServerLimits {
        connections: config.limits.connections,
        // One client cannot keep all others out.
        connections_per_client: Some((config.limits.connections / 2).max(1)),
        buffer: BUFFER,
        ..ServerLimits::default()
    }
}

impl Catalog {
    /// Looks at the paths of all replicas in the database that the configuration names.
    ///
    /// # Errors
    /// [`StartError`]: another process has the database of SQLite, or the database cannot be used.
    pub async fn check_paths(config: &CatalogConfig) -> Result<Vec<Finding>, StartError> {
        let database = open(config).await?;
        Ok(database.read(check::paths).await.map_err(OpenError::Store)?)
    }

    /// Starts a catalogue on the current runtime. A new database gets the account `root`.
    ///
    /// # Errors
    /// [`StartError`]; then nothing is left running.
    pub async fn start(config: CatalogConfig) -> Result<Running, StartError> {
        weir_service::config::check(&config)?;
        let seen = look_at(files(&config));
        let database = open(&config).await?;
        bootstrap(&database, &config.root).await?;
        let fresh = Tag::fresh().map_err(OpenError::from)?;
        let tag = database
            .write(move |session: &mut dyn Session| Tag::of(session, fresh))
            .await
            .map_err(OpenError::Store)?;
        let client = outbound(&config)?;
        let credentials = Credentials::new(&config.tokens, &client).map_err(OpenError::Token)?;
        let stomp = config.transfers.stomp.as_ref();
        let stomp = stomp
            .map(|stomp| Subscription::new(stomp, &config.trust.roots()))
            .transpose()
            .map_err(OpenError::Broker)?;
        let work = Work {
            database: database.clone(),
            stomp: stomp.map(Arc::new),
            client,
            credentials,
            config: Arc::new(config.clone()),
            tag,
            wakes: Wakes::default(),
            services: ServiceStates::default(),
            leads: Arc::default(),
        };
        let listen = StartError::listen(config.listen);
        let listener = weir_http::bind(config.listen).map_err(&listen)?;
        let address = listener.local_addr().map_err(&listen)?;
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let url = config.url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        let webhook = config.transfers.webhook_token_file.as_deref().map(secret).transpose()?;
        let logins = Logins::new((config.oidc.as_ref(), config.x509.as_ref()), &url, &work.client);
        let logins = logins.map_err(OpenError::X509)?;
        let (tls, certificate_end) = serve_tls(&config, &logins)?;
        let shared = Arc::new(Shared {
            url,
            config: Arc::new(config.clone()).into(),
            database: database.clone(),
            tls: tls.clone(),
            reloads: Reloads::default(),
            leads: work.leads.clone(),
            logins: logins.clone(),
        });
        shared.reloads.have_read(seen);
        shared.reloads.shows_certificate(certificate_end);
        let router =
            door::router(database.clone(), tasks_of(&work, webhook, &config), logins).merge(about(shared.clone()));
        let server = weir_http::serve(listener, tls, limits(&config), router).map_err(&listen)?;
        let tasks = Tasks::default();
        tasks.spawn(keep_up(Arc::downgrade(&shared)));
        tasks.tracker().spawn(work.run(tasks.stop().clone()));
        tasks.spawn(forget_sessions(database));
        tracing::info!(url = shared.url, %address, "the catalogue is ready");
        Ok(Running { shared, server, tasks })
    }
}

/// The door's view of the tasks.
fn tasks_of(work: &Work, webhook: Option<Secret>, config: &CatalogConfig) -> door::Tasks {
    door::Tasks {
        evaluator: work.wakes.evaluator.clone(),
        transfers: work.wakes.transfers.clone(),
        webhook,
        tag: work.tag,
        services: work.services.clone(),
        in_flight: config.transfers.in_flight,
    }
}

/// The database of the configuration.
async fn open(config: &CatalogConfig) -> Result<Database, OpenError> {
    let Some(postgres) = config.postgres.clone() else {
        let store = config.store.as_deref().unwrap_or(Path::new(""));
        return Ok(Database::open_file(store, schema::MIGRATIONS)?);
    };
    let trust = postgres.trust(config.trust.roots());
    let open = move || {
        let connector = Connector::new(&postgres.address(APPLICATION), &trust)?;
        Database::on_server(connector, schema::MIGRATIONS)
    };
    Ok(weir_store::blocking(open).await?)
}

/// The client for transfer services and storages.
fn outbound(config: &CatalogConfig) -> Result<Client, TlsError> {
    let client = Client::new(ClientConfig::new(config.trust.roots()))?;
    let Some(files) = &config.identity else {
        return Ok(client);
    };
    client.showing(&TlsIdentity::load(&files.certificate, &files.key)?)
}

impl Running {
    /// The URL that clients use.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Takes another configuration while it serves: certificate, `metrics_allow` and limits. Gives a sentence for each key that needs a
    /// restart; that stays as it was.
    ///
    /// # Errors
    /// It cannot be served; then nothing has changed.
    pub async fn reload(&self, config: CatalogConfig) -> Result<Vec<String>, StartError> {
        let _turn = self.shared.reloads.turn().await;
        let taken = self.exchange(&config);
        self.shared.reloads.took(&taken);
        taken
    }

    fn exchange(&self, new: &CatalogConfig) -> Result<Vec<String>, StartError> {
        weir_service::config::check(new)?;
        let before = self.shared.config.get();
        let taken = CatalogConfig {
            tls: new.tls.clone().filter(|_| before.tls.is_some()),
            metrics_allow: new.metrics_allow.clone(),
            limits: new.limits.clone(),
            ..(*before).clone()
        };
        let seen = look_at(files(&taken));
        let (tls, end) = serve_tls(&taken, &self.shared.logins)?;
        // From here on nothing can fail.
        let waiting = weir_service::config::waiting(&taken, new);
        self.shared.tls.renew(&tls);
        self.shared.reloads.shows_certificate(end);
        self.shared.reloads.have_read(seen);
        self.server.adjust(limits(&taken));
        self.shared.config.set(Arc::new(taken));
        Ok(waiting)
    }

    /// Counts a configuration that cannot be read. Nothing changes.
    pub fn refuse_reload(&self, why: &str) {
        self.shared.reloads.told(Part::Configuration, Err(why));
    }

    /// Lets requests in hand end, then stops.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        self.tasks.end().await;
    }
}

/// Reads the first line of a file that only its owner may read.
fn password(path: &Path) -> io::Result<Secret> {
    let text = weir_auth::files::read_own(path)?;
    if std::fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        let text = "others may read it; set its mode to 0600";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(Secret::new(line)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty")),
    }
}

/// The same, as an error of the start.
fn secret(path: &Path) -> Result<Secret, OpenError> {
    password(path).map_err(|source| OpenError::Password {
        path: path.to_owned(),
        source,
    })
}

/// Gives a new database the account `root`, with its login.
async fn bootstrap(database: &Database, root: &RootConfig) -> Result<(), OpenError> {
    let known = |session: &mut dyn Session| session.row("SELECT account FROM accounts LIMIT 1", &[]);
    if database.read(known).await?.is_some() {
        return Ok(());
    }
    let password = secret(&root.password_file)?;
    let hash = tokio::task::spawn_blocking(move || PasswordHash::new(&password));
    let hash = hash.await.map_err(|error| StoreError::Broken(error.into()))??;
    let (user, now) = (root.user.clone(), time::now());
    let make = move |session: &mut dyn Session| {
        let account = "root"
            .parse()
            .map_err(|_| StoreError::Broken("root is no account".into()))?;
        let identity = Identity {
            identity: user.clone(),
            kind: IdentityType::UserPass,
            email: None,
        };
        accounts::add(session, &account, AccountType::Service, None, now)?;
        identities::add(session, &identity, &account, true, Some(&hash), now)
    };
    match database.write(make).await {
        // Another node was faster.
        Err(error)
            if error
                .refusal::<Refusal>()
                .is_some_and(|refusal| refusal.class == Class::Duplicate) =>
        {
            Ok(())
        }
        made => Ok(made?),
    }
}

/// Forgets sessions that have ended, until it is aborted.
async fn forget_sessions(database: Database) {
    loop {
        let forget = |session: &mut dyn Session| sessions::forget(session, time::now());
        match database.write(forget).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(
                error = weir_auth::error_chain(&error),
                "sessions that ended are not forgotten"
            ),
        }
        tokio::time::sleep(FORGET_EVERY).await;
    }
}

/// Health, readiness and metrics.
fn about(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/.well-known/weir/health", get(health))
        .route("/.well-known/weir/ready", get(ready))
        .route("/.well-known/weir/metrics", get(metrics))
        .with_state(shared)
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

async fn health() -> Response {
    reply(
        StatusCode::OK,
        "application/json",
        json!({ "status": "ok" }).to_string(),
    )
}

fn is_allowed(shared: &Shared, connection: &ConnectionInfo, headers: &HeaderMap) -> bool {
    let allowed = &shared.config.get().metrics_allow;
    weir_http::comes_from(allowed, connection.peer.ip(), headers)
}

async fn ready(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<ConnectionInfo>,
    headers: HeaderMap,
) -> Response {
    let mut found = Readiness::default();
    found.certificate(shared.reloads.certificate_end(), SystemTime::now());
    let read = |session: &mut dyn Session| session.row("SELECT count(*) FROM accounts", &[]);
    if let Err(error) = shared.database.read(read).await {
        let text = format!("the database cannot be read: {}", weir_auth::error_chain(&error));
        found.troubles.push(text);
    }
    let (status, answer) = found.answer(is_allowed(&shared, &connection, &headers));
    reply(status, "application/json", answer.to_string())
}

async fn metrics(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<ConnectionInfo>,
    headers: HeaderMap,
) -> Response {
    if !is_allowed(&shared, &connection, &headers) {
        let reason = json!({ "error": "metrics are not shown to this address (metrics_allow)" });
        return reply(StatusCode::FORBIDDEN, "application/json", reason.to_string());
    }
    let in_flight = shared.config.get().transfers.in_flight;
    let read = move |session: &mut dyn Session| figures::read(session, time::now(), in_flight);
    let Ok(counts) = shared.database.read(read).await else {
        let reason = json!({ "error": "the database cannot be read" });
        return reply(StatusCode::SERVICE_UNAVAILABLE, "application/json", reason.to_string());
    };
    let mut page = Page::default();
    counts.show(&mut page);
    let leads = u64::from(shared.leads.load(Ordering::Relaxed));
    let help = "1 on the node that evaluates rules, submits requests and deletes files";
    page.single("weir_catalog_leads", Kind::Gauge, help, leads);
    shared.reloads.show(&mut page, "catalog");
    reply(StatusCode::OK, weir_service::metrics::CONTENT_TYPE, page.text())
}
