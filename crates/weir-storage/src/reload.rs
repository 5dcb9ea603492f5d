//! Reloading of the configuration, and of the files that it names, while the endpoint serves.
//!
//! All shared state of requests is one value that is swapped at once; requests in hand keep theirs. Lasting state is
//! handed on: counts of areas, queues, metrics, the access log. A configuration is applied as a whole or not at all.
//! Files are checked for changes each minute and applied one kind at a time, so that an unreadable one does not block
//! the others.

mod change;

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use weir_auth::x509::DoorConfig;
use weir_http::{Reloadable, RunningServer, ServerTls};
use weir_service::{
    reload::{Part, Reloads, Renew, look_at},
    tls::TlsFiles,
};

use crate::{
    area::NameSpace,
    config::StorageConfig,
    data::blocking,
    endpoint::{StartError, open_log},
    opening::{area_setup, limits},
    parts::{Lasting, Parts, server_tls},
    reaper::Reapers,
    service::Endpoint,
};
use change::settle;

/// The state that an endpoint shares with its reloading task.
pub(crate) struct EndpointState {
    pub(crate) current: Reloadable<Endpoint>,
    tls: ServerTls,
    pub(crate) reloads: Reloads,
}

impl Renew for EndpointState {
    fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    fn files(&self) -> Vec<(Part, Vec<PathBuf>)> {
        files(&self.current.get().config)
    }

    fn take(&self, part: Part) -> Result<(), String> {
        let endpoint = self.current.get();
        match part {
            Part::Configuration => Ok(()),
            Part::Certificate => self.take_certificate(&endpoint),
            Part::Trust => take_trust(&endpoint),
            Part::Clients => match &endpoint.door {
                Some(door) => door
                    .look(SystemTime::now())
                    .map_err(|error| weir_auth::error_chain(&error)),
                None => Ok(()),
            },
        }
    }
}

/// The files of a configuration that others renew.
fn files(config: &StorageConfig) -> Vec<(Part, Vec<PathBuf>)> {
    vec![
        (Part::Certificate, config.tls.iter().flat_map(TlsFiles::files).collect()),
        (Part::Trust, config.trust.files()),
        (Part::Clients, config.x509.iter().flat_map(DoorConfig::files).collect()),
    ]
}

impl EndpointState {
    pub(crate) fn new(endpoint: Arc<Endpoint>, tls: ServerTls) -> Self {
        let reloads = endpoint.metrics.reloads.clone();
        reloads.have_read(look_at(files(&endpoint.config)));
        Self {
            current: endpoint.into(),
            tls,
            reloads,
        }
    }

    /// See [`crate::Running::reload`].
    pub(crate) async fn reload(
        self: &Arc<Self>,
        config: StorageConfig,
        server: &RunningServer,
        reapers: &Reapers,
    ) -> Result<Vec<String>, StartError> {
        let _turn = self.reloads.turn().await;
        let outcome = self.exchange(config, server, reapers).await;
        self.reloads.took(&outcome);
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
                let files = look_at(files(&config));
                let parts = Parts::make(&config, &before.url, &before.metrics, Some(&before))?;
                Ok::<_, StartError>((files, parts, open_log(&config)?))
            })
        };
        let (files, parts, log) = made.await?;
        server
            .tune(&config.sockets.settings())
            .map_err(StartError::listen(server.address()))?;
        // From here on nothing can fail.
        self.reloads.have_read(files);
        before.log.redirect(log).await;
        before.admission.adjust(&config.limits, &config.shares);
        server.adjust(limits(&config));
        reapers.adjust(config.limits.removal_rate.0);
        self.reloads.shows_certificate(parts.certificate);
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

    fn take_certificate(&self, endpoint: &Endpoint) -> Result<(), String> {
        let (tls, end) =
            server_tls(&endpoint.config, endpoint.door.as_deref()).map_err(|error| weir_auth::error_chain(&error))?;
        self.tls.renew(&tls);
        self.reloads.shows_certificate(end);
        endpoint.standing.forget();
        Ok(())
    }
}

fn take_trust(endpoint: &Endpoint) -> Result<(), String> {
    let roots = endpoint.config.trust.roots();
    let lists = endpoint.revocations.refresh(SystemTime::now());
    lists.map_err(|error| weir_auth::error_chain(&error))?;
    // Earlier connections are not reused, so that no revoked peer stays connected.
    let mut both = [&endpoint.client, &endpoint.issuers_client].into_iter();
    both.try_for_each(|client| client.renew(&roots))
        .map_err(|error| weir_auth::error_chain(&error))
}

/// The state that the next endpoint takes over.
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
