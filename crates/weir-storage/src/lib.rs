//! The storage endpoint: WebDAV, third-party copies, and checksums on the way in.
//!
//! Files of an area lie in a directory under their own names. Bytes come by PUT or by a COPY that pulls, go by GET or
//! by a COPY that pushes, and are checksummed as they pass. `docs/storage.md` is its handbook page.
//!
//! Invariants:
//! - **A file appears whole or not at all.** Bytes land under a private name; size and checksums are compared; then the
//!   file is renamed. The partial file of a dead transfer is removed by its private name, so that no newer file can be
//!   hit.
//! - **One writer per path.** A second one is refused (409).
//! - **Nothing leads out of an area.** Paths are decoded once, as components; the kernel resolves them beneath the
//!   area's root and follows no symbolic link.
//! - **Refusals come before the body**, and the body is invited only after the permission.
//! - **Memory per transfer is bounded**, whatever the file's size; no thread waits for a peer.
//!
//! Deliberately absent: scheduling, and the policy of token issuers.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weir_storage::{Storage, StorageConfig};
//! let config: StorageConfig = weir_service::config::load("storage.toml".as_ref())?;
//! let running = Storage::start(config).await?;
//! println!("serving at {}", running.url());
//! running.shutdown().await;
//! # Ok(()) }
//! ```

mod access;
mod access_log;
mod admission;
mod area;
pub mod backend;
mod bandwidth;
mod checksums;
pub mod conditional;
pub mod config;
pub mod copy;
mod data;
pub mod dav;
pub mod digest;
mod endpoint;
mod exchange;
mod flow;
pub mod marker;
mod memory;
mod metrics;
mod opening;
mod parts;
mod reaper;
mod refusal;
mod reload;
mod service;
mod srr;
mod standing;
pub mod token_request;
mod verbs;
mod well_known;

pub use config::{
    AreaConfig, Dav, Durability, IssuerConfig, Limits, Share, Sockets, SrrConfig, StorageConfig, TlsFiles,
    TokensConfig, TpcConfig, Trust,
};
pub use endpoint::{AreaCounters, OpenError, Running, StartError, Storage};
pub use metrics::Traffic;
pub use opening::{Directories, OpenArea, separate};
