//! Counters of the issuer. `docs/metrics.md` defines each.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weir_service::{
    metrics::{Kind, Page},
    reload::Reloads,
};

use crate::{grant::KnownClient, request::Basis};

/// Grants, as metrics name them.
const GRANTS: [&str; 3] = ["client_credentials", "exchange", "refresh"];

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// By client, in the order of [`GRANTS`].
    issued: Mutex<BTreeMap<String, [u64; GRANTS.len()]>>,
    /// By the error that the client was told.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Figures {
    /// Counts a token issued to this configured client.
    pub(crate) fn issued(&self, client: &str, basis: &Basis) {
        let grant = match basis {
            Basis::Client => 0,
            Basis::Exchange { .. } => 1,
            Basis::Refresh(_) => 2,
        };
        let mut issued = self.issued.lock();
        match issued.get_mut(client) {
            Some(counts) => counts[grant] += 1,
            None => issued.entry(client.to_owned()).or_default()[grant] += 1,
        }
    }

    /// A request was refused with this error of RFC 6749.
    pub(crate) fn refused(&self, error: &'static str) {
        *self.refused.lock().entry(error).or_default() += 1;
    }

    /// The page, with clients that have asked for nothing yet. `stuck`: the keys could not be turned.
    pub(crate) fn page(&self, clients: &[KnownClient], keys: usize, stuck: bool, reloads: &Reloads) -> String {
        let mut page = Page::default();
        page.family("weir_issuer_tokens_total", Kind::Counter, "access tokens issued");
        let mut issued = self.issued.lock().clone();
        for client in clients {
            issued.entry(client.id.clone()).or_default();
        }
        for (client, counts) in issued {
            for (grant, count) in GRANTS.into_iter().zip(counts) {
                page.sample(&[("client", &client), ("grant", grant)], count);
            }
        }
        let help = "refused requests for tokens, by the error in the answer";
        page.family("weir_issuer_refused_total", Kind::Counter, help);
        for (error, count) in self.refused.lock().iter() {
            page.sample(&[("error", error)], *count);
        }
        page.single("weir_issuer_keys", Kind::Gauge, "signing keys that are published", keys);
        let help = "1 if the signing keys are turned as they should be";
        page.single("weir_issuer_keys_ok", Kind::Gauge, help, u32::from(!stuck));
        reloads.show(&mut page, "issuer");
        page.text()
    }
}
