//! Where a service answers that other hosts reach.

use std::net::IpAddr;

use serde::Serialize;

/// Where a service answers that other hosts reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The address on which it listens; every one of the machine's if unspecified.
    pub listen: IpAddr,
    /// The port; the system chooses one at the first start if absent, and it stays.
    pub port: Option<u16>,
    /// The name or address by which others reach it: it is in its URL and in its certificate. An IPv6 address stands without brackets.
    pub host: String,
}

impl Place {
    /// The host as a URL has it.
    pub fn url_host(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}
