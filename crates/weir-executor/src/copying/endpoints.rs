//! Endpoints without third-party copies, as learned by this process.
//!
//! A WebDAV server without HTTP-TPC takes `COPY` for a copy within itself (RFC 4918 section 9.8). Ordered to pull, it
//! does not find a file at the place that the order names, or misses `Destination`: Apache 2.4.71 answers 404, nginx
//! 1.22.1 and rclone 1.60 answer 400. These answers are ambiguous, so such a refusal counts only once another mode has
//! copied the same file. Ordered to push, the server may ignore the host in `Destination` and write to that path within
//! itself: Apache does so, nginx where both hosts are the same. rclone refuses with 502. Web servers are therefore not
//! ordered to push unless they have carried out a third-party copy.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use weir_service::time::Millis;

/// Endpoints remembered; beyond that all are forgotten.
const ENDPOINTS_MAX: usize = 100_000;

/// While one transfer retries a pull at an endpoint, the others wait this long for its result.
const TRIAL: Duration = Duration::from_secs(60);

/// Products in the `Server` header of web servers and WebDAV servers without HTTP-TPC. Apache and nginx were tried; the others are listed
/// by caution. The first third-party copy of a storage behind such a server as a proxy takes it off this list.
const WEB_SERVERS: &[&str] = &[
    "apache",
    "caddy",
    "cheroot",
    "lighttpd",
    "litespeed",
    "microsoft-iis",
    "nginx",
    "openresty",
    "wsgidav",
];

/// Whether a `Server` header (RFC 9110 section 10.2.4) names one of [`WEB_SERVERS`].
pub(crate) fn is_web_server(server: &str) -> bool {
    let product = server.split(['/', ' ']).next().unwrap_or_default();
    WEB_SERVERS.iter().any(|known| product.eq_ignore_ascii_case(known))
}

/// Knowledge of an endpoint.
#[derive(Debug, Clone)]
enum EndpointState {
    Copies,
    CopiesNot(Refusal),
}

/// The reason why an endpoint counts as one without third-party copies.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// The storage element of the endpoint, which has no port.
    pub(crate) se: String,
    pub(crate) at: Millis,
    /// Its answer to the order.
    pub(crate) status: u16,
    /// When it is ordered to pull again.
    pub(crate) again: Instant,
}

/// See the module. Keys are `scheme://host:port`.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(HashMap<String, EndpointState>);

impl Endpoints {
    /// Whether the endpoint has carried out a third-party copy.
    pub(crate) fn copies(&self, endpoint: &str) -> bool {
        matches!(self.0.get(endpoint), Some(EndpointState::Copies))
    }

    /// The refusal of an endpoint that makes no third-party copies.
    pub(crate) fn refusal(&self, endpoint: &str) -> Option<&Refusal> {
        match self.0.get(endpoint)? {
            EndpointState::CopiesNot(refusal) => Some(refusal),
            EndpointState::Copies => None,
        }
    }

    /// Endpoints of a storage element that make no third-party copies.
    pub(crate) fn refusals_of<'e>(&'e self, se: &'e str) -> impl Iterator<Item = (&'e str, &'e Refusal)> {
        self.0.iter().filter_map(move |(endpoint, known)| match known {
            EndpointState::CopiesNot(refusal) if refusal.se == se => Some((endpoint.as_str(), refusal)),
            _ => None,
        })
    }

    /// Whether to order a pull at the endpoint: it has no refusal, or this transfer is the one that retries it.
    pub(crate) fn may_pull(&mut self, endpoint: &str, now: Instant) -> bool {
        match self.0.get_mut(endpoint) {
            Some(EndpointState::CopiesNot(refusal)) if refusal.again > now => false,
            Some(EndpointState::CopiesNot(refusal)) => {
                refusal.again = now + TRIAL;
                true
            }
            Some(EndpointState::Copies) | None => true,
        }
    }

    /// The endpoint has carried out a third-party copy.
    pub(crate) fn has_copied(&mut self, endpoint: &str) {
        self.put(endpoint, EndpointState::Copies);
    }

    /// The endpoint makes no third-party copies.
    pub(crate) fn has_refused(&mut self, endpoint: &str, refusal: Refusal) {
        self.put(endpoint, EndpointState::CopiesNot(refusal));
    }

    fn put(&mut self, endpoint: &str, known: EndpointState) {
        if self.0.len() >= ENDPOINTS_MAX && !self.0.contains_key(endpoint) {
            self.0.clear();
        }
        self.0.insert(endpoint.to_owned(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_servers_are_known_by_their_product() {
        // A storage with HTTP-TPC would not be asked to push, or a web server would overwrite its own files.
        for server in ["Apache/2.4.71 (Debian) OpenSSL/3.0.19", "nginx/1.22.1", "nginx"] {
            assert!(is_web_server(server), "{server}");
        }
        for server in [
            "XrootD/v5.5.3",
            "dCache/9.2",
            "Weir/0.1.0",
            "Apache-Coyote/1.1",
            "Jetty(9.4)",
            "",
        ] {
            assert!(!is_web_server(server), "{server}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_refused_is_tried_again_by_one_transfer() {
        // A server that learns to pull would be pushed to for ever, or every transfer would pay for the question.
        let mut endpoints = Endpoints::default();
        let (here, patience) = ("https://a:443", Duration::from_secs(900));
        assert!(endpoints.may_pull(here, Instant::now()));
        let refusal = |now: Instant| Refusal {
            se: "https://a".to_owned(),
            at: 0,
            status: 404,
            again: now + patience,
        };
        endpoints.has_refused(here, refusal(Instant::now()));
        assert!(!endpoints.may_pull(here, Instant::now()) && !endpoints.copies(here));
        tokio::time::advance(patience).await;
        assert!(endpoints.may_pull(here, Instant::now()));
        assert!(!endpoints.may_pull(here, Instant::now()), "one tries it");
        tokio::time::advance(TRIAL).await;
        assert!(endpoints.may_pull(here, Instant::now()), "nothing came of that");
        endpoints.has_copied(here);
        assert!(endpoints.may_pull(here, Instant::now()) && endpoints.refusal(here).is_none());
    }
}
