//! Exchanges the configuration, and the files that it names, while the endpoint serves.
//!
//! All that requests share is one value that is swapped at once; requests in hand keep theirs. What must last is handed on:
//! books of areas, queues, counters, the access log. A configuration is taken as a whole or not at all; files that change
//! by themselves are looked at each minute, and taken one kind at a time, so that one that cannot be read keeps none of
//! the others out.

mod change;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use weir_http::{Reloadable, RunningServer, ServerTls};

use crate::{
    area::NameSpace,
    config::StorageConfig,
    data::blocking,
    endpoint::{StartError, open_log},
    metrics::Reload,
    opening::{area_setup, limits},
    parts::{Lasting, Parts, server_tls},
    reaper::Reapers,
    service::Endpoint,
    watched::Seen,
};
use change::settle;

/// How often files are looked at. `fetch-crl` runs every six hours, renewals of certificates every few weeks; a minute is
/// soon enough and costs a millisecond.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What an endpoint shares with those who renew it.
pub(crate) struct Shared {
    pub(crate) current: Reloadable<Endpoint>,
    tls: ServerTls,
    seen: Mutex<Files>,
    /// Held by whoever renews: one at a time.
    turn: tokio::sync::Mutex<()>,
}

/// The files of a configuration, as they were last looked at.
#[derive(Default, Clone)]
struct Files {
    certificate: Seen,
    trust: Seen,
    clients: Seen,
}

impl Files {
    fn look(config: &StorageConfig) -> Self {
        let tls = config.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
        let trust = config.trust.files.iter().chain(&config.trust.directories);
        let x509 = config.x509.iter();
        let clients = x509.flat_map(|x509| {
            [&x509.authorities]
                .into_iter()
                .chain(&x509.vomsdir)
                .chain(&x509.gridmap)
        });
        Self {
            certificate: Seen::of(tls.map(AsRef::<Path>::as_ref)),
            trust: Seen::of(trust.map(AsRef::<Path>::as_ref)),
            clients: Seen::of(clients.map(AsRef::<Path>::as_ref)),
        }
    }
}

