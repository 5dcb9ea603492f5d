//! The data connections: their flow reports, and their TCP figures.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use parking_lot::Mutex;
use weir_http::{ConnectedTo, ConnectionInfo, SocketWatch, TcpFigures};
use weir_network::firefly::{Beacon, Flow, Marked, Tag, Usage};

use crate::metrics::Kind;

/// A connection that data moves on.
#[derive(Clone)]
pub(crate) struct Ends {
    local: SocketAddr,
    peer: SocketAddr,
    socket: SocketWatch,
}

impl From<&ConnectionInfo> for Ends {
    fn from(info: &ConnectionInfo) -> Self {
        Self {
            local: info.local,
            peer: info.peer,
            socket: info.socket.clone(),
        }
    }
}

impl From<&ConnectedTo> for Ends {
    fn from(to: &ConnectedTo) -> Self {
        Self {
            local: to.local,
            peer: to.peer,
            socket: to.socket.clone(),
        }
    }
}

/// Reports the flows of a request's connections: owner and purpose, if the request names them.
#[derive(Clone)]
pub(crate) struct FlowMarker {
    pub(crate) beacon: Beacon,
    pub(crate) tag: Option<Tag>,
    pub(crate) kind: Kind,
}

impl FlowMarker {
    /// Reports a flow until the returned guard is dropped. The first `before` bytes of `moved` came over another
    /// connection.
    pub(crate) fn mark(&self, ends: &Ends, moved: &Arc<AtomicU64>, before: u64) -> Option<Marked> {
        let flow = Flow {
            local: ends.local,
            peer: ends.peer,
            tag: self.tag?,
            application: format!("weir-{}", self.kind.as_str()),
            start: SystemTime::now().into(),
        };
        let (moved, receives) = (moved.clone(), self.kind.receives());
        let usage = move || {
            let moved = moved.load(Ordering::Relaxed).saturating_sub(before);
            if receives {
                Usage {
                    received: moved,
                    sent: 0,
                }
            } else {
                Usage {
                    received: 0,
                    sent: moved,
                }
            }
        };
        self.beacon.mark(flow, ends.socket.clone(), usage)
    }
}

/// The connection that a stream of a copy has now; after it breaks it gets another one.
#[derive(Default)]
pub(crate) struct StreamConnection(Mutex<Option<(Ends, Option<Marked>)>>);

impl StreamConnection {
    /// From now on it is this one.
    pub(crate) fn set(&self, to: Option<&ConnectedTo>) {
        *self.0.lock() = to.map(|to| (to.into(), None));
    }

    /// Tells networks that this stream's bytes move on it from now on.
    pub(crate) fn mark(&self, marker: &FlowMarker, moved: &Arc<AtomicU64>) {
        if let Some((ends, marked)) = &mut *self.0.lock() {
            *marked = marker.mark(ends, moved, moved.load(Ordering::Relaxed));
        }
    }

    /// The other end.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.0.lock().as_ref().map(|(ends, _)| ends.peer)
    }

    /// The TCP figures of the connection, as markers show them.
    pub(crate) fn shown(&self) -> Option<String> {
        let socket = self.0.lock().as_ref().map(|(ends, _)| ends.socket.clone());
        Some(shown(&socket?.figures()?))
    }
}

/// Formats the figures in the order in which one looks for a bottleneck.
fn shown(tcp: &TcpFigures) -> String {
    let mut text = format!(
        "{} rtt_ms={:.1} min_rtt_ms={:.1} window={} peer_window={} retransmits={}",
        tcp.congestion,
        tcp.round_trip.as_secs_f64() * 1e3,
        tcp.least_round_trip.as_secs_f64() * 1e3,
        tcp.window,
        tcp.peer_window,
        tcp.retransmits
    );
    if let Some(rate) = tcp.pacing_rate {
        let _ = write!(text, " pacing={rate}");
    }
    text
}
