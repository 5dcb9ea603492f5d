//! What ended leaves the present.

use std::collections::BTreeMap;

use super::Tables;
use crate::{
    model::{File, Job, TokenHash},
    time::Millis,
};

/// What left the present.
#[derive(Debug, Default, Clone)]
pub(super) struct History {
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) files: BTreeMap<u64, File>,
}

/// Numbers of jobs that ended at this time or earlier, those that ended first coming first.
fn ended(jobs: &BTreeMap<u64, Job>, before: Millis) -> Vec<u64> {
    let ended = jobs.iter().filter_map(|(number, job)| Some((job.finished?, *number)));
    let mut ended = ended.filter(|(at, _)| *at <= before).collect::<Vec<_>>();
    ended.sort_unstable();
    ended.into_iter().map(|(_, number)| number).collect()
}

impl Tables {
    pub(super) fn archive(&mut self, before: Millis, files_max: usize) -> usize {
        let mut moved = 0;
        for number in ended(&self.jobs, before) {
            let n = self.jobs.get(&number).map_or(0, |job| job.counts.files as u64);
            let ids = self.files.range(number..number + n).map(|(id, _)| *id);
            let ids = ids.take(files_max - moved).collect::<Vec<_>>();
            moved += ids.len();
            for id in ids {
                let Some(row) = self.files.remove(&id) else { continue };
                for hash in [row.file.spec.source_token, row.file.spec.destination_token]
                    .into_iter()
                    .flatten()
                {
                    self.release(hash);
                }
                self.urls.forget(id);
                self.history.files.insert(id, row.file);
            }
            if moved >= files_max {
                break;
            }
            if let Some(job) = self.jobs.remove(&number) {
                self.history.jobs.insert(number, job);
                moved += 1;
            }
        }
        moved
    }

    /// A file that names this token left the present.
    fn release(&mut self, hash: TokenHash) {
        if let Some((_, named)) = self.tokens.get_mut(&hash) {
            *named -= 1;
            if *named == 0 {
                self.tokens.remove(&hash);
                self.renewals.remove(&hash);
            }
        }
    }

    pub(super) fn forget(&mut self, before: Millis, files_max: usize) -> usize {
        let mut forgotten = 0;
        for number in &ended(&self.history.jobs, before) {
            if forgotten >= files_max {
                break;
            }
            let Some(job) = self.history.jobs.remove(number) else {
                continue;
            };
            forgotten += job.counts.files as usize;
            self.numbers.remove(&job.spec.id);
            for id in *number..number + job.counts.files as u64 {
                self.history.files.remove(&id);
                while let Some((key, _)) = self.retries.range((id, 0)..=(id, u32::MAX)).next() {
                    let key = *key;
                    self.retries.remove(&key);
                }
            }
        }
        forgotten
    }
}
