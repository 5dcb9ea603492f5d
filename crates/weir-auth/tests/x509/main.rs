//! Client certificates: chains made here, by the `openssl` program's library, and what is made of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod attributes;
mod chains;
mod delegation;
mod endow;
mod peers;
mod pki;
mod tls;
mod upkeep;
mod voms;
mod voms_server;
