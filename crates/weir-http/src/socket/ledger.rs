//! TCP totals of all connections of a door, or of a client: open and closed ones.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    ops::AddAssign,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{SocketWatch, TcpFigures};

/// Groups of connections that are kept apart; the connections of more peers are one group, so that a scan cannot fill the memory.
const GROUPS_MAX: usize = 1024;

/// Counts the connections of a door or client. Clones mean the same ones.
#[derive(Clone, Default)]
pub struct TcpLedger(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    next: u64,
    open: HashMap<u64, (IpAddr, SocketWatch)>,
    ended: BTreeMap<TcpGroup, TcpTotals>,
}

/// The connections that are added up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TcpGroup {
    /// The address of the other side; `None` for those of all peers beyond the first thousand.
    pub peer: Option<IpAddr>,
    /// Their congestion control.
    pub congestion: String,
}

/// Sums over the connections of a group.
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

impl AddAssign<&Self> for TcpTotals {
    fn add_assign(&mut self, other: &Self) {
        self.open += other.open;
        self.window += other.window;
        self.round_trip += other.round_trip;
        self.pacing_rate = self.pacing_rate.saturating_add(other.pacing_rate);
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.received += other.received;
        self.retransmits += other.retransmits;
        self.busy += other.busy;
        self.held_by_peer += other.held_by_peer;
        self.held_by_buffer += other.held_by_buffer;
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
        // Under the lock: between here and there it would be counted nowhere, and a sum would fall.
        let Some((peer, watch)) = books.open.remove(&self.number) else {
            return;
        };
        if let Some(figures) = watch.figures() {
            of_group(&mut books.ended, peer, &figures).add(&figures);
        }
    }
}

/// The totals of the group of a connection.
fn of_group<'t>(
    totals: &'t mut BTreeMap<TcpGroup, TcpTotals>,
    peer: IpAddr,
    figures: &TcpFigures,
) -> &'t mut TcpTotals {
    let mut group = TcpGroup {
        peer: Some(peer),
        congestion: figures.congestion.clone(),
    };
    if totals.len() >= GROUPS_MAX && !totals.contains_key(&group) {
        group.peer = None;
    }
    totals.entry(group).or_default()
}

impl TcpLedger {
    /// Counts a connection until the returned guard is dropped, which must be before the connection is closed.
    pub(crate) fn enter(&self, peer: IpAddr, watch: SocketWatch) -> Entry {
        let mut books = self.0.lock();
        books.next += 1;
        let number = books.next;
        books.open.insert(number, (peer.to_canonical(), watch));
        Entry {
            ledger: self.clone(),
            number,
        }
    }

    /// The current totals: two system calls for each open connection, 10 ms for 4,096.
    pub fn totals(&self) -> BTreeMap<TcpGroup, TcpTotals> {
        let books = self.0.lock();
        let mut totals = books.ended.clone();
        let open = books.open.values();
        for (peer, figures) in open.filter_map(|(peer, watch)| Some((*peer, watch.figures()?))) {
            of_group(&mut totals, peer, &figures).add_open(&figures);
        }
        totals
    }
}

impl std::fmt::Debug for TcpLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TcpLedger")
    }
}
