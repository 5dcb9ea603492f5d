//! Polling: asks transfer services how jobs go.

use std::collections::BTreeMap;

use weir_database::Session;
use weir_store::StoreError;

use super::{Transfers, answer::JobAnswer};
use crate::requests::{
    self,
    outgoing::{self, ToPoll},
};

/// Jobs that are asked for in one request: their ends are one transaction.
const JOBS: usize = 40;

/// Jobs of one pass.
const JOBS_OF_PASS: usize = 400;

impl Transfers {
    /// Asks for jobs that were not asked for lately; whether there are more of them.
    pub(super) async fn poll(&mut self) -> Result<bool, StoreError> {
        let interval = i64::try_from(self.config.poll.as_millis()).unwrap_or(i64::MAX);
        let before = self.clock.now().saturating_sub(interval);
        let read = move |session: &mut dyn Session| outgoing::to_poll(session, before, JOBS_OF_PASS);
        let jobs = self.database.read(read).await?;
        let is_full = jobs.len() == JOBS_OF_PASS;
        let mut by_service = BTreeMap::<_, Vec<ToPoll>>::new();
        for one in jobs {
            by_service.entry(one.service.clone()).or_default().push(one);
        }
        let mut n_asked = 0;
        for (url, jobs) in by_service {
            for jobs in jobs.chunks(JOBS) {
                n_asked += usize::from(self.ask(&url, jobs).await?);
            }
        }
        Ok(is_full && n_asked > 0)
    }

    /// Asks a service for some jobs; whether it answered.
    async fn ask(&mut self, url: &str, asked: &[ToPoll]) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let jobs = asked.iter().map(|one| one.job).collect::<Vec<_>>();
        let answers = match self.service(url) {
            Some(service) if !service.is_away(now) => {
                let answer = service.fts().look(&jobs).await;
                service.heed(answer, now)
            }
            Some(_) => return Ok(false),
            // The configuration has the service no more: another one takes over its requests.
            None => Ok(jobs.iter().map(|job| JobAnswer::unknown(*job)).collect()),
        };
        match answers {
            Ok(answers) => self.take(answers, asked.to_vec()).await.map(|()| true),
            Err(failure) => {
                tracing::debug!(reason = failure.message, "jobs cannot be looked at");
                Ok(false)
            }
        }
    }

    /// Applies a service's answers.
    async fn take(&self, answers: Vec<JobAnswer>, asked: Vec<ToPoll>) -> Result<(), StoreError> {
        let (tag, now) = (self.tag, self.clock.now());
        let write = move |session: &mut dyn Session| {
            let mut ends = Vec::new();
            let is_asked = |answer: &&JobAnswer| asked.iter().any(|one| one.job == answer.job_id);
            for answer in answers.iter().filter(is_asked) {
                let carried = outgoing::of_job(session, answer.job_id)?;
                ends.extend(answer.ends(&carried, tag));
            }
            requests::ended(session, &ends, now)?;
            outgoing::polled(session, &asked, now)
        };
        self.database.write(write).await
    }
}
