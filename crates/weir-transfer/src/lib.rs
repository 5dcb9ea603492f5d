//! The transfer service behind its door: a durable store, and the real world of `weir-sched`'s core.
//!
//! ```text
//!  weir-fts (REST) ──▶ Service ──▶ driver ──▶ Scheduler (weir-sched)
//!                         │          │  ▲
//!                         │ reads    │  │ events
//!                         ▼  records ▼  │
//!                       store ◀── writer (group commit)
//!                                 weir-executor ──▶ storages (HEAD, COPY, GET, PUT, DELETE)
//! ```
//!
//! Every answer to a client is durable, and every start is durable before it happens. The core decides, the driver
//! carries out, the executor speaks HTTP-TPC with storages. After a crash the core is restored from the store's rows,
//! and an attempt that was under way is resumed: a complete destination is adopted, a partial one removed.
//!
//! Deliberately absent: decisions about starts and retries, which are in `weir-sched`; REST and authentication, which
//! are in `weir-fts`; the movement of bytes, which is in `weir-executor`.

pub mod cancel;
pub mod config;
mod descriptors;
pub mod draft;
pub mod driver;
mod election;
pub mod events;
pub mod evolution;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod nodes;
mod opening;
mod outbound;
pub mod service;
pub mod settings;
mod start;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod upkeep;
mod watchdog;

pub use config::TransferConfig;
pub use opening::{OpenError, StartError};
pub use outbound::Outbound;
pub use start::{Opened, Running};
