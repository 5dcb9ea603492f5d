//! The service from outside: over TLS, with a real issuer and storages that misbehave on demand.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod addresses;
#[path = "../../../weir-auth/tests/x509/attributes.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod attributes;
mod cancel;
mod certificates;
mod copies;
mod description;
mod door;
mod events;
mod failures;
mod force;
#[path = "../../../weir-executor/src/tokens/granter.rs"]
mod granter;
mod input;
mod lab;
mod levels;
mod library;
mod likeness;
mod lines;
mod namespace;
mod operator;
mod ownership;
#[path = "../../../weir-auth/tests/x509/pki.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod pki;
mod proxies;
mod receivers;
mod restart;
mod routes;
mod settings;
mod sight;
mod storages;
mod stub;
mod tape;
mod tokens;
mod urls;
mod voms;
#[path = "../../../weir-auth/tests/x509/voms_server.rs"]
mod voms_server;
