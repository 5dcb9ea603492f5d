//! The transfer service: FTS3's door, a durable store, and the real world of `weir-sched`'s core.
//!
//! ```text
//!  client ──▶ rest ──▶ submission ──▶ driver ──▶ Scheduler (weir-sched)
//!                │                      │  ▲
//!                │ reads        records │  │ events
//!                ▼                      ▼  │
//!              store ◀── writer (group commit)
//!                                       executor ──▶ storages (HEAD, COPY, GET, PUT, DELETE)
//! ```
//!
//! What a client was told is durable; what starts is durable before it starts. The core decides, the driver carries out, the
//! executor speaks HTTP-TPC with storages. After a crash the store's rows bring the core back, and an attempt that was under
//! way is taken up again: a destination that is whole is adopted, a leftover is removed.
//!
//! Deliberately absent: decisions (which transfer starts, what is tried again when): those are in `weir-sched`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weir_transfer::{TransferConfig, TransferService};
//!
//! let running = TransferService::start(TransferConfig::load("transfer.toml".as_ref())?).await?;
//! println!("{}", running.url());
//! running.shutdown().await;
//! # Ok(()) }
//! ```

mod callers;
mod cancel;
mod certificates;
pub mod config;
mod descriptors;
mod driver;
mod election;
mod events;
mod evolution;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

mod nodes;
mod opening;

mod reload;
mod rest;
mod servers;
mod service;
mod settings;
mod start;
mod store;
mod submission;

mod upkeep;
mod watchdog;

pub use certificates::CertificatesError;
pub use config::TransferConfig;
pub use events::SinkError;
pub use opening::StartError;
pub use start::{Running, TransferService};
