//! Performance markers: how a third-party copy tells its client that it lives (HTTP-TPC, as davix and FTS read it).
//!
//! The body of a COPY's answer is lines. A marker is a block from `Perf Marker` to `End`; the last line says `success` or
//! `failure`. An end of the body without that word is a failure.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use weir_auth::one_line;
use weir_world::Waits;

/// Interval between performance markers sent to the client of a third-party copy.
/// 5 s, as every other implementation has it: six markers fit into the shortest stall timeout in use (30 s).
pub const MARKER_INTERVAL: Duration = Duration::from_secs(5);

/// One marker: how far one stripe has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    /// Seconds since the epoch.
    pub timestamp: u64,
    /// The stripe, from 0.
    pub stripe: u32,
    /// Bytes written by this stripe: not read, not scheduled.
    pub bytes: u64,
    /// How many stripes there are.
    pub stripes: u32,
    /// The remote ends of the data connections; may be empty.
    pub remote: Vec<SocketAddr>,
    /// From the order to the first byte of data, in whole milliseconds; `None` before it. A line of Weir's own: other
    /// programs pass over it.
    pub first_byte: Option<Duration>,
    /// Time that the copy spent in each state until now; of the first stripe only. A line of Weir's own.
    pub waits: Option<Box<Waits>>,
    /// TCP figures of the data connection, for people. A line that other programs ignore.
    pub connection: Option<String>,
}

impl Marker {
    /// Appends the marker's lines.
    pub fn write(&self, text: &mut String) {
        let _ = write!(
            text,
            "Perf Marker\n    Timestamp: {}\n    Stripe Index: {}\n    Stripe Bytes Transferred: {}\n    Total Stripe Count: {}\n",
            self.timestamp, self.stripe, self.bytes, self.stripes
        );
        if !self.remote.is_empty() {
            let connections: Vec<String> = self.remote.iter().map(|address| format!("tcp:{address}")).collect();
            let _ = writeln!(text, "    RemoteConnections: {}", connections.join(","));
        }
        if let Some(after) = self.first_byte {
            let _ = writeln!(text, "    First Byte: {}", after.as_millis());
        }
        if let Some(waits) = &self.waits {
            let _ = writeln!(text, "    Waits: {waits}");
        }
        if let Some(connection) = &self.connection {
            let _ = writeln!(text, "    Connection: {}", one_line(connection));
        }
        text.push_str("End\n");
    }
}

/// The last word of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastWord {
    /// The copy is done; the text is for people.
    Success(String),
    /// It failed, and why, on one line.
    Failure(String),
}

impl LastWord {
    /// Appends the line; line ends inside the text become spaces, because a client reads the first line only.
    pub fn write(&self, text: &mut String) {
        let (word, reason) = match self {
            Self::Success(reason) => ("success", reason),
            Self::Failure(reason) => ("failure", reason),
        };
        let _ = writeln!(text, "{word}: {}", one_line(reason));
    }
}
