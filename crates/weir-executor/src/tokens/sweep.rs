//! The sweep: exchanges tokens of waiting transfers in time, in the order of their expiry, few at a time, and only if a
//! transfer still needs them.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{TokenRefresher, Trouble};
use weir_service::time;

use crate::orders::Due;

/// Between two looks when nothing is due.
const INTERVAL: Duration = Duration::from_secs(10);

/// Tokens of one look.
const LOOK: usize = 256;

/// Requests at once: less than an issuer may have, so that transfers that are about to start come through.
const AT_ONCE: usize = 4;

impl TokenRefresher {
    /// Never ends. One node of several is enough: `is_ours` says whether it is this one.
    pub async fn sweep(self: Arc<Self>, is_ours: impl Fn() -> bool) {
        loop {
            tokio::time::sleep(INTERVAL.min(self.config.exchange_ahead / 4)).await;
            if is_ours() {
                self.look().await;
            }
        }
    }

    /// Goes once through all due tokens. It skips the tokens of an issuer with an open breaker.
    pub(super) async fn look(self: &Arc<Self>) {
        let mut passed = 0;
        // Without any issuer to ask, nothing is read.
        while self.asks_somebody() {
            let due = self
                .read(move |store| store.due_renewals(time::latest(), passed, LOOK))
                .await;
            let due = match due {
                Ok(due) => due,
                Err(Trouble::Waits(why) | Trouble::Refused(why, _)) => {
                    tracing::warn!(why, "could not look for tokens that expire; trying again");
                    return;
                }
            };
            if due.is_empty() {
                return;
            }
            let left = futures_util::stream::iter(due)
                .map(|due| self.exchange_ahead(due))
                .buffer_unordered(AT_ONCE);
            passed += left.filter(|left| std::future::ready(*left)).count().await;
            // Exchanged tokens are not due any more, once that is written.
            self.outbox.written().await;
        }
    }

    /// Whether there is an issuer that is asked.
    fn asks_somebody(&self) -> bool {
        let trusted = self.trusted.get();
        trusted.issuers.values().any(|issuer| issuer.shut().is_none())
    }

    /// Whether it is still due.
    async fn exchange_ahead(self: &Arc<Self>, due: Due) -> bool {
        let Some(token) = due.token else {
            let token = due.hash.short();
            tracing::error!(
                token,
                "a token was sealed with another key and will expire; its transfers will fail"
            );
            self.outbox.put(due.hash, None);
            return false;
        };
        let Some((issuer, claims)) = self.issuer_of(&token).filter(|_| due.needed) else {
            self.outbox.put(due.hash, None);
            return false;
        };
        if issuer.shut().is_some() {
            return true;
        }
        let flight = self.join(&issuer, claims, &token, due.hash);
        matches!(flight.await, Ok(Err(Trouble::Waits(_))) | Err(_))
    }
}
