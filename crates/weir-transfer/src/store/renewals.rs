//! Renewed tokens from issuers: sealed, in a table of their own, deleted with the last file that names the submitted
//! token.

use serde::{Deserialize, Serialize};
use weir_auth::Secret;
use weir_executor::job::hash_of;
use weir_executor::orders::Renewal;

use super::{Sealer, StoreError};
use weir_executor::job::TokenHash;
use weir_service::time::Millis;

/// Number of files checked for an unfinished one, from the last that names a token. Beyond them the token counts as
/// needed.
pub(super) const LOOK_MAX: u64 = 20_000;

/// As it is sealed.
#[derive(Serialize, Deserialize)]
struct PackedTokens {
    access: Option<String>,
    expires: Millis,
    good_until: Millis,
    refresh: Option<String>,
}

/// Bound to the token, and no token itself: neither table's rows can be passed off as the other's.
fn name(token: TokenHash) -> TokenHash {
    hash_of(&format!("renewal/{}", String::from(token)))
}

/// Seals the tokens of an issuer under the name of the submitted token.
pub(crate) fn seal(renewal: &Renewal, token: TokenHash, sealer: &Sealer) -> Vec<u8> {
    let text = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let packed = PackedTokens {
        access: text(&renewal.access),
        expires: renewal.expires,
        good_until: renewal.good_until,
        refresh: text(&renewal.refresh),
    };
    let packed = serde_json::to_string(&packed).expect("texts and numbers are always JSON");
    sealer.seal(name(token), &Secret::new(packed))
}

/// Opens sealed tokens.
pub(crate) fn open(token: TokenHash, sealed: &[u8], sealer: &Sealer) -> Result<Renewal, StoreError> {
    let strange = || StoreError::Sealed(token.short());
    let packed = sealer.open(name(token), sealed).ok_or_else(strange)?;
    let packed: PackedTokens = serde_json::from_str(packed.expose()).map_err(|_| strange())?;
    Ok(Renewal {
        access: packed.access.map(Secret::new),
        expires: packed.expires,
        good_until: packed.good_until,
        refresh: packed.refresh.map(Secret::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_under_its_own_name_only() {
        // A row moved to another's place would give its tokens to a stranger's transfers.
        let kept = Renewal {
            access: Some(Secret::new("access")),
            expires: 7,
            good_until: 5,
            refresh: None,
        };
        let (sealer, name) = (Sealer::ephemeral(), hash_of("submitted"));
        let sealed = seal(&kept, name, &sealer);
        let again = open(name, &sealed, &sealer).expect("it was sealed with this key");
        let text = |token: &Option<Secret>| token.as_ref().map(|token| token.expose().to_owned());
        assert_eq!(
            (text(&again.access), text(&again.refresh)),
            (Some("access".to_owned()), None)
        );
        assert_eq!((again.expires, again.good_until), (7, 5));
        assert!(open(hash_of("another"), &sealed, &sealer).is_err());
        assert!(sealer.open(name, &sealed).is_none(), "it is no token itself");
    }
}
