//! The catalogue of files: their replicas, their owners, and the rules that hold them.
//!
//! Its truth is in a database, SQLite or PostgreSQL ([`weir_database`]); memory is bounded by the work in hand.
//! `weir-rules` decides about rules.
//!
//! - [`backup`]: copies of the database.
//! - [`accounts`]: accounts, identities, sessions, scopes.
//! - [`dids`]: files, datasets and containers, and their members.
//! - [`logins`]: tokens and certificates as logins.
//! - [`filters`]: filters of searches.
//! - [`rses`]: storage elements, with attributes, protocols, limits, usage and distances.
//! - [`rules`]: replication rules, their placement, evaluation and release.
//! - [`loads`]: load plans, which hold links at rates by rules.
//! - [`places`]: files at RSEs, as rules hold them.
//! - [`requests`]: requests from submission to their end.
//! - [`replicas`]: the files at each RSE.
//! - [`paths`]: URLs of files at RSEs.
//! - [`pfn`]: PFNs that clients give.
//! - [`permissions`]: the operations that each type of account may do.
//! - [`transfers`]: the submitter, which hands requests to transfer services.
//! - [`reaper`]: the deletion of files.
//! - [`credentials`]: tokens for transfer services and storages.
//! - [`door`]: the Rucio REST interface.
//! - [`refusal`]: refusals in the words of Rucio's clients.
//!
//! Deliberately absent: the mechanics of transfers, decisions about rules.

pub mod accounts;
pub mod backup;
mod clock;
mod config;
pub mod credentials;
pub mod dids;
pub mod door;
mod evaluator;
mod figures;
pub mod filters;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod injector;
mod leader;
pub mod loads;
pub mod logins;
pub mod paths;
pub mod permissions;
pub mod pfn;
pub mod places;
pub mod reaper;
pub mod refusal;
pub mod replicas;
pub mod requests;
pub mod rses;
pub mod rules;
pub mod schema;
mod service;
#[cfg(test)]
mod testing;
pub mod transfers;

pub use config::{CatalogConfig, DeletionConfig, LimitsConfig, RootConfig, TransfersConfig};
pub use service::{Catalog, OpenError, Running, StartError};
