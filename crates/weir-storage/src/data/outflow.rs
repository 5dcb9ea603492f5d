//! Limits of an outgoing stream: its memory, which bounds the size of reads and the bytes on their way to the
//! connection, and its bandwidth.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use weir_http::{Buffers, CarriedBy, SocketWaits};

use crate::{
    bandwidth::Throttle,
    memory::{Lease, Moving, Outgoing},
};
use weir_http::chronograph::{Chronograph, SocketUse, StateTimes, StreamState};

/// The connection that bytes leave by.
pub(crate) enum OutgoingConnection {
    /// A client's connection.
    Client(Buffers),
    /// Whichever connection the request is sent on.
    Request(CarriedBy),
}

impl OutgoingConnection {
    /// The waits for its socket, once it is known.
    fn socket_waits(&self) -> Option<SocketWaits> {
        match self {
            Self::Client(buffers) => Some(buffers.socket_waits().clone()),
            Self::Request(carried) => Some(carried.connection()?.buffers.socket_waits().clone()),
        }
    }
}

/// Decides the size of reads. A body asks before it reads; its bytes count until the connection has taken them.
pub(crate) struct Outflow {
    lease: Arc<Lease>,
    connection: OutgoingConnection,
    throttle: Throttle,
    now: Outgoing,
    flow: Arc<Flow>,
    clock: Chronograph,
    /// The state in which its body waits since the last mark; none while the connection has it.
    waits_for: Option<StreamState>,
    _moving: Moving,
}

/// Bytes read and not yet taken by the connection.
#[derive(Default)]
pub(crate) struct Flow {
    bytes: AtomicUsize,
    taken: AtomicWaker,
}

/// Bytes that are under way, until this is dropped.
pub(super) struct UnderWay {
    flow: Arc<Flow>,
    bytes: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.flow.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.flow.taken.wake();
    }
}

impl Outflow {
    /// Largest first block in bytes, read before anything is known of the connection: the least memory of a stream.
    pub(crate) const FIRST: usize = Outgoing::LEAST.under_way;

    /// Begins with the least: most files are small.
    pub(crate) fn new(lease: Arc<Lease>, connection: OutgoingConnection, throttle: Throttle) -> Self {
        let outflow = Self {
            _moving: lease.moves(),
            lease,
            connection,
            throttle,
            now: Outgoing::LEAST,
            flow: Arc::default(),
            clock: Chronograph::start(Arc::default()),
            waits_for: None,
        };
        outflow.bound();
        outflow
    }

    /// The states of its stream belong to this account from now on.
    #[must_use]
    pub(crate) fn accounts_to(mut self, times: Arc<StateTimes>) -> Self {
        self.clock = Chronograph::start(times);
        self
    }

    /// The body is asked for bytes again: accounts for the time since it last gave some, or could not.
    pub(super) fn mark(&mut self) {
        if !self.clock.has_socket()
            && let Some(waits) = self.connection.socket_waits()
        {
            self.clock.moves_on(waits, SocketUse::Writes);
        }
        match self.waits_for {
            Some(state) => self.clock.spent(state),
            None => self.clock.carried(),
        }
    }

    /// The first bytes are handed over.
    pub(super) fn begins(&mut self) {
        self.clock.begin();
    }

    /// The body waits for this from now on; none: the connection has its bytes.
    pub(super) fn waits_for(&mut self, state: Option<StreamState>) {
        self.waits_for = state;
    }

    /// The reason to wait for room: bytes on their way leave as the connection takes them, unless memory is asked back.
    pub(super) fn why_no_room(&self) -> Option<StreamState> {
        self.lease.is_above().then_some(StreamState::Permit)
    }

    /// Where its bytes are counted.
    pub(crate) fn flow(&self) -> &Arc<Flow> {
        &self.flow
    }

    /// Waits until more bytes may move.
    pub(super) fn poll_bandwidth(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.throttle.poll_ready(cx)
    }

    /// Bytes were handed over.
    pub(super) fn moved(&mut self, bytes: u64) {
        self.throttle.moved(bytes);
    }

    /// Bytes that the kernel is best given at once.
    pub(super) fn window(&self) -> u64 {
        self.throttle.piece()
    }

    /// Bytes to be read at once.
    pub(super) fn block(&self) -> usize {
        self.now.block
    }

    /// Whether so many bytes more may be under way.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let under_way = self.flow.under_way();
        under_way == 0 || under_way + bytes <= self.now.under_way
    }

    /// Waits until a block may be read. The wait does not depend on other transfers: bytes on their way leave as the
    /// connection takes them.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.may_read() {
            return Poll::Ready(());
        }
        self.flow.taken.register(cx.waker());
        // Some may have left before the waker was there.
        if self.may_read() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn may_read(&mut self) -> bool {
        let nothing = self.flow.under_way() == 0;
        if nothing {
            let place = self.lease.fit(&Outgoing::sizes());
            self.choose(place);
        } else if self.lease.is_above() {
            // All must have left before less is held.
            return false;
        } else {
            let place = self.lease.grow(Outgoing::sizes());
            self.choose(place);
        }
        self.has_room(self.now.block)
    }

    fn choose(&mut self, place: usize) {
        let before = std::mem::replace(&mut self.now, Outgoing::at(place));
        if self.now != before {
            self.bound();
        }
    }

    fn bound(&self) {
        match &self.connection {
            OutgoingConnection::Client(buffers) => buffers.bound(self.now.block),
            OutgoingConnection::Request(carried) => carried.bound(self.now.block),
        }
    }
}

impl Flow {
    fn under_way(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Counts bytes that are about to be read.
    pub(super) fn enter(self: &Arc<Self>, bytes: usize) -> UnderWay {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        UnderWay {
            flow: self.clone(),
            bytes,
        }
    }
}
