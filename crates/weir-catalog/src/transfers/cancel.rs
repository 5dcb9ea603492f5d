//! Cancellation of requests that no rule wants any more.

use std::collections::BTreeMap;

use weir_database::Session;
use weir_rules::place::End;
use weir_store::StoreError;

use super::Transfers;
use crate::requests::{
    Attempt, CopyTimes, Ended,
    outgoing::{self, Unwanted},
};

/// Requests of one pass.
const REQUESTS: usize = 2_000;

/// A transfer service that was told to cancel something is told again after this time, in milliseconds.
const AGAIN: i64 = 60_000;

impl Transfers {
    /// Drops requests that were not submitted, and has the services cancel the others; returns whether there are more.
    pub(super) async fn cancel(&mut self) -> Result<bool, StoreError> {
        let before = self.clock.now() - AGAIN;
        let read = move |session: &mut dyn Session| outgoing::to_cancel(session, before, REQUESTS);
        let all = self.database.read(read).await?;
        let is_full = all.len() == REQUESTS;
        let (mut dropped, mut by_job) = (Vec::new(), BTreeMap::<_, Vec<Attempt>>::new());
        for Unwanted { attempt, job, .. } in all {
            match job {
                Some(job) => by_job.entry(job).or_default().push(attempt),
                None => dropped.push(Ended {
                    attempt,
                    end: End::Cancelled,
                    reason: None,
                    times: CopyTimes::default(),
                }),
            }
        }
        let mut n_told = dropped.len();
        self.end(dropped).await?;
        for ((url, job), attempts) in by_job {
            let (tag, now) = (self.tag, self.clock.now());
            let Some(service) = self.service(&url).filter(|service| !service.is_away(now)) else {
                continue;
            };
            let answer = service.fts().look(&[job]).await;
            let Ok(answers) = service.heed(answer, now) else {
                continue;
            };
            // The next poll finds a file that has ended already.
            let files = answers
                .iter()
                .flat_map(|answer| answer.file_ids(&attempts, tag))
                .collect::<Vec<_>>();
            if !files.is_empty() {
                let answer = service.fts().cancel(job, &files).await;
                if service.heed(answer, now).is_err() {
                    continue;
                }
            }
            n_told += attempts.len();
            let told = move |session: &mut dyn Session| outgoing::cancelled(session, &attempts, now);
            self.database.write(told).await?;
        }
        Ok(is_full && n_told > 0)
    }
}
