//! The transfer service with its door, started, and stopped in order.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use weir_auth::Verifier;
use weir_http::{RunningServer, ServerLimits};
use weir_service::reload::{Reloads, keep_up, look, look_at};
use weir_transfer::{Opened, Outbound, config::TransferConfig};

use crate::{
    GRACE,
    access::{callers::Callers, certificates::Certificates},
    door,
    error::{OpenError, StartError},
    jobs::submission::SubmissionLimits,
    nodes::relayed::answer_node,
    reload::{Reloading, files, server_tls},
    state::Door,
};

/// How long a client's connection is kept at a stop, for a request that is on its way: clients send the next one soon, or not at all.
const LINGER: Duration = Duration::from_millis(500);

/// Starts transfer services.
#[derive(Debug)]
pub struct TransferService;

/// A running service. Dropping it stops the door; [`Running::shutdown`] also waits for the store.
pub struct Running {
    url: String,
    server: RunningServer,
    service: weir_transfer::Running,
    reloading: Arc<Reloading>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl TransferService {
    /// Starts a service on the current runtime.
    ///
    /// Returns when the door is open; the contents of the store are restored in the background, and nothing starts
    /// before they are there.
    ///
    /// # Errors
    /// [`StartError`]
    pub async fn start(config: TransferConfig) -> Result<Running, StartError> {
        weir_service::config::check(&config)?;
        // A file that changes while the store is opened is seen later.
        let seen = look_at(files(&config));
        let outbound = Outbound::open(&config, SystemTime::now()).map_err(OpenError::Service)?;
        let certificates = Certificates::named_by(&config).map_err(OpenError::Certificates)?;
        let (tls, certificate_end) = server_tls(&config, certificates.as_ref())?;
        let opened = Opened::open(config.clone()).await.map_err(OpenError::Service)?;
        let listen = StartError::listen(config.listen);
        let listener = weir_http::bind(config.listen).map_err(&listen)?;
        let address = listener.local_addr().map_err(&listen)?;
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let url = config.url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        let callers = Callers::new(&config, &url, outbound.client.clone(), certificates, None);
        let service = opened
            .start(&url, outbound, callers.verifier.clone())
            .await
            .map_err(OpenError::Service)?;
        let state = Arc::new(Door {
            service: service.service().clone(),
            url: url.clone(),
            callers: Arc::new(callers).into(),
            submission: SubmissionLimits {
                files: config.limits.files_per_job,
                plain_http: config.plain_http,
                links: config.limits.links_per_job,
                ..SubmissionLimits::default()
            },
            body_max: usize::try_from(config.limits.body.0).unwrap_or(usize::MAX),
            reloads: Reloads::default(),
        });
        state.reloads.shows_certificate(certificate_end);
        let answering = Arc::downgrade(&state);
        service
            .begin(Box::new(move |asked| answer_node(answering.clone(), asked)))
            .await
            .map_err(OpenError::Service)?;
        let reloading = Arc::new(Reloading::new(state.clone(), config.clone(), seen, tls.clone()));
        let limits = ServerLimits {
            connections: config.limits.connections,
            connections_per_client: Some(config.limits.per_client()),
            grace: GRACE,
            linger: LINGER,
            ..ServerLimits::default()
        };
        let server = weir_http::serve(listener, tls, limits, door(state.clone())).map_err(&listen)?;
        service.tasks().spawn(keep_up(Arc::downgrade(&reloading)));
        // The first request need not wait for an issuer.
        service.tasks().spawn(warm(state.callers.get().verifier.clone()));
        tracing::info!(url, schedules = state.driver.is_taken(), "transfer service started");
        Ok(Running {
            url,
            server,
            service,
            reloading,
        })
    }
}

impl Running {
    /// How clients write this service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    /// Applies another configuration while it serves. Requests in hand go on as they began; later requests, on open
    /// connections too, meet the new one, and new connections the new certificate.
    ///
    /// It applies the keys for callers (`issuer`, `admin`, `broker`, `x509`, audiences, levels, `metrics_allow`), and
    /// the service's certificate. Returns a sentence for each other key that needs a restart; these keep their values.
    ///
    /// # Errors
    /// It cannot be served; then nothing has changed.
    pub async fn reload(&self, config: TransferConfig) -> Result<Vec<String>, StartError> {
        let taken = self.reloading.reload(config).await;
        tokio::spawn(warm(self.reloading.verifier()));
        taken
    }

    /// Puts down that there was a configuration to take which cannot be read. Nothing changes.
    pub fn refuse_reload(&self, why: &str) {
        self.reloading.refuse(why);
    }

    /// Checks the files of certificates, authorities and users, and loads the changed ones, as it does each minute by
    /// itself: revoked clients are refused from here on. An unreadable file keeps its former content.
    pub async fn look(&self) {
        look(self.reloading.clone()).await;
    }

    /// Stops in good order: no new request, open ones are answered within five seconds. Then nothing new starts;
    /// running copies are abandoned, and resumed at the next start or by another node. Returns when all acknowledged
    /// changes are in the store.
    pub async fn shutdown(self) {
        // Open requests are answered first, while all parts that they need still work.
        self.service.service().stopping.cancel();
        self.server.shutdown().await;
        drop(self.reloading);
        self.service.shutdown().await;
    }
}

async fn warm(verifier: Verifier) {
    let _said_in_the_log = verifier.warm(SystemTime::now()).await;
}
