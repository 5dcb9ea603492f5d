//! What issuers gave for tokens that were submitted: sealed, in a table of its own, gone with the last file that names the token.

use serde::{Deserialize, Serialize};
use weir_auth::Secret;

use super::{Sealer, StoreError, hash_of};
use weir_service::time::Millis;

use crate::model::TokenHash;

/// Files that are looked at, from the last that names a token, for one that has not ended. Beyond them it is believed to be needed.
pub(super) const LOOK_MAX: u64 = 20_000;

/// When a token expires that may be renewed, and when it is to be exchanged at the latest, used or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiring {
    /// `exp`.
    pub expires: Millis,
    /// Some time before: an expired token cannot be exchanged.
    pub due: Millis,
}

/// What an issuer gave for a token that was submitted.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    /// The newest access token.
    pub access: Option<Secret>,
    /// When that expires.
    pub expires: Millis,
    /// Until when it is handed out: some time before.
    pub good_until: Millis,
    /// For the next one.
    pub refresh: Option<Secret>,
}

/// Whose turn it is to ask the issuer.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Ours; and what is there.
    Ours(Option<Renewal>),
    /// Another node's.
    Theirs,
}

/// A token that is to be exchanged.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    /// Its name.
    pub hash: TokenHash,
    /// Opened; none if it was sealed with another key.
    pub token: Option<Secret>,
    /// Whether a file that names it has not ended, as far as was looked.
    pub needed: bool,
}

/// As it is sealed.
#[derive(Serialize, Deserialize)]
struct Packed {
    access: Option<String>,
    expires: Millis,
    good_until: Millis,
    refresh: Option<String>,
}

/// Bound to the token, and no token itself: neither table's rows can be passed off as the other's.
fn name(token: TokenHash) -> TokenHash {
    hash_of(&format!("renewal/{}", String::from(token)))
}

impl Renewal {
    pub(crate) fn seal(&self, token: TokenHash, sealer: &Sealer) -> Vec<u8> {
        let text = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let packed = Packed {
            access: text(&self.access),
            expires: self.expires,
            good_until: self.good_until,
            refresh: text(&self.refresh),
        };
        let packed = serde_json::to_string(&packed).expect("texts and numbers are always JSON");
        sealer.seal(name(token), &Secret::new(packed))
    }

    pub(crate) fn open(token: TokenHash, sealed: &[u8], sealer: &Sealer) -> Result<Self, StoreError> {
        let strange = || StoreError::Sealed(token.short());
        let packed = sealer.open(name(token), sealed).ok_or_else(strange)?;
        let packed: Packed = serde_json::from_str(packed.expose()).map_err(|_| strange())?;
        Ok(Self {
            access: packed.access.map(Secret::new),
            expires: packed.expires,
            good_until: packed.good_until,
            refresh: packed.refresh.map(Secret::new),
        })
    }
}
