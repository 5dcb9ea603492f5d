//! TCP totals of all connections of a door, or of a client: open and closed ones.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{SocketWatch, TcpFigures};

/// Counts the connections of a door or client. Clones mean the same ones.
#[derive(Clone, Default)]
pub struct TcpLedger(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    next: u64,
    open: HashMap<u64, SocketWatch>,
    /// By congestion control.
    ended: BTreeMap<String, TcpTotals>,
}

/// Sums over the connections of one congestion control.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpTotals {
    /// Connections that are open now.
    pub open: u64,
    /// Their congestion windows, bytes.
    pub window: u64,
    /// Their smoothed round trips.
    pub round_trip: Duration,
    /// The rates at which their packets may leave, bytes per second. The kernel has one for each connection, and keeps it where it
    /// is told to, or BBR or `fq` have it do so.
    pub pacing_rate: u64,
    /// Bytes sent since the start, retransmitted ones included; like all following totals, closed connections count
    /// too.
    pub sent: u64,
    /// Bytes that the other sides have acknowledged.
    pub acknowledged: u64,
    /// Bytes that came in order.
    pub received: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// How long there was something to send.
    pub busy: Duration,
    /// How much of that the other side's window held it back.
    pub held_by_peer: Duration,
    /// How much of it our own send buffer was too small for the path.
    pub held_by_buffer: Duration,
}

impl TcpTotals {
    fn add_open(&mut self, figures: &TcpFigures) {
        self.open += 1;
        self.window += figures.window;
        self.round_trip += figures.round_trip;
        self.pacing_rate = self.pacing_rate.saturating_add(figures.pacing_rate.unwrap_or(0));
        self.add(figures);
    }

    fn add(&mut self, figures: &TcpFigures) {
        self.sent += figures.sent;
        self.acknowledged += figures.acknowledged;
        self.received += figures.received;
        self.retransmits += u64::from(figures.retransmits);
        self.busy += figures.busy;
        self.held_by_peer += figures.held_by_peer;
        self.held_by_buffer += figures.held_by_buffer;
    }
}

/// A connection that is counted; dropped before it is closed.
pub(crate) struct Entry {
    ledger: TcpLedger,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut books = self.ledger.0.lock();
        let watch = books.open.remove(&self.number);
        // Under the lock: between here and there it would be counted nowhere, and a sum would fall.
        if let Some(figures) = watch.and_then(|watch| watch.figures()) {
            books.ended.entry(figures.congestion.clone()).or_default().add(&figures);
        }
    }
}

impl TcpLedger {
    /// Counts a connection until the returned guard is dropped, which must be before the connection is closed.
    pub(crate) fn enter(&self, watch: SocketWatch) -> Entry {
        let mut books = self.0.lock();
        books.next += 1;
        let number = books.next;
        books.open.insert(number, watch);
        Entry {
            ledger: self.clone(),
            number,
        }
    }

    /// The current totals, by congestion control: two system calls for each open connection, 10 ms for 4,096.
    pub fn totals(&self) -> BTreeMap<String, TcpTotals> {
        let books = self.0.lock();
        let mut totals = books.ended.clone();
        for figures in books.open.values().filter_map(SocketWatch::figures) {
            totals.entry(figures.congestion.clone()).or_default().add_open(&figures);
        }
        totals
    }
}

impl std::fmt::Debug for TcpLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TcpLedger")
    }
}
