//! Limits of the executor.

use std::time::Duration;

use crate::config::{CopyConfig, RedirectHost};

/// Limits of the executor.
#[derive(Debug, Clone)]
pub struct ExecutorSettings {
    /// Attempts at once. Each holds one connection at any time.
    pub concurrency: usize,
    /// The ones among them that hold a second slot because the bytes go through this service.
    pub relays: usize,
    /// Limit for the head of an answer.
    pub response_timeout: Duration,
    /// Limit for an answer that carries a checksum: the storage may have to read the file.
    pub checksum_timeout: Duration,
    /// How long bytes may stand still.
    pub stall_timeout: Duration,
    /// How long a busy target is asked again within one attempt.
    pub busy_patience: Duration,
    /// Wall time of a copy without a timeout of its own: this, and [`Self::wall_per_mib`] for each MiB. FTS3: 600 s.
    pub wall_base: Duration,
    /// See [`Self::wall_base`]. FTS3: 2 s.
    pub wall_per_mib: Duration,
    /// Streams asked of the active party if the client does not say.
    pub streams: u32,
    /// Hosts beyond its own to which a storage may redirect a COPY with its credentials.
    pub redirect_hosts: Vec<RedirectHost>,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        Self::new(&CopyConfig::default(), 1000, 16)
    }
}

impl ExecutorSettings {
    /// As `[copy]` says, with so many attempts at once.
    pub fn new(copy: &CopyConfig, concurrency: usize, relays: usize) -> Self {
        Self {
            concurrency,
            relays,
            response_timeout: copy.response_timeout,
            checksum_timeout: copy.checksum_timeout,
            stall_timeout: copy.stall_timeout,
            busy_patience: copy.busy_patience,
            wall_base: Duration::from_secs(600),
            wall_per_mib: Duration::from_secs(2),
            streams: copy.streams,
            redirect_hosts: copy.redirect_hosts.clone(),
        }
    }
}
