//! Wire: TLS servers and clients for every door, and no policy.
//!
//! Each room of the grid speaks HTTP/1.1 over TLS. This room holds the parts that they share. These are an accept loop
//! with limits and a graceful end ([`serve`]), and a client with pooled connections and errors by phase ([`Client`]).
//! Bodies have bounded memory ([`body`]); [`form`] reads and writes the fields of forms.
//!
//! Invariants:
//! - Servers' certificates are always verified, names and IP addresses included; there is no switch to turn that off.
//!   Clients' certificates are requested on demand ([`server_config_asking`]) and judged by a [`ChainCheck`].
//! - A request whose host or body two readers could take for different ones reaches no service.
//! - Every wait has a limit: resolve, connect, handshake, request head, response head, a write whose peer reads too
//!   slowly.
//! - An [`AddressFilter`] sees the address that is really connected to, so that a name cannot be rebound behind it.
//!
//! Deliberately absent: authorisation, retries, the meaning of any status. No redirect is followed; [`redirect`]
//! resolves its target.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weir_http::{body, Client, ClientConfig, TrustRoots};
//! let client = Client::new(ClientConfig::new(TrustRoots::file("ca.pem")))?;
//! let request = http::Request::get("https://127.0.1.1:8443/health").body(body::empty())?;
//! let response = client.send(request).await?;
//! assert!(response.status().is_success());
//! # Ok(()) }
//! ```

pub mod body;
pub mod body_pace;
mod buffers;
pub mod chronograph;
mod client;
mod client_certificates;
mod connect;
mod connect_watch;
mod connected_to;
mod connection_slots;
mod descriptors;
mod direct;
mod error;
pub mod form;
mod framing;
mod head;
mod header_case;
mod heads;
mod memory;
pub mod multipart;
mod network;
mod pool;
mod processors;
pub mod range;
pub mod redirect;
mod reload;
mod secured;
mod server;
mod server_certificates;
mod sessions;
mod slow_reader;
mod socket;
mod socket_waits;
mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod until_sent;

pub use body::Body;
pub use buffers::Buffers;
pub use client::{Client, ClientConfig};
pub use client_certificates::{ChainCheck, PeerCertificates};
pub use connect_watch::{ConnectStep, ConnectWatch};
pub use connected_to::{CarriedBy, ConnectedTo};
pub use connection_slots::Occupancy;
pub use descriptors::raise_open_files;
pub use direct::{Direct, SentFile, WINDOW};
pub use error::{BodyError, ClientError, TlsError, is_of_tls};
pub use framing::only_chunked;
pub use memory::keep_freed_memory;
pub use network::{AddressFilter, Network, NotANetwork, comes_from, is_loopback_host, local_kind, this_host};
pub use pool::Handed;
pub use processors::{ProcessorTime, cores, own_processor_time};
pub use reload::Reloadable;
pub use rustls::CertificateError;
pub use server::{ConnectionInfo, Reservation, RunningServer, ServerLimits, ServerTls, bind, bind_with, serve};
pub use slow_reader::{CutShort, Pace};
pub use socket::{SocketSettings, SocketWatch, TcpFigures, TcpGroup, TcpLedger, TcpTotals};
pub use socket_waits::{ReceiveQueue, SocketWaits};
pub use tls::{Identity, TrustRoots, certificate_names, client_config, server_config, server_config_asking};
pub use until_sent::UntilSent;
