//! The clients and grants of an issuer's configuration; exchanged as a whole when it is reloaded.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use weir_service::config::Invalid;

use crate::{
    config::IssuerConfig,
    exchange::Refresher,
    grant::{Allowance, KnownClient, authenticate},
    keys::Times,
    request::{Credentials, Refusal},
};

#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) config: IssuerConfig,
    pub(crate) clients: Vec<KnownClient>,
    /// One for each client, in their order.
    allowances: Vec<Arc<Mutex<Allowance>>>,
    pub(crate) refresher: Refresher,
    /// The longest life of a token that may be out: an earlier configuration may have granted more.
    longest: Duration,
}

impl Offer {
    /// The first one of an issuer.
    ///
    /// # Errors
    /// A client's secret cannot be read, or is too short.
    pub(crate) fn new(config: IssuerConfig, refresh_key: &[u8]) -> Result<Self, Invalid> {
        let refresher = Refresher::new(refresh_key, config.refresh_lifetime);
        let now = Instant::now();
        let allowance = || Arc::new(Mutex::new(Allowance::new(config.tokens_per_second, now)));
        Ok(Self {
            clients: known(&config)?,
            allowances: config.clients.iter().map(|_| allowance()).collect(),
            longest: config.token_lifetime,
            refresher,
            config,
        })
    }

    /// The next one. Clients that stay have no more tokens left than they had.
    ///
    /// # Errors
    /// A client's secret cannot be read, or is too short.
    pub(crate) fn succeeded_by(&self, config: IssuerConfig) -> Result<Self, Invalid> {
        let (now, rate) = (Instant::now(), config.tokens_per_second);
        let same_rate = rate == self.config.tokens_per_second;
        let before = |id: &str| {
            self.place(id)
                .filter(|_| same_rate)
                .map(|place| &self.allowances[place])
        };
        let allowance = |id: &str| match before(id) {
            Some(allowance) => allowance.clone(),
            None => Arc::new(Mutex::new(Allowance::new(rate, now))),
        };
        Ok(Self {
            clients: known(&config)?,
            allowances: config.clients.iter().map(|client| allowance(&client.id)).collect(),
            longest: self.longest.max(config.token_lifetime),
            refresher: self.refresher.lasting(config.refresh_lifetime),
            config,
        })
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.clients.iter().position(|known| known.id == id)
    }

    /// The client that the credentials belong to, which has one token less left now.
    pub(crate) fn admit(&self, credentials: &[Credentials]) -> Result<&KnownClient, Refusal> {
        let client = authenticate(&self.clients, credentials)?;
        if let Some(place) = self.place(&client.id) {
            let mut allowance = self.allowances[place].lock();
            allowance.take(Instant::now())?;
        }
        Ok(client)
    }

    /// When keys are turned, and how long they are needed then.
    pub(crate) fn times(&self) -> Times {
        Times {
            rotation: self.config.rotation,
            lifetime: self.longest,
        }
    }
}

fn known(config: &IssuerConfig) -> Result<Vec<KnownClient>, Invalid> {
    let clients = config.clients.iter().enumerate();
    clients.map(|(place, client)| KnownClient::new(client, place)).collect()
}

/// The configuration to serve from now on, and a sentence for each key of the new one that needs a restart.
pub(crate) fn settle(now: &IssuerConfig, new: &IssuerConfig) -> (IssuerConfig, Vec<String>) {
    let settled = IssuerConfig {
        listen: now.listen,
        url: now.url.clone(),
        key_directory: now.key_directory.clone(),
        ..new.clone()
    };
    let waiting = weir_service::config::waiting(&settled, new);
    (settled, waiting)
}
