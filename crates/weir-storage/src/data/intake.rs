//! The memory of an incoming stream, and its use.

use std::sync::Arc;

use tokio::runtime::Handle;
use weir_http::Buffers;

use super::BATCH;
use crate::{
    area::Area,
    memory::{Incoming, Lease, Moving},
};

/// Bytes gathered where they are written at once: they are still in the core's own cache then, and fewer would be more visits.
const AT_ONCE: usize = 128 << 10;

/// Decides how much is gathered before it is written.
pub(crate) struct Intake {
    lease: Arc<Lease>,
    /// The connection's buffers; `None` if the bytes come from a file.
    connection: Option<Buffers>,
    durable: bool,
    /// Whether to write is to wait for nothing.
    never_waits: bool,
    moving: Moving,
    /// Cores that streams have between them.
    cores: usize,
    /// The best portion that it wants, by its place.
    best: usize,
    now: Incoming,
}

impl Intake {
    /// For a stream into an area. It begins with the least: most files are small.
    pub(crate) fn new(lease: Arc<Lease>, area: &Area) -> Self {
        Self {
            moving: lease.moves(),
            lease,
            connection: None,
            durable: area.durable,
            never_waits: area.backend.never_waits(),
            cores: Handle::current().metrics().num_workers(),
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

    /// The lease, which the writer of a batch holds until the write is done.
    pub(super) fn lease(&self) -> Arc<Lease> {
        self.lease.clone()
    }

    /// Bytes that are gathered before they are written.
    pub(crate) fn batch(&self) -> usize {
        self.now.batch
    }

    /// Whether so many bytes are to be written now: the batch is full, or a transfer waits for memory that this one has
    /// beyond its floor.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        bytes >= self.now.batch
            || (bytes >= AT_ONCE && self.is_at_once())
            || (bytes >= Incoming::LEAST.batch && self.lease.is_pressed())
    }

    /// Whether the receiving thread should also write. Another thread gains time where a core is idle. Where each core
    /// has a stream of its own, the switch costs more than a small batch, and caches are cold there.
    pub(super) fn is_at_once(&self) -> bool {
        self.never_waits && self.moving.all() >= self.cores
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
