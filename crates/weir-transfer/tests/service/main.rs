//! The service from outside: over TLS, with a real issuer and storages that misbehave on demand.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod cancel;
mod copies;
mod door;
mod failures;
mod lab;
mod ownership;
mod restart;
mod settings;
mod storages;
mod stub;
