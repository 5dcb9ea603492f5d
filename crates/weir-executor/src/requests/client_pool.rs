//! The pool of clients by credential: tokens share one client, each delegated proxy has its own.
//!
//! A proxy's client has its own connections and TLS sessions. A renewed proxy gets new connections; transfers under way
//! keep the old one.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use weir_http::{Client, Identity};
use weir_world::{ErrorClass, Failure, Party, Phase};

use crate::requests::failure::Scene;
use weir_service::time;

use crate::{
    job::{TokenHash, hash_of},
    orders::{Kept, Order, Orders},
};

/// Proxies in use at once; beyond that the one that was unused longest is evicted.
const PROXIES_MAX: usize = 1000;

/// A proxy that was not used for so long has no connection left.
const REST_MAX: Duration = Duration::from_secs(120);

/// Clients by their proxies, with their last use.
#[derive(Default)]
struct ProxyClients {
    /// The trust state of the plain client when they were made.
    trust: u64,
    clients: HashMap<TokenHash, (Arc<Client>, Instant)>,
}

/// See the module.
pub(crate) struct ClientPool {
    token_client: Arc<Client>,
    proxies: Mutex<ProxyClients>,
}

impl ClientPool {
    pub(crate) fn new(token_client: Client) -> Self {
        Self {
            token_client: Arc::new(token_client),
            proxies: Mutex::default(),
        }
    }

    /// The client for an order.
    ///
    /// # Errors
    /// If the order is to go out with a proxy, and that is gone, over, or not to be read.
    pub(crate) fn for_order(&self, order: &Order) -> Result<Arc<Client>, Failure> {
        if !order.job.moves_by_proxy(&order.file) {
            return Ok(self.token_client());
        }
        self.for_proxy(order.proxy.as_ref())
    }

    fn for_proxy(&self, proxy: Option<&Kept>) -> Result<Arc<Client>, Failure> {
        match proxy {
            Some(proxy) if proxy.until > time::latest() => self.client_with_proxy(proxy),
            Some(_) => Err(missing("the proxy that the user delegated has expired")),
            None => Err(missing("the proxy that the user delegated is gone")),
        }
    }

    /// The client of requests with a token.
    pub(crate) fn token_client(&self) -> Arc<Client> {
        self.token_client.clone()
    }

    /// The client that shows this proxy.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn client_with_proxy(&self, proxy: &Kept) -> Result<Arc<Client>, Failure> {
        let hash = hash_of(proxy.secret.expose());
        let now = Instant::now();
        let mut proxies = self.proxies.lock();
        let trust = self.token_client.trust();
        if proxies.trust != trust {
            // Authorities have changed, or revoked a certificate: existing connections are not trusted any more.
            proxies.clients.clear();
            proxies.trust = trust;
        }
        let proxies = &mut proxies.clients;
        if let Some((client, used)) = proxies.get_mut(&hash) {
            *used = now;
            return Ok(client.clone());
        }
        let identity = Identity {
            chain_pem: proxy.secret.expose().to_owned(),
            key_pem: proxy.secret.expose().to_owned(),
        };
        let client = self.token_client.showing(&identity).map_err(|error| {
            let text = format!(
                "the proxy that the user delegated cannot be used: {}",
                weir_auth::error_chain(&error)
            );
            missing(&text)
        })?;
        let client = Arc::new(client);
        proxies.retain(|_, (_, used)| now.duration_since(*used) < REST_MAX);
        if proxies.len() >= PROXIES_MAX {
            let oldest = proxies.iter().min_by_key(|(_, (_, used))| *used).map(|(hash, _)| *hash);
            oldest.and_then(|hash| proxies.remove(&hash));
        }
        proxies.insert(hash, (client.clone(), now));
        Ok(client)
    }
}

/// The delegated proxies of users, looked up at each use: a transfer that waits for tape outlives a proxy, and
/// continues with the one delegated last.
pub(crate) struct Proxies {
    clients: Arc<ClientPool>,
    store: Arc<dyn Orders>,
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies").finish_non_exhaustive()
    }
}

impl Proxies {
    pub(crate) fn new(clients: Arc<ClientPool>, store: Arc<dyn Orders>) -> Self {
        Self { clients, store }
    }

    /// The client that shows the proxy which is kept under this name now.
    ///
    /// # Errors
    /// If it is gone, over, or not to be read.
    pub(crate) async fn client(&self, name: &str) -> Result<Arc<Client>, Failure> {
        let (store, name) = (self.store.clone(), name.to_owned());
        let read = tokio::task::spawn_blocking(move || store.kept(&name)).await;
        let proxy = match read {
            Ok(Ok(proxy)) => proxy,
            Ok(Err(error)) => return Err(crate::requests::failure::unreadable(&error)),
            Err(error) => return Err(crate::requests::failure::internal(&weir_auth::error_chain(&error))),
        };
        self.clients.for_proxy(proxy.as_ref())
    }
}

fn missing(text: &str) -> Failure {
    let scene = Scene::new(Party::TransferService, Phase::Preparation);
    let mut failure = scene.fail(ErrorClass::Token, text);
    failure.remedy = "delegate again (fts-rest-delegate), and submit again".into();
    failure
}
