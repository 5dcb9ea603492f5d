//! The endpoint over real TLS sockets on loopback: every verb, every fault, third-party copies between two of them.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod backend;
mod bandwidth;
mod certificates;
mod conditions;
mod connection;
mod copies;
mod corpora;
mod counters;
mod creators;
mod deletes;
mod every_call;
mod expiry;
mod faults;
mod faulty;
mod files;
mod fireflies;
mod full;
mod lab;
mod listing;
mod marker_parser;
mod memory;
mod namespace;
mod overload;
mod permission;
mod plain;
mod races;
mod reads;
mod records;
mod reload;
mod rules;
mod sources;
mod standing;
mod states;
mod stripes;
mod targets;
mod token_requests;
mod unattributed;
mod wire;
