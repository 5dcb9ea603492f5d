//! Hosts to which credentials may follow a redirect.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A host's name or address, or `*.` and a domain: all hosts below it, not the domain itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RedirectHost(String);

/// A text that names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a host (node1.example.org) nor a domain with all its hosts (*.example.org)")]
pub struct NoHost(String);

impl RedirectHost {
    /// Returns the name or address, if it is one host and no domain.
    pub fn host(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|host| !host.starts_with('*'))
    }

    /// Whether it names this host.
    pub fn is(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        match self.0.strip_prefix('*') {
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == self.0,
        }
    }
}

impl FromStr for RedirectHost {
    type Err = NoHost;

    fn from_str(text: &str) -> Result<Self, NoHost> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        let is_name = name.split('.').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        });
        // A star before a top-level domain would name half of the world.
        let wide = name != text && (is_address || !name.contains('.'));
        if wide || !(is_address || is_name) {
            return Err(NoHost(text.to_owned()));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl TryFrom<String> for RedirectHost {
    type Error = NoHost;

    fn try_from(text: String) -> Result<Self, NoHost> {
        text.parse()
    }
}

impl From<RedirectHost> for String {
    fn from(host: RedirectHost) -> Self {
        host.0
    }
}

impl fmt::Display for RedirectHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_and_domains_are_taken() {
        for good in ["a", "Node1.example.org", "*.example.org", "192.0.2.1", "2001:db8::1"] {
            assert!(good.parse::<RedirectHost>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "*.",
            "*.org",
            "*example.org",
            "a.*.b",
            "https://a",
            "a:8443",
            "a/b",
            "*.192.0.2.1",
            "a..b",
        ] {
            assert!(bad.parse::<RedirectHost>().is_err(), "{bad}");
        }
    }
}
