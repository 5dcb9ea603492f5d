//! The endpoint over real TLS sockets on loopback: every verb, every fault, third-party copies between two of them.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod backend;
mod conditions;
mod copies;
mod corpora;
mod counters;
mod faults;
mod files;
mod lab;
mod listing;
mod namespace;
mod overload;
mod permission;
mod targets;
