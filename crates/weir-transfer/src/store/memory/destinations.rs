//! Destinations with one writer.

use std::collections::BTreeSet;

use super::Tables;
use crate::model::TokenHash;

impl Tables {
    /// Destinations that are being written to.
    pub(super) fn destinations(&self) -> BTreeSet<TokenHash> {
        let lives = |file: &u64| {
            self.files.get(file).is_some_and(|row| {
                let job = self.jobs.get(&row.job);
                row.file.finished.is_none() && job.is_some_and(|job| job.finished.is_none())
            })
        };
        let living = self.writers.iter().filter(|(_, file)| lives(file));
        living.map(|(name, _)| *name).collect()
    }
}
