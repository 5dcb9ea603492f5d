//! Trust: authentication and authorisation of callers.
//!
//! A request's token passes three stages. [`Verifier`] checks its signature against the issuer's published keys, its
//! time and its audience (401 otherwise, 503 if the keys cannot be had). [`authorize()`] checks that its scopes allow
//! an [`Operation`] on a [`StoragePath`] (403 otherwise, with the missing scope named). Nothing of a token is ever
//! stored, and [`redact`] takes tokens out of every text that leaves a service.
//!
//! Beside that: [`x509`] knows clients by their certificates, proxies and VOMS attributes; [`ca`] makes the
//! certificates of an embedded grid; [`client`] gets tokens for our own requests.
//!
//! Invariants: only configured issuers are ever contacted; a [`Secret`] cannot be printed; every parser here takes
//! hostile input and never panics. Deliberately absent: sessions, storage, any policy about the rights of groups
//! ([`rules`] has the types in which a storage area states it).
//!
//! ```
//! use weir_auth::{Scope, StoragePath};
//!
//! let scope = Scope::parse("storage.read:/data")?;
//! let Scope::Storage { path, .. } = scope else { unreachable!() };
//! assert!(path.covers(&StoragePath::from_url_path("/data//run%201/f")?));
//! assert!(!path.covers(&StoragePath::from_url_path("/database")?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod authorize;
pub mod ca;
mod cache;
pub mod client;
mod creator;
mod denied;
mod error;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod jws;
pub mod mint;
mod operation;
pub mod path;
mod redact;
pub mod rules;
mod scitokens;
pub mod scope;
mod secret;
pub mod signing;
pub mod token;
pub mod verifier;
pub mod x509;

pub use authorize::{
    Denied, DeniedReason, Operation, authorize, authorize_certificate, authorize_move, authorize_with, move_needs,
};
pub use creator::Creator;
pub use error::{AuthError, RETRY_AFTER, error_chain, is_mark, one_line, peer_line, peer_text};
pub use path::{PathError, StoragePath, url_segment};
pub use redact::redact;
pub use rules::{Person, Rule};
pub use scitokens::Dialect;
pub use scope::{Scope, ScopeError, StorageAction};
pub use secret::{MASK, Secret};
pub use signing::SigningKey;
pub use token::{ANY_AUDIENCE, Access, Capability, Group, Token};
pub use verifier::{LEEWAY, TrustedIssuer, Verifier, VerifierConfig};
