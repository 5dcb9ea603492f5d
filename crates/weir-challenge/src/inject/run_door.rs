//! The door of a run: each batch goes to the service that its workload asks.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::inject::fts::FtsDoor;
use crate::inject::injection::{Batch, HeldBack, InjectionDoor, InjectionError, JobId, JobState, RuleCopy};
use crate::inject::rules::RulesDoor;

/// See the module.
#[derive(Debug)]
pub(crate) struct RunDoor {
    pub(crate) transfer: FtsDoor,
    /// The catalogue, if a workload makes rules.
    pub(crate) catalog: Option<Arc<RulesDoor>>,
}

impl RunDoor {
    fn catalog(&self) -> &RulesDoor {
        self.catalog.as_deref().expect("a run that makes rules has a catalogue")
    }
}

impl InjectionDoor for RunDoor {
    async fn submit(&self, batch: &Batch) -> Result<JobId, InjectionError> {
        match &batch.rule {
            Some(terms) => self.catalog().make(batch, *terms).await.map(JobId::Rule),
            None => self.transfer.submit(batch).await,
        }
    }

    async fn observe(&self, jobs: &[JobId]) -> Result<Vec<(JobId, JobState)>, InjectionError> {
        let (rules, jobs): (Vec<JobId>, Vec<JobId>) = jobs.iter().cloned().partition(JobId::is_rule);
        let mut observed = Vec::new();
        if !jobs.is_empty() {
            observed.extend(self.transfer.observe(&jobs).await?);
        }
        if !rules.is_empty() {
            observed.extend(self.catalog().observe(&rules).await?);
        }
        Ok(observed)
    }

    async fn known_as(&self) -> Result<String, InjectionError> {
        self.transfer.known_as().await
    }

    async fn held_back(&self, source: usize, destination: usize) -> Option<HeldBack> {
        self.transfer.held_back(source, destination).await
    }

    async fn cancel(&self, jobs: &[JobId]) -> Result<(), InjectionError> {
        let (rules, jobs): (Vec<JobId>, Vec<JobId>) = jobs.iter().cloned().partition(JobId::is_rule);
        if !jobs.is_empty() {
            self.transfer.cancel(&jobs).await?;
        }
        if !rules.is_empty() {
            self.catalog().withdraw(&rules).await?;
        }
        Ok(())
    }

    async fn remaining(&self, copies: &[RuleCopy]) -> Result<BTreeSet<RuleCopy>, InjectionError> {
        self.catalog().remaining(copies).await
    }
}
