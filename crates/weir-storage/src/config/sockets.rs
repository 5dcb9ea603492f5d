//! How the kernel is to run connections: the `[sockets]` tables.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use weir_http::SocketSettings;
use weir_units::Bytes;

use super::{Invalid, wrong};

/// Settings of TCP connections. A setting that is left out keeps the system's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sockets {
    /// Congestion control by the kernel's name, such as `bbr` or `cubic`.
    pub congestion: Option<String>,
    /// The highest rate of each connection, a second: packets leave evenly spaced instead of in bursts.
    pub pacing: Option<Bytes>,
    /// Receive buffer of each connection, which bounds the window that it offers. One stream over a long way moves no more than
    /// window / round trip. Without it the kernel sizes the buffer, up to `net.ipv4.tcp_rmem`.
    pub receive_buffer: Option<Bytes>,
    /// Send buffer of each connection, alike (`net.ipv4.tcp_wmem`).
    pub send_buffer: Option<Bytes>,
}

impl Sockets {
    /// As the wire wants them.
    pub(crate) fn settings(&self) -> SocketSettings {
        let size = |bytes: Option<Bytes>| bytes.map(|bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX));
        SocketSettings {
            congestion: self.congestion.clone(),
            pacing: self.pacing.and_then(|rate| NonZeroU64::new(rate.0)),
            receive_buffer: size(self.receive_buffer),
            send_buffer: size(self.send_buffer),
        }
    }

    /// Asks the kernel, which alone knows its modules and limits.
    pub(super) fn check(&self, key: &str) -> Result<(), Invalid> {
        self.settings()
            .check()
            .map_err(|error| wrong(key.to_owned(), error.to_string(), "correct it, or leave it out"))
    }
}
