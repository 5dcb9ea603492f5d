//! Counters of the issuer. `docs/metrics.md` defines each.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use weir_service::metrics::{Kind, Page};

use crate::{grant::KnownClient, request::Basis};

/// Grants, as metrics name them.
const GRANTS: [&str; 3] = ["client_credentials", "exchange", "refresh"];

/// Counters since the start.
#[derive(Debug)]
pub(crate) struct Figures {
    /// For each client, in their order, by [`GRANTS`].
    issued: Vec<[AtomicU64; GRANTS.len()]>,
    /// By the error that the client was told.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Figures {
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            issued: (0..clients).map(|_| Default::default()).collect(),
            refused: Mutex::default(),
        }
    }

    /// The client in this place was given a token.
    pub(crate) fn issued(&self, place: usize, basis: &Basis) {
        let grant = match basis {
            Basis::Client => 0,
            Basis::Exchange { .. } => 1,
            Basis::Refresh(_) => 2,
        };
        if let Some(counts) = self.issued.get(place) {
            counts[grant].fetch_add(1, Relaxed);
        }
    }

    /// A request was refused with this error of RFC 6749.
    pub(crate) fn refused(&self, error: &'static str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(error).or_default() += 1;
    }

    /// The page. `stuck`: the keys could not be turned.
    pub(crate) fn page(&self, clients: &[KnownClient], keys: usize, stuck: bool) -> String {
        let mut page = Page::default();
        page.family("weir_issuer_tokens_total", Kind::Counter, "access tokens issued");
        for (client, counts) in clients.iter().zip(&self.issued) {
            for (grant, count) in GRANTS.into_iter().zip(counts) {
                page.sample(&[("client", &client.id), ("grant", grant)], count.load(Relaxed));
            }
        }
        let help = "requests for tokens that were refused, by the error that the client was told";
        page.family("weir_issuer_refused_total", Kind::Counter, help);
        for (error, count) in self.refused.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            page.sample(&[("error", error)], *count);
        }
        page.single("weir_issuer_keys", Kind::Gauge, "signing keys that are published", keys);
        let help = "1 if the signing keys are turned as they should be";
        page.single("weir_issuer_keys_ok", Kind::Gauge, help, u32::from(!stuck));
        page.text()
    }
}
