//! Client certificates: X.509 as grids use it, with RFC 3820 proxies, VOMS attributes and grid-mapfiles.
//!
//! A door opens one [`ClientCertificates`] on its directories of authorities and VOMS servers, gives it to
//! [`weir_http::server_config_asking`], and asks it for the [`Identity`] of each request. It ignores clients without a
//! certificate: they may have a token.
//!
//! ```no_run
//! # use std::{sync::Arc, time::SystemTime};
//! # fn example(server: &weir_http::Identity, request: http::Request<()>) -> Result<(), Box<dyn std::error::Error>> {
//! use weir_auth::x509::{ClientCertificates, ClientCertificatesConfig};
//!
//! let config = ClientCertificatesConfig::new("/etc/grid-security/certificates");
//! let certificates = ClientCertificates::open(config, SystemTime::now())?;
//! let tls = weir_http::server_config_asking(server, Arc::new(certificates.clone()))?;
//! // … and for each request:
//! match certificates.identity(request.extensions(), SystemTime::now()) {
//!     Ok(Some(identity)) => println!("{} of {:?}", identity.subject, identity.vo()),
//!     Ok(None) => println!("no certificate: look for a token"),
//!     Err(error) => println!("{}: {error}; {}", error.status(), error.remedy()),
//! }
//! # Ok(()) }
//! ```
//!
//! Division of the checks: OpenSSL builds the chain and checks signatures, names, path lengths and key usage, because
//! no certificate library of Rust supports proxies. Times, revocation, signing policies and the purpose of proxies are
//! checked here. The TLS handshake proves that the client holds the key. A chain is judged again at least every minute,
//! so that neither a connection that is kept open nor a resumed TLS session outlives a revocation or an expiry.

mod authorities;
mod clients;
pub mod delegation;
mod der;
mod door;
mod endow;
mod error;
mod folder;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gridmap;
mod identity;
mod name;
mod proxy;
mod revocation;
mod servers;
mod sign;
mod signing_policy;
mod voms;

pub use authorities::{end, ends, validity};
pub use clients::{ClientCertificates, ClientCertificatesConfig};
pub use door::{Door, DoorConfig, DoorError, roles};
pub use endow::{EndowError, endow};
pub use error::X509Error;
pub use gridmap::{Gridmap, GridmapError};
pub use identity::Identity;
pub use revocation::RevocationCheck;
pub use servers::ServerRevocations;
pub use sign::{SignError, sign};
pub use voms::client::{ServerFailure, VomsClient, VomsError};
pub use voms::request::{AttributeRequest, RequestError};
pub use voms::vomses::{VomsServer, Vomses, VomsesError, VomsesLine};
pub use voms::{VomsAttributes, short_fqan};
