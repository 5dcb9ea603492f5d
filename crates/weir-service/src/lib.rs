//! What every service needs beside its work.
//!
//! - [`config`]: one TOML file, read once; every problem is named with file, line, key and remedy.
//! - [`health`]: whether requests are worth sending to it.
//! - [`metrics`]: a page of figures for Prometheus.
//! - [`notify`]: tells the service manager, systemd, how far it is.
//! - [`reload`]: what is read again while it serves: the configuration, and files that have changed.
//! - [`tasks`]: work in the background, and its end.
//! - [`time`]: the clock of a service, which never steps.
//! - [`check`]: checks of the files, certificates, addresses and other services that a service needs, each with its remedy.
//! - [`tls`]: the certificate of a service, and the authorities that it trusts, as a file says them.
//!
//! Deliberately absent: the work of any service, and the keys of its configuration.

pub mod check;
pub mod config;
pub mod health;
pub mod metrics;
pub mod notify;
pub mod reload;
pub mod tasks;
pub mod time;
pub mod tls;
