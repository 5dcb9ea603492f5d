//! Sealed queries of URLs: signatures, macaroons, `authz=` tokens. A table of its own, as few files need it.

use weir_auth::Secret;
use weir_executor::job::hash_of;

use super::{Sealer, StoreError};
use weir_executor::job::{NewFile, TokenHash, UrlSecrets};

/// The sealed parts of one file's URLs. A row of the table, in the order of its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SealedUrls {
    /// The file.
    pub file: u64,
    /// Of its source.
    pub source: Option<Vec<u8>>,
    /// Of its destination.
    pub destination: Option<Vec<u8>>,
}

impl SealedUrls {
    /// `None`: there is nothing to hide, as in most files.
    pub(super) fn of(sealer: &Sealer, file: &NewFile) -> Option<Self> {
        let secrets = file.secrets.as_deref()?;
        let seal =
            |side, secret: &Option<Secret>| secret.as_ref().map(|secret| sealer.seal(name(file.id, side), secret));
        Some(Self {
            file: file.id,
            source: seal("source", &secrets.source),
            destination: seal("destination", &secrets.destination),
        })
    }

    /// `None`: they were sealed with another key.
    pub(super) fn open(&self, sealer: &Sealer) -> Option<Box<UrlSecrets>> {
        let open = |side, sealed: &Option<Vec<u8>>| {
            let opened = sealed.as_ref().map(|sealed| sealer.open(name(self.file, side), sealed));
            opened.map_or(Some(None), |opened| opened.map(Some))
        };
        Some(Box::new(UrlSecrets {
            source: open("source", &self.source)?,
            destination: open("destination", &self.destination)?,
        }))
    }
}

/// The name that the seal is bound to, so that no row opens in another's place.
fn name(file: u64, side: &str) -> TokenHash {
    hash_of(&format!("url/{side}/{file}"))
}

/// The ids, first and last, between which files have something hidden; `None` if none has.
pub(super) fn hidden_range<'a>(files: impl IntoIterator<Item = &'a NewFile>) -> Option<[i64; 2]> {
    let hidden = files.into_iter().filter(|file| file.hides());
    hidden.fold(None, |range, file| {
        let id = file.id as i64;
        let [first, last] = range.unwrap_or([id, id]);
        Some([first.min(id), last.max(id)])
    })
}

/// Whether a file's URLs can be asked for.
///
/// # Errors
/// [`StoreError::Sealed`]: their secrets are not there, or not open.
pub(super) fn opened(file: &NewFile) -> Result<(), StoreError> {
    if file.hides() && file.secrets.is_none() {
        return Err(StoreError::Sealed(format!("of the URLs of file {}", file.id)));
    }
    Ok(())
}

/// Gives files their secrets back, as far as they are there and open.
pub(super) fn put_back<'a>(files: impl IntoIterator<Item = &'a mut NewFile>, sealed: &[SealedUrls], sealer: &Sealer) {
    for file in files {
        if let Ok(at) = sealed.binary_search_by_key(&file.id, |sealed| sealed.file) {
            file.secrets = sealed[at].open(sealer);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::testing::surl;

    #[test]
    fn a_sealed_token_opens_for_its_file_and_side_only() {
        let sealer = Sealer::ephemeral();
        let mut file = NewFile {
            id: 7,
            ..NewFile::new(&surl("https://a/f"), &surl("https://b/f"))
        };
        assert_eq!(SealedUrls::of(&sealer, &file), None);
        file.set_urls(&surl("https://a/f?authz=needle"), &surl("https://b/f"));
        let sealed = SealedUrls::of(&sealer, &file).unwrap();
        let opened = sealed.open(&sealer).unwrap();
        assert_eq!(opened.source.as_ref().unwrap().expose(), "?authz=needle");
        assert_eq!(opened.destination, None);
        let elsewhere = SealedUrls {
            file: 8,
            ..sealed.clone()
        };
        assert!(elsewhere.open(&sealer).is_none());
        let swapped = SealedUrls {
            source: None,
            destination: sealed.source.clone(),
            ..sealed
        };
        assert!(swapped.open(&sealer).is_none());
        assert!(swapped.open(&Sealer::ephemeral()).is_none());
    }
}
