//! Sealed data of the transfer service: tokens of submissions, and the mark that tells one key from another.

use std::{borrow::Cow, path::Path};

use weir_auth::Secret;
use weir_executor::orders::Kept;
use weir_store::Sealer;

use super::{Store, StoreError, Submission};
use weir_executor::job::TokenHash;
use weir_service::time::Millis;

/// Asks a database, SQLite or PostgreSQL, whether anything in it was sealed.
pub(super) const HOLDS_SEALED: &str = "SELECT EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM renewals) \
    OR EXISTS (SELECT 1 FROM secrets) OR EXISTS (SELECT 1 FROM urls)";

impl Submission {
    /// A token that a file names, as it is kept.
    pub(crate) fn sealed_token(&self, hash: TokenHash, sealer: &Sealer) -> Result<Cow<'_, [u8]>, StoreError> {
        if let Some(sealed) = self.sealed.get(&hash) {
            return Ok(Cow::Borrowed(sealed));
        }
        let token = self
            .tokens
            .get(&hash)
            .ok_or_else(|| StoreError::Broken(format!("job {} names a token it does not bring", self.job.id).into()))?;
        Ok(Cow::Owned(sealer.seal(hash, token)))
    }

    pub(super) fn seal_with(&mut self, sealer: &Sealer) {
        let seal = |(hash, token): (&TokenHash, &Secret)| (*hash, sealer.seal(*hash, token));
        self.sealed = self.tokens.iter().map(seal).collect();
    }
}

/// Under which name nodes of one database keep a word that all of them must be able to read.
const MARK: &str = "key";

/// Checks that this key sealed the data of the store; the first key used is recorded.
///
/// # Errors
/// [`StoreError::Key`] if it is another.
pub(crate) fn confirm_key(store: &dyn Store, path: &Path) -> Result<(), StoreError> {
    let mark = Kept {
        name: MARK.to_owned(),
        secret: Secret::new("sealed with the key of this database"),
        until: Millis::MAX,
    };
    match store.keep_first(&mark, 0, 0) {
        Ok(_) => Ok(()),
        Err(StoreError::Sealed(_)) => Err(StoreError::Key {
            path: path.to_owned(),
            reason: "the database was sealed with another key; copy the key_file of a node that works. If that key is lost, delete \
                     the row 'key' of the table secrets: what waits with tokens of the old key will fail"
                .to_owned(),
        }),
        Err(error) => Err(error),
    }
}
