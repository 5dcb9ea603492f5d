//! The `[limits]` table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::Bytes;

use super::{ConfigError, wrong};

/// What the endpoint puts up with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections; more wait in the kernel's backlog.
    pub connections: usize,
    /// GETs and PUTs that move data at one time; more are answered 503 with `Retry-After`.
    /// 1000 × (2 × 512 KiB read ahead, or 2 × 1 MiB waiting to be written) ≤ 2 GiB.
    pub transfers: usize,
    /// Third-party copies that move data at one time.
    pub copies: usize,
    /// Third-party copies that wait for their turn, kept alive by markers; more are answered 503.
    pub copies_queued: usize,
    /// Files read at one time because somebody asks for a checksum that is not stored.
    pub checksum_readers: usize,
    /// Limit for a request's head, and for an idle connection.
    #[serde(with = "weir_units::duration")]
    pub head_timeout: Duration,
    /// The longest silence of a client in the middle of a body.
    #[serde(with = "weir_units::duration")]
    pub idle_timeout: Duration,
    /// A PUT whose client sends less than `pace_bytes` in this time is given up.
    #[serde(with = "weir_units::duration")]
    pub pace_timeout: Duration,
    /// 600 kB in 60 s is 10 kB/s, as for third-party copies.
    pub pace_bytes: Bytes,
    /// Directories listed at one time; more are answered 503. 200 × 256 kB of text = 50 MB.
    pub listings: usize,
    /// How long transfers in hand may go on when the endpoint is told to stop.
    #[serde(with = "weir_units::duration")]
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            transfers: 1000,
            copies: 200,
            copies_queued: 2000,
            checksum_readers: 4,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            pace_timeout: Duration::from_secs(60),
            pace_bytes: Bytes(600_000),
            listings: 200,
            grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let counts = [
            ("limits.connections", self.connections),
            ("limits.transfers", self.transfers),
            ("limits.copies", self.copies),
            ("limits.listings", self.listings),
            ("limits.checksum_readers", self.checksum_readers),
        ];
        let nothing = counts.into_iter().find(|(_, count)| *count == 0);
        nothing.map_or(Ok(()), |(key, _)| {
            Err(wrong(key.into(), "0 lets nothing through".into(), "set at least 1"))
        })
    }
}
