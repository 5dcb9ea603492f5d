//! The service from outside: over TLS, with a real issuer and storages that misbehave on demand.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod addresses;
mod cancel;
mod certificates;
mod copies;
mod description;
mod door;
mod events;
mod failures;
mod granter;
mod input;
mod lab;
mod library;
mod lines;
mod namespace;
mod operator;
mod ownership;
mod proxies;
mod receivers;
mod restart;
mod routes;
mod settings;
mod storages;
mod stub;
mod tape;
mod tokens;
mod urls;
