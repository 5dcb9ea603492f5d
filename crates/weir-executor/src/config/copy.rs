//! How copies are carried out.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_http::Network;

use super::RedirectHost;

/// How copies are made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CopyConfig {
    /// Limit for resolving and connecting, and again for the TLS handshake.
    #[serde(with = "weir_units::duration")]
    pub connect_timeout: Duration,
    /// Limit for the head of an answer.
    #[serde(with = "weir_units::duration")]
    pub response_timeout: Duration,
    /// Limit for an answer with a checksum: the storage may have to read the file.
    #[serde(with = "weir_units::duration")]
    pub checksum_timeout: Duration,
    /// How long bytes may stand still.
    #[serde(with = "weir_units::duration")]
    pub stall_timeout: Duration,
    /// How long a busy target is asked again within one attempt.
    #[serde(with = "weir_units::duration")]
    pub busy_patience: Duration,
    /// Streams asked of the active party if the client does not say.
    pub streams: u32,
    /// After how long one transfer at a time tries a copy mode again that a storage refused.
    #[serde(with = "weir_units::duration")]
    pub mode_patience: Duration,
    /// Addresses of this host and of private networks that may be connected to all the same.
    pub allow: Vec<Network>,
    /// Hosts to which a storage may redirect a copy with the tokens of both sides: `node1.example.org`, or `*.example.org`. To any other
    /// than itself, port included, credentials do not follow.
    pub redirect_hosts: Vec<RedirectHost>,
}

impl Default for CopyConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            response_timeout: Duration::from_secs(60),
            checksum_timeout: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(180),
            busy_patience: Duration::from_secs(20),
            streams: 1,
            mode_patience: Duration::from_secs(900),
            allow: Vec::new(),
            redirect_hosts: Vec::new(),
        }
    }
}
