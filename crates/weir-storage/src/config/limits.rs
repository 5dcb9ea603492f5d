//! The `[limits]` table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{BitRate, Bytes};

use super::{Invalid, wrong};
use crate::memory::FLOOR;

/// Limits of the endpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections. For one more the connection that has been idle longest is closed; if none is, it waits in the kernel.
    pub connections: usize,
    /// Open connections of one client (an IPv4 address, or an IPv6 network of 64 bits); more are refused. Default: half of all.
    pub connections_per_client: Option<usize>,
    /// GETs and PUTs that move data at one time; more wait for `patience` and are then answered 503 with `Retry-After`.
    pub transfers: usize,
    /// Third-party copies that move data at one time.
    pub copies: usize,
    /// Copies per processor that start whatever the load. More start while the processors are idle, and one each second
    /// while they are busy: 32 keep a processor busy, and more only compete for memory.
    pub copies_per_core: usize,
    /// Memory for data in flight, of all transfers, copies and checksum readers together.
    ///
    /// Each stream has at least 160 KiB and at most 3.7 MiB, by the free memory. The streams of one client hold at most
    /// three times the free memory. A transfer without memory waits as for a slot. The default is for 614 streams of
    /// one client at one time, some 800 of several, or 28 at full speed. It keeps a process with 600 copies below 300
    /// MB.
    pub memory: Bytes,
    /// Bytes of files in a second, of all transfers and in both directions together; shared by the transfers with data
    /// to move. Default: no limit.
    pub bandwidth: Option<BitRate>,
    /// Third-party copies that wait for their turn, kept alive by markers; more are answered 503.
    pub copies_queued: usize,
    /// Files read at one time for checksums that are not stored.
    pub checksum_readers: usize,
    /// Limit for a request's head, and for an idle connection.
    #[serde(with = "weir_units::duration")]
    pub head_timeout: Duration,
    /// The longest silence of a client in the middle of a body.
    #[serde(with = "weir_units::duration")]
    pub idle_timeout: Duration,
    /// A PUT whose client sends less than `pace_bytes` in this time is aborted, and so is an answer of which the client
    /// reads less.
    #[serde(with = "weir_units::duration")]
    pub pace_timeout: Duration,
    /// 600 kB in 60 s is 10 kB/s, as for third-party copies.
    pub pace_bytes: Bytes,
    /// Directories of more than some 250 entries listed at one time; more wait for `patience` and are then answered 503.
    /// 200 × 256 kB of text = 50 MB.
    pub listings: usize,
    /// Bytes that deleted trees and large files give back in a second, in each area; a quarter of it while bytes move. 4 GB/s
    /// leaves a flash disk time for others, and frees a petabyte in three days.
    pub removal_rate: Bytes,
    /// How long a GET, PUT or long listing waits for a place before it is refused. 600 that come at once have their TLS
    /// handshakes and first blocks done in three seconds on two cores; clients wait a minute and more for an answer.
    #[serde(with = "weir_units::duration")]
    pub patience: Duration,
    /// How long transfers in hand may go on when the endpoint is told to stop.
    #[serde(with = "weir_units::duration")]
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_client: None,
            transfers: 1000,
            copies: 1000,
            copies_per_core: 32,
            memory: Bytes(128 << 20),
            bandwidth: None,
            copies_queued: 2000,
            checksum_readers: 4,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            pace_timeout: Duration::from_secs(60),
            pace_bytes: Bytes(600_000),
            listings: 200,
            removal_rate: Bytes(4_000_000_000),
            patience: Duration::from_secs(10),
            grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Connections that one client may have.
    pub(crate) fn per_client(&self) -> usize {
        self.connections_per_client.unwrap_or(self.connections / 2).max(1)
    }

    /// Copies that start whatever the load.
    pub(crate) fn copies_at_first(&self) -> usize {
        self.copies_per_core.saturating_mul(weir_http::cores())
    }

    pub(super) fn check(&self) -> Vec<Invalid> {
        let counts = [
            ("limits.connections", self.connections),
            ("limits.transfers", self.transfers),
            ("limits.copies", self.copies),
            ("limits.copies_per_core", self.copies_per_core),
            ("limits.listings", self.listings),
            ("limits.checksum_readers", self.checksum_readers),
        ];
        let nothing = |key: &str, remedy| wrong(key.into(), "0 lets nothing through".into(), remedy);
        let zero = counts.into_iter().filter(|(_, count)| *count == 0);
        let mut invalid = zero.map(|(key, _)| nothing(key, "set at least 1")).collect::<Vec<_>>();
        if self.bandwidth == Some(BitRate(0)) {
            invalid.push(nothing("limits.bandwidth", "give a rate"));
        }
        // The readers' own, and as much again.
        let least = Bytes((FLOOR * (2 * self.checksum_readers).max(16)) as u64);
        if self.memory < least {
            let readers = self.checksum_readers;
            let text = format!(
                "{readers} checksum readers and some transfers need {least}, not {}",
                self.memory
            );
            let remedy = "give more, or fewer limits.checksum_readers";
            invalid.push(wrong("limits.memory".into(), text, remedy));
        }
        invalid
    }
}