impl Shared {
    pub(crate) fn new(endpoint: Arc<Endpoint>, tls: ServerTls) -> Self {
        let seen = Mutex::new(Files::look(&endpoint.config));
        Self {
            current: endpoint.into(),
            tls,
            seen,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Looks at the files again and again, for as long as somebody else holds this: areas are let go with their endpoint.
    pub(crate) async fn keep_up(this: Weak<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(this) = this.upgrade() else { return };
            this.look().await;
        }
    }

    /// Something was to be taken that cannot be: says so, and counts it.
    pub(crate) fn refuse(&self, what: Reload, why: &str) {
        let metrics = self.current.get().metrics.clone();
        metrics.reloaded(what, false);
        tracing::error!(what = what.as_str(), error = why, "not taken: all stays as it was");
    }

    /// See [`crate::Running::reload`].
    pub(crate) async fn reload(
        self: &Arc<Self>,
        config: StorageConfig,
        server: &RunningServer,
        reapers: &Reapers,
    ) -> Result<Vec<String>, StartError> {
        let _turn = self.turn.lock().await;
        let outcome = self.exchange(config, server, reapers).await;
        match &outcome {
            Ok(waiting) => {
                self.current.get().metrics.reloaded(Reload::Configuration, true);
                for sentence in waiting {
                    tracing::warn!("{sentence}");
                }
                tracing::info!("configuration and files read again");
            }
            Err(error) => self.refuse(Reload::Configuration, &weir_auth::error_chain(error)),
        }
        outcome
    }

    async fn exchange(
        self: &Arc<Self>,
        config: StorageConfig,
        server: &RunningServer,
        reapers: &Reapers,
    ) -> Result<Vec<String>, StartError> {
        weir_service::config::check(&config)?;
        let before = self.current.get();
        let (config, waiting) = settle(&before.config, config);
        let made = {
            let (config, before) = (config.clone(), before.clone());
            blocking(move || {
                let files = Files::look(&config);
                let parts = Parts::make(&config, &before.url, &before.metrics, Some(&before))?;
                Ok::<_, StartError>((files, parts, open_log(&config)?))
            })
        };
        let (files, parts, log) = made.await?;
        server
            .tune(&config.sockets.settings())
            .map_err(|source| StartError::Listen {
                address: server.address(),
                source,
            })?;
        // From here on nothing can fail.
        *self.seen() = files;
        before.log.redirect(log).await;
        before.admission.adjust(&config.limits, &config.shares);
        server.adjust(limits(&config));
        reapers.adjust(config.limits.removal_rate.0);
        before.metrics.shows_certificate(parts.certificate);
        let tls = parts.tls.clone();
        let lasting = handed_on(&before, &config);
        let endpoint = Arc::new(Endpoint::new(config, before.url.clone(), parts, lasting));
        let verifier = endpoint.verifier.clone();
        self.current.set(endpoint);
        self.tls.renew(&tls);
        // A new issuer's first request need not wait for it.
        tokio::spawn(async move {
            let _said_in_the_log = verifier.warm(SystemTime::now()).await;
        });
        Ok(waiting)
    }

    /// See [`crate::Running::look`].
    pub(crate) async fn look(self: &Arc<Self>) {
        let _turn = self.turn.lock().await;
        let this = self.clone();
        blocking(move || this.look_at_all()).await;
    }

    /// On the blocking pool.
    fn look_at_all(&self) {
        let endpoint = self.current.get();
        let (before, now) = (self.seen().clone(), Files::look(&endpoint.config));
        // Also where it cannot be taken: what stays as it is need not be tried, and told, each minute.
        *self.seen() = now.clone();
        if now.certificate != before.certificate {
            self.told(Reload::Certificate, self.take_certificate(&endpoint));
        }
        if now.trust != before.trust {
            self.told(Reload::Trust, take_trust(&endpoint));
        }
        if let Some(door) = endpoint.door.as_ref().filter(|_| now.clients != before.clients) {
            let looked = door.look(SystemTime::now());
            self.told(Reload::Clients, looked.map_err(|error| weir_auth::error_chain(&error)));
        }
    }

    fn told(&self, what: Reload, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.current.get().metrics.reloaded(what, true);
                tracing::info!(what = what.as_str(), "changed files read again");
            }
            Err(why) => self.refuse(what, &why),
        }
    }

    fn take_certificate(&self, endpoint: &Endpoint) -> Result<(), String> {
        let (tls, end) =
            server_tls(&endpoint.config, endpoint.door.as_deref()).map_err(|error| weir_auth::error_chain(&error))?;
        self.tls.renew(&tls);
        endpoint.standing.shows_certificate(end);
        endpoint.metrics.shows_certificate(end);
        Ok(())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Files> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_trust(endpoint: &Endpoint) -> Result<(), String> {
    let roots = endpoint.config.trust.roots();
    let lists = endpoint.revocations.refresh(SystemTime::now());
    lists.map_err(|error| weir_auth::error_chain(&error))?;
    // Connections made before are not used again, so that nobody stays who was revoked.
    let mut both = [&endpoint.client, &endpoint.issuers_client].into_iter();
    both.try_for_each(|client| client.renew(&roots))
        .map_err(|error| weir_auth::error_chain(&error))
}

/// What the next endpoint has of this one.
fn handed_on(before: &Endpoint, config: &StorageConfig) -> Lasting {
    let renewed = |area: &Arc<crate::area::Area>| {
        let table = config.areas.iter().find(|table| table.name == area.name);
        table.map_or_else(|| area.clone(), |table| Arc::new(area.with(area_setup(table))))
    };
    Lasting {
        names: NameSpace::new(before.names.areas().iter().map(renewed).collect()),
        log: before.log.clone(),
        checksums: before.checksums.clone(),
        blocks: before.blocks.clone(),
        admission: before.admission.clone(),
        memory: before.memory.clone(),
        metrics: before.metrics.clone(),
    }
}
