//! How much is done at one time.
//!
//! A place is given back when it is dropped.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::{config::Limits, refusal::Refusal};

/// The places of an endpoint.
pub(crate) struct Admission {
    limits: Limits,
    transfers: Arc<Semaphore>,
    copies: Semaphore,
    listings: Arc<Semaphore>,
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            transfers: Arc::new(Semaphore::new(limits.transfers)),
            copies: Semaphore::new(limits.copies),
            listings: Arc::new(Semaphore::new(limits.listings)),
            limits: limits.clone(),
        }
    }

    /// For a GET or PUT that moves data.
    ///
    /// # Errors
    /// All are taken.
    pub(crate) fn transfer(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.transfers.clone().try_acquire_owned().map_err(|_| {
            Refusal::busy(format!(
                "{} transfers are under way, as many as this endpoint takes",
                self.limits.transfers
            ))
        })
    }

    /// For a directory that is listed, until the client has it.
    ///
    /// # Errors
    /// All are taken.
    pub(crate) fn listing(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.listings.clone().try_acquire_owned().map_err(|_| {
            Refusal::busy(format!(
                "{} directories are being listed, as many as this endpoint takes",
                self.limits.listings
            ))
        })
    }

    /// Whether one more third-party copy may wait for its turn, so many waiting already.
    ///
    /// # Errors
    /// It would wait too long.
    pub(crate) fn check_queue(&self, queued: i64) -> Result<(), Refusal> {
        let limit = self.limits.copies_queued;
        if queued >= limit as i64 && self.copies.available_permits() == 0 {
            return Err(Refusal::busy(format!(
                "{limit} third-party copies are waiting, as many as this endpoint queues"
            )));
        }
        Ok(())
    }

    /// The turn of a third-party copy; in the order in which they came.
    pub(crate) async fn copy(&self) -> SemaphorePermit<'_> {
        let turn = self.copies.acquire().await;
        turn.expect("the copies' semaphore is never closed")
    }
}
