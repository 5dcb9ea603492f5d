//! The network between the storages of a run, where relays make one.

use std::time::Duration;

use weir_model::{Link, RseName};
use weir_units::BitRate;

/// Limits that relays and disks keep in a run, so that it is not only loopback. Empty by default: then nothing is limited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkGround {
    /// The largest rate of one transfer on a link.
    pub streams: Vec<(Link, BitRate)>,
    /// The round trip of links: it bounds windows, and delays nothing.
    pub round_trips: Vec<(Link, Duration)>,
    /// Capacities that links share.
    pub shared: Vec<SharedPath>,
    /// Rates of the disks of embedded storages.
    pub disks: Vec<(RseName, DiskRates)>,
    /// Bytes of a segment of TCP; by default that of Ethernet. Where rates are smaller and round trips shorter than in the
    /// challenge, so is the segment: else losses would allow a stream the rate of the whole challenge.
    pub segment: Option<f64>,
}

/// The rates of a storage's disks; without a limit where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskRates {
    /// For reads.
    pub read: Option<BitRate>,
    /// For writes.
    pub write: Option<BitRate>,
    /// For both together.
    pub both: Option<BitRate>,
}

/// A capacity that links share.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedPath {
    /// The segment, or `site NAME in`, `site NAME out`, `link A→B`.
    pub name: String,
    /// The links that pass it.
    pub links: Vec<Link>,
    /// Its capacity.
    pub capacity: BitRate,
    /// Whether traffic on a detour leaves it: it is a segment that links take, and not the wire of a site or of a group.
    pub has_detours: bool,
}

impl NetworkGround {
    /// Whether relays and disks have nothing to do for it.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.shared.is_empty() && self.disks.is_empty()
    }

    pub(super) fn shared(&self, name: &str) -> Option<&SharedPath> {
        self.shared.iter().find(|path| path.name == name)
    }

    pub(super) fn round_trip(&self, link: &Link) -> Duration {
        let known = self.round_trips.iter().find(|(of, _)| of == link);
        known.map_or(Duration::ZERO, |(_, time)| *time)
    }
}
