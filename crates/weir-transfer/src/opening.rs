//! The parts that a service needs before it opens its door, made from its configuration.

use std::sync::Arc;

use uuid::Uuid;
use weir_auth::x509::X509Error;
use weir_events::SinkError;
use weir_executor::{ExecutorSettings, Rules};
use weir_http::{AddressFilter, Client, ClientConfig, TlsError};
use weir_sched::Config;
use weir_store::postgres::Node;

use crate::{
    config::TransferConfig,
    descriptors::Descriptors,
    events::Events,
    store::{Sealer, Store, StoreError, confirm_key, postgres::PostgresStore, sqlite::SqliteStore},
};

/// The reason why a service does not start.
pub type StartError = weir_service::StartError<OpenError>;

/// A part of a service that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directories of authorities cannot be read.
    #[error("trust.directories")]
    Trust(#[source] X509Error),
    /// The store cannot be used.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// The events cannot be sent.
    #[error("the events cannot be sent")]
    Events(#[from] SinkError),
}

impl weir_service::OwnError for OpenError {}

/// This node as others shall see it.
pub(crate) fn node(config: &TransferConfig, url: &str) -> Node {
    let role = config
        .postgres
        .as_ref()
        .map(|postgres| postgres.role)
        .unwrap_or_default();
    let slots = if role.copies() {
        u32::try_from(executor_settings(config).concurrency).unwrap_or(u32::MAX)
    } else {
        0
    };
    Node {
        id: Uuid::new_v4(),
        url: url.to_owned(),
        role: role.as_str().to_owned(),
        slots,
        epoch: 0,
    }
}

/// A store, and the same store as shared with other nodes.
type OpenedStore = (Arc<dyn Store>, Option<Arc<PostgresStore>>);

pub(crate) async fn open(config: &TransferConfig) -> Result<OpenedStore, StoreError> {
    let config = config.clone();
    let opened = tokio::task::spawn_blocking(move || -> Result<OpenedStore, StoreError> {
        if let Some(postgres) = &config.postgres {
            let trust = postgres.trust(config.trust.roots());
            // The configuration was checked: with PostgreSQL there is one.
            let key = config.key_file.clone().unwrap_or_default();
            let (sealer, fresh) = Sealer::from_file(&key)?;
            let store = Arc::new(PostgresStore::open(postgres, &trust, sealer)?);
            if let Some(fresh) = fresh {
                fresh.keep(store.holds_sealed()?)?;
            }
            confirm_key(store.as_ref(), &key)?;
            return Ok((store.clone(), Some(store)));
        }
        // The configuration was checked: there is one or the other.
        let path = config.store.clone().unwrap_or_default();
        let key = config.key_file.clone().unwrap_or_else(|| path.with_extension("key"));
        let (sealer, fresh) = Sealer::from_file(&key)?;
        let store = SqliteStore::open(&path, sealer)?;
        if let Some(fresh) = fresh {
            fresh.keep(store.holds_sealed()?)?;
        }
        confirm_key(&store, &key)?;
        let store: Arc<dyn Store> = Arc::new(store);
        Ok((store, None))
    });
    opened
        .await
        .unwrap_or_else(|error| Err(StoreError::Broken(error.into())))
}

pub(crate) fn events(
    config: &TransferConfig,
    host: &str,
    store: &Arc<dyn Store>,
    client: &Client,
) -> Result<Events, SinkError> {
    let Some(events) = &config.events else {
        return Ok(Events::default());
    };
    let ours = (host.to_owned(), config.retry.retries);
    Events::start(events, ours, store.clone(), client, &config.trust.roots())
}

pub(crate) fn client(config: &TransferConfig) -> Result<Client, TlsError> {
    let mut client = ClientConfig::new(config.trust.roots());
    client.connect_timeout = config.copy.connect_timeout;
    client.response_timeout = config.copy.response_timeout;
    client.connections = Some(Descriptors::of_this_process(config.limits.connections).connections);
    Client::new(client)
}

/// The client for URLs of users: it connects only to allowed addresses.
pub(crate) fn for_users(client: &Client, config: &TransferConfig) -> Client {
    client.within(AddressFilter::allowing(&config.copy.allow).refusing_own())
}

/// The configuration of issuers, for the renewal of tokens.
pub(crate) fn rules(config: &TransferConfig) -> Rules<'_> {
    Rules {
        issuers: &config.issuers,
        brokers: &config.brokers,
        tokens: &config.tokens,
    }
}

pub(crate) fn core_config(config: &TransferConfig, epoch: u64) -> Config {
    Config {
        epoch,
        settings: weir_sched::Settings {
            link: config.limits.link,
            inbound: config.limits.inbound,
            outbound: config.limits.outbound,
            ..weir_sched::Settings::default()
        },
        retry: config.retry.policy(config.tokens.issuer_pause, epoch),
        transfers_max: config.limits.queue,
        ..Config::default()
    }
}

pub(crate) fn executor_settings(config: &TransferConfig) -> ExecutorSettings {
    let descriptors = Descriptors::of_this_process(config.limits.connections);
    let concurrency = config.limits.active.unwrap_or(descriptors.attempts);
    ExecutorSettings::new(&config.copy, concurrency, descriptors.relays)
}

pub(crate) fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default().to_owned()
}
