//! Cancels of very much: of all that a ban is about, of a VO, of everything.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use uuid::Uuid;

use super::answer::{Answer, ApiError};
use crate::{
    driver::{NotTaken, Request},
    model::SEVERAL_HOPS,
    service::Service,
    store::{Live, LiveJob, Restored, Store, StoreError},
};

/// Above every file id that a store can hold.
const ALL_FILES: u64 = i64::MAX as u64;

/// Jobs whose cancel is under way at once: each waits for a commit, and many share one.
const IN_FLIGHT: usize = 200;

/// How often a cancel is tried that the service is too busy for, a second apart.
const TRIES: u32 = 60;

/// Files that have not ended, by job.
pub(super) type Affected = Vec<(Uuid, Vec<u64>)>;

/// Files that have not ended and fit. Looks at everything: this is seldom asked for.
pub(super) async fn matching(
    service: &Service,
    fits: impl Fn(&LiveJob, &Live) -> bool + Send + 'static,
) -> Result<Affected, StoreError> {
    let look = move |store: &dyn Store| {
        let mut found = Vec::new();
        let mut each = |restored| {
            if let Restored::Job(job) = restored {
                let mut files = job.files.iter().filter(|file| !file.stopping).collect::<Vec<_>>();
                // A job of hops is cancelled at once, or not at all.
                if job.job.kind != SEVERAL_HOPS || !files.iter().any(|file| fits(&job, file)) {
                    files.retain(|file| fits(&job, file));
                }
                let files = files.iter().map(|file| file.file).collect::<Vec<_>>();
                if !files.is_empty() {
                    found.push((job.job.id, files));
                }
            }
        };
        store.restore(ALL_FILES, &mut each)?;
        Ok(found)
    };
    service.read(look).await
}

/// Cancels them all, also if whoever asked for it has gone. `whole`: their jobs are cancelled with them.
///
/// # Errors
/// The first job that could not be cancelled; the others are tried all the same.
pub(super) async fn cancel(
    service: &Arc<Service>,
    affected: Affected,
    whole: bool,
    reason: &'static str,
) -> Answer<()> {
    let service = service.clone();
    let cancelled = tokio::spawn(async move {
        let one = |(job, files)| cancel_one(&service, job, files, whole, reason);
        let mut outcomes = futures_util::stream::iter(affected.into_iter().map(one)).buffer_unordered(IN_FLIGHT);
        let mut first = Ok(());
        while let Some(outcome) = outcomes.next().await {
            first = first.and(outcome);
        }
        first
    });
    cancelled
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?
}

async fn cancel_one(service: &Service, job: Uuid, files: Vec<u64>, whole: bool, reason: &'static str) -> Answer<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        let (files, reason) = (files.clone(), reason.to_owned());
        let cancel = |reply| Request::Cancel {
            job,
            whole,
            files,
            reason,
            reply,
        };
        match service.driver.ask(cancel).await {
            Err(NotTaken::Busy(_)) if tries < TRIES => tokio::time::sleep(Duration::from_secs(1)).await,
            outcome => return Ok(outcome?),
        }
    }
}
