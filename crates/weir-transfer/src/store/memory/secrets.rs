//! Secrets that are left with the service for a while.

use std::collections::BTreeMap;

use crate::{
    model::NewFile,
    store::{Kept, Sealer, hash_of, urls::SealedUrls},
    time::Millis,
};

/// Sealed, and until when they are of use.
#[derive(Debug, Default, Clone)]
pub(super) struct Secrets(BTreeMap<String, (Vec<u8>, Millis)>);

impl Secrets {
    pub(super) fn keep(&mut self, kept: &Kept, sealer: &Sealer, now: Millis) {
        let sealed = sealer.seal(hash_of(&kept.name), &kept.secret);
        self.0.retain(|_, (_, until)| *until > now);
        self.0.insert(kept.name.clone(), (sealed, kept.until));
    }

    pub(super) fn replace(&mut self, old: &Kept, kept: &Kept, sealer: &Sealer) -> bool {
        let there = self.kept(&old.name, sealer);
        let is_there = there.is_some_and(|there| there.secret == old.secret);
        if is_there {
            self.keep(kept, sealer, Millis::MIN);
        }
        is_there
    }

    pub(super) fn kept(&self, name: &str, sealer: &Sealer) -> Option<Kept> {
        let (sealed, until) = self.0.get(name)?;
        Some(Kept {
            name: name.to_owned(),
            secret: sealer.open(hash_of(name), sealed)?,
            until: *until,
        })
    }

    pub(super) fn discard(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

/// Sealed parts of URLs, by file.
#[derive(Debug, Default, Clone)]
pub(super) struct Urls(BTreeMap<u64, SealedUrls>);

impl Urls {
    /// Takes what a file hides into custody; gives the file without it.
    pub(super) fn keep(&mut self, file: &NewFile, sealer: &Sealer) -> NewFile {
        if let Some(sealed) = SealedUrls::of(sealer, file) {
            self.0.insert(file.id, sealed);
        }
        NewFile {
            secrets: None,
            ..file.clone()
        }
    }

    pub(super) fn put_back(&self, file: &mut NewFile, sealer: &Sealer) {
        if let Some(sealed) = self.0.get(&file.id) {
            file.secrets = sealed.open(sealer);
        }
    }

    pub(super) fn forget(&mut self, file: u64) {
        self.0.remove(&file);
    }
}
