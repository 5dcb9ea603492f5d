//! The memory of a stream that comes in, and what it makes of it.

use std::sync::Arc;

use weir_http::Buffers;

use super::BATCH;
use crate::memory::{Incoming, Lease};

/// Decides how much is gathered before it is written.
pub(crate) struct Intake {
    lease: Arc<Lease>,
    /// What the bytes come by; none where they come from a file.
    connection: Option<Buffers>,
    durable: bool,
    /// The best portion that it wants, by its place.
    best: usize,
    now: Incoming,
}

impl Intake {
    /// For a stream into an area that is durable or not. It begins with the least: most files are small.
    pub(crate) fn new(lease: Arc<Lease>, durable: bool) -> Self {
        Self {
            lease,
            connection: None,
            durable,
            best: Incoming::first_within(BATCH),
            now: Incoming::LEAST,
        }
    }

    /// Its batches have at most so many bytes.
    #[must_use]
    pub(crate) fn within(mut self, batch: usize) -> Self {
        self.best = Incoming::first_within(batch);
        self
    }

    /// From now on the bytes come by this connection.
    pub(crate) fn comes_by(&mut self, connection: Option<Buffers>) {
        self.connection = connection;
        self.bound();
    }

    fn bound(&self) {
        if let Some(connection) = &self.connection {
            connection.bound(self.now.connection());
        }
    }

    /// The lease, which whoever writes a batch holds on to until that is done.
    pub(super) fn lease(&self) -> Arc<Lease> {
        self.lease.clone()
    }

    /// Bytes that are gathered before they are written.
    pub(crate) fn batch(&self) -> usize {
        self.now.batch
    }

    /// Whether so many bytes are to be written now: a batch is full, or somebody waits for memory that this has beyond its floor.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        bytes >= self.now.batch || (bytes >= Incoming::LEAST.batch && self.lease.is_pressed())
    }

    /// Whether the next batch may fill while this one is written.
    pub(super) fn goes_on(&self) -> bool {
        self.now.ahead && !self.lease.is_above()
    }

    /// Chooses anew how much is gathered. Nothing may be waiting or being written.
    pub(super) fn fit(&mut self) {
        let place = self.lease.fit(&self.sizes());
        self.choose(place);
    }

    /// The same while a batch is being written: perhaps more, and never less.
    pub(super) fn grow(&mut self) {
        let place = self.lease.grow(self.sizes());
        self.choose(place);
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        Incoming::sizes(self.durable).skip(self.best)
    }

    fn choose(&mut self, place: usize) {
        let before = std::mem::replace(&mut self.now, Incoming::at(self.best + place));
        if self.now != before {
            self.bound();
        }
    }
}
