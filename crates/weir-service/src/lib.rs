//! Shared parts of services.
//!
//! - [`config`]: one TOML file, read once; every problem is named with file, line, key and remedy.
//! - [`health`]: readiness for requests.
//! - [`metrics`]: a page of figures for Prometheus.
//! - [`notify`]: start-up and shutdown reports to the service manager, systemd.
//! - [`reload`]: reloading of the configuration, and of changed files, while the service runs.
//! - [`StartError`]: the reasons why a service does not start.
//! - [`tasks`]: work in the background, and its end.
//! - [`time`]: the clock of a service, which never steps.
//! - [`check`]: checks of the files, certificates, addresses and other services that a service needs, each with its
//!   remedy.
//! - [`tls`]: the configured certificate of a service, and the authorities that it trusts.
//!
//! Deliberately absent: the work of any service, and the keys of its configuration.

pub mod check;
pub mod config;
pub mod health;
pub mod metrics;
pub mod notify;
pub mod reload;
mod start;
pub mod tasks;
pub mod time;
pub mod tls;

pub use start::{OwnError, StartError};
