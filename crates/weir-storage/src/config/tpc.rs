//! The `[tpc]` table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_http::Network;
use weir_units::Bytes;

use super::Sockets;

/// Third-party copies.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TpcConfig {
    /// Addresses of this host and of private networks that may be connected to all the same.
    pub allow: Vec<Network>,
    /// Whether the other side may be spoken to without TLS. A token is never sent there.
    pub plain_http: bool,
    /// Limit for resolving and connecting, and again for the TLS handshake.
    #[serde(with = "weir_units::duration")]
    pub connect_timeout: Duration,
    /// Limit for the head of an answer. XRootD allows 120 s: a source may read its file from a slow disk first.
    #[serde(with = "weir_units::duration")]
    pub response_timeout: Duration,
    /// A copy that moves less than `stall_bytes` in this time is given up.
    #[serde(with = "weir_units::duration")]
    pub stall_timeout: Duration,
    /// 600 kB in 60 s is 10 kB/s, as other endpoints have it.
    pub stall_bytes: Bytes,
    /// How long the destination of a push may take to answer after the last byte: it may have to sync a large file to its
    /// disks. Meanwhile the copy gives its place to another.
    #[serde(with = "weir_units::duration")]
    pub answer_timeout: Duration,
    /// The longest chain of redirects that is followed.
    pub redirects: u32,
    /// The most streams of one pull.
    pub streams_max: u32,
    /// Where the client does not set the number of streams, a long path gets as many as this many bytes a second need.
    /// 10 Gbit/s is the speed of most storage servers.
    pub stream_target: Bytes,
    /// How often a stream that breaks is taken up again where it broke, without any byte of progress between.
    pub stream_retries: u32,
    /// The check of the other side's checksum when the client does not set it.
    pub verify: Verify,
    /// How long a push waits for `100 Continue` before it sends the body all the same.
    #[serde(with = "weir_units::duration")]
    pub continue_timeout: Duration,
    /// Interval between performance markers.
    #[serde(with = "weir_units::duration")]
    pub marker_interval: Duration,
    /// Connections to the other side.
    pub sockets: Sockets,
}

/// The check of the other side's checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Compared if the other side sends one.
    #[default]
    WhenOffered,
    /// A side that has none fails the copy.
    Required,
}

impl Default for TpcConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            plain_http: false,
            connect_timeout: Duration::from_secs(30),
            response_timeout: Duration::from_secs(120),
            stall_timeout: Duration::from_secs(60),
            stall_bytes: Bytes(600_000),
            answer_timeout: Duration::from_secs(300),
            redirects: 5,
            streams_max: 16,
            stream_target: Bytes(1_250_000_000),
            stream_retries: 3,
            verify: Verify::WhenOffered,
            continue_timeout: Duration::from_secs(2),
            marker_interval: crate::marker::MARKER_INTERVAL,
            sockets: Sockets::default(),
        }
    }
}
