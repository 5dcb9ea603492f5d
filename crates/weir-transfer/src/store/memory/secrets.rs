//! Secrets that are left with the service for a while.

use std::collections::BTreeMap;

use crate::{
    store::{Kept, Sealer, hash_of},
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
