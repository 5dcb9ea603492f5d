//! Checks of a service's needs beside its configuration: files, certificates, addresses, other services. Each ends in
//! an [`Outcome`] with its remedy; nothing is made or changed.

mod files;
mod identity;
mod network;
mod outcome;

use std::net::SocketAddr;
use std::time::SystemTime;

pub use files::{folder, mounted, parent, present, secret};
pub use identity::{identity, validity};
pub use network::{issuer, listen, trust};

use crate::tls::{TlsFiles, Trust};
pub use outcome::{Check, Clock, ENDS_SOON, Outcome};

/// The parts of a configuration that the checks of every service read.
#[derive(Debug, Clone)]
pub struct Surroundings<'c> {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// How clients write the service.
    pub url: Option<&'c str>,
    /// Its certificate and key.
    pub tls: Option<&'c TlsFiles>,
    /// The authorities that it trusts when it connects; `None` if it never connects.
    pub trust: Option<&'c Trust>,
    /// The issuers of accepted tokens.
    pub issuers: Vec<&'c str>,
}

impl Surroundings<'_> {
    /// Certificate and key: their files, dates and names.
    pub fn identity(&self) -> Vec<Check> {
        let host = self.url.and_then(|url| url.parse::<http::Uri>().ok());
        let host = host.as_ref().and_then(http::Uri::host).map(str::to_owned);
        let listen = self.listen.ip();
        let host = host.or_else(|| (!listen.is_unspecified()).then(|| listen.to_string()));
        self.tls
            .map_or_else(Vec::new, |tls| identity(tls, host.as_deref(), SystemTime::now()))
    }

    /// Everything: identity, address, trust, issuers and their clocks.
    pub async fn check(&self) -> Vec<Check> {
        let mut checks = self.identity();
        checks.push(listen(self.listen));
        let Some(trusted) = self.trust else { return checks };
        let (check, client) = trust(trusted);
        checks.push(check);
        for url in &self.issuers {
            match &client {
                Some(client) => checks.extend(issuer(client, url).await),
                None => checks.push(Check::new(
                    format!("issuer {url}"),
                    Outcome::Skipped {
                        why: "no authority is trusted".to_owned(),
                    },
                )),
            }
        }
        checks
    }
}
