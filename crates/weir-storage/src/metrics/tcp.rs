//! TCP figures of the endpoint's connections, by the opening side and by congestion control; figures of what holds a path back are by peer too.

use std::{collections::BTreeMap, sync::OnceLock};

use weir_http::{TcpGroup, TcpLedger, TcpTotals};
use weir_service::metrics::{
    Kind::{self, Counter, Gauge},
    Page, Value,
};

/// The connections of clients, and those to the other sides of copies.
#[derive(Default)]
pub(crate) struct Tcp {
    clients: OnceLock<TcpLedger>,
    copies: TcpLedger,
}

/// A number that is shown of a group of connections.
struct Shown {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&TcpTotals) -> Value,
}

/// Shown for each peer.
const BY_PEER: [Shown; 7] = [
    Shown {
        name: "weir_storage_tcp_connections",
        kind: Gauge,
        help: "open connections",
        value: |tcp| tcp.open.into(),
    },
    Shown {
        name: "weir_storage_tcp_window_bytes",
        kind: Gauge,
        help: "congestion windows of the open connections, added up",
        value: |tcp| tcp.window.into(),
    },
    Shown {
        name: "weir_storage_tcp_round_trip_seconds",
        kind: Gauge,
        help: "smoothed round trips of the open connections, added up",
        value: |tcp| tcp.round_trip.as_secs_f64().into(),
    },
    Shown {
        name: "weir_storage_tcp_retransmits_total",
        kind: Counter,
        help: "segments sent again",
        value: |tcp| tcp.retransmits.into(),
    },
    Shown {
        name: "weir_storage_tcp_busy_seconds_total",
        kind: Counter,
        help: "time in which there was something to send",
        value: |tcp| tcp.busy.as_secs_f64().into(),
    },
    Shown {
        name: "weir_storage_tcp_held_by_peer_seconds_total",
        kind: Counter,
        help: "of that, time in which the other side's window held it back",
        value: |tcp| tcp.held_by_peer.as_secs_f64().into(),
    },
    Shown {
        name: "weir_storage_tcp_held_by_buffer_seconds_total",
        kind: Counter,
        help: "of that, time in which the send buffer was too small for the path",
        value: |tcp| tcp.held_by_buffer.as_secs_f64().into(),
    },
];

/// Shown for all peers together: a page may have lines for a thousand of them.
const TOGETHER: [Shown; 4] = [
    Shown {
        name: "weir_storage_tcp_pacing_bytes",
        kind: Gauge,
        help: "bytes in a second at which packets of the open connections may leave, added up",
        value: |tcp| tcp.pacing_rate.into(),
    },
    Shown {
        name: "weir_storage_tcp_sent_bytes_total",
        kind: Counter,
        help: "bytes sent, headers of TLS and repeated ones included",
        value: |tcp| tcp.sent.into(),
    },
    Shown {
        name: "weir_storage_tcp_acknowledged_bytes_total",
        kind: Counter,
        help: "bytes that the other sides have acknowledged, headers of HTTP and TLS included",
        value: |tcp| tcp.acknowledged.into(),
    },
    Shown {
        name: "weir_storage_tcp_received_bytes_total",
        kind: Counter,
        help: "bytes received in order, headers of HTTP and TLS included",
        value: |tcp| tcp.received.into(),
    },
];

impl Tcp {
    /// From now on the door's connections are counted here.
    pub(crate) fn watch_clients(&self, ledger: TcpLedger) {
        let _ = self.clients.set(ledger);
    }

    /// Where connections to the other sides of copies are counted.
    pub(crate) fn copies(&self) -> TcpLedger {
        self.copies.clone()
    }

    pub(super) fn render(&self, page: &mut Page) {
        let clients = self.clients.get().map(TcpLedger::totals).unwrap_or_default();
        let sides = [("clients", clients), ("copies", self.copies.totals())];
        for shown in BY_PEER {
            page.family(shown.name, shown.kind, shown.help);
            for (side, totals) in &sides {
                for (TcpGroup { peer, congestion }, tcp) in totals {
                    let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
                    let labels = [("side", *side), ("congestion", congestion), ("peer", &peer)];
                    page.sample(&labels, (shown.value)(tcp));
                }
            }
        }
        let sides = sides.each_ref().map(|(side, totals)| (*side, by_congestion(totals)));
        for shown in TOGETHER {
            page.family(shown.name, shown.kind, shown.help);
            for (side, totals) in &sides {
                for (congestion, tcp) in totals {
                    page.sample(&[("side", *side), ("congestion", congestion)], (shown.value)(tcp));
                }
            }
        }
    }
}

fn by_congestion(totals: &BTreeMap<TcpGroup, TcpTotals>) -> BTreeMap<&str, TcpTotals> {
    let mut sums = BTreeMap::<&str, TcpTotals>::new();
    for (group, tcp) in totals {
        *sums.entry(&group.congestion).or_default() += tcp;
    }
    sums
}
