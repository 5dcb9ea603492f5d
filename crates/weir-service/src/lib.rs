//! What every service needs beside its work.
//!
//! - [`config`]: one TOML file, read once; every problem is named with file, line, key and remedy.
//! - [`metrics`]: a page of figures for Prometheus.
//! - [`tls`]: the certificate of a service, and the authorities that it trusts, as a file says them.
//!
//! Deliberately absent: the work of any service, and the keys of its configuration.

pub mod config;
pub mod metrics;
pub mod tls;
