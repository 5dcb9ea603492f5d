//! Cancels files in bulk: those of a banned storage element or user, of a VO, or all.

mod bans;

use std::{cell::OnceCell, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use uuid::Uuid;

pub use bans::{STORAGE_BANNED, Sweeps, USER_BANNED, catch_up, expire, of_storage, of_user};
use weir_executor::job::{SEVERAL_HOPS, SEVERAL_SOURCES};

use crate::{
    driver::{NotTaken, Request},
    service::Service,
    settings::stands_for,
    store::{Live, LiveJob, Restored, Store, StoreError},
};

/// Above every file id that a store can hold.
const ALL_FILES: u64 = i64::MAX as u64;

/// Concurrent cancellations of jobs: each waits for a commit, and many share one.
const IN_FLIGHT: usize = 200;

/// How often a cancel is tried that the service is too busy for, a second apart.
const TRIES: u32 = 60;

/// Why a cancel was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The scheduler did not take it.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The service stops.
    #[error("the service is stopping")]
    Stopping,
}

/// The outcome of taking files back.
pub type Done<T> = Result<T, NotDone>;

/// Files that have not ended, by job.
pub type Affected = Vec<(Uuid, Vec<u64>)>;

/// A file that has not ended, with values that several filters need, computed once.
pub struct Seen<'a> {
    /// Its job.
    pub job: &'a LiveJob,
    /// Itself.
    pub file: &'a Live,
    between: OnceCell<[String; 2]>,
}

impl Seen<'_> {
    /// Whether it goes from or to this storage element.
    pub fn touches(&self, se: &str) -> bool {
        let between = self
            .between
            .get_or_init(|| [self.file.source.se(), self.file.destination.se()]);
        between.iter().any(|name| stands_for(se, name))
    }
}

/// A filter of files.
pub type Fits = Box<dyn Fn(&Seen) -> bool + Send>;

/// Files that have not ended and fit.
pub async fn matching(service: &Service, fits: Fits) -> Result<Affected, StoreError> {
    let found = matching_each(service, vec![fits]).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// Files that have not ended and fit, for each question. One look at everything answers them all: with ten million files it takes
/// the better part of a minute.
pub async fn matching_each(service: &Service, questions: Vec<Fits>) -> Result<Vec<Affected>, StoreError> {
    let look = move |store: &dyn Store| {
        let mut found = vec![Affected::new(); questions.len()];
        let mut each = |restored| {
            let Restored::Job(job) = restored else { return };
            let files = job.files.iter().filter(|file| !file.stopping);
            let see = |file| Seen {
                job: &job,
                file,
                between: OnceCell::new(),
            };
            let seen = files.map(see).collect::<Vec<_>>();
            for (fits, found) in questions.iter().zip(&mut found) {
                // A job of hops is cancelled at once, or not at all.
                let whole = job.job.kind == SEVERAL_HOPS && seen.iter().any(fits);
                let meant = seen.iter().filter(|seen| whole || fits(seen));
                let meant = meant.map(|seen| seen.file.file).collect::<Vec<_>>();
                if !meant.is_empty() {
                    found.push((job.job.id, meant));
                }
            }
        };
        store.restore(ALL_FILES, &mut each)?;
        Ok(found)
    };
    service.read(look).await
}

/// Finds the matching files and cancels all of them, even after the client has disconnected. Returns the jobs, with the
/// number of files of each.
///
/// # Errors
/// As [`cancel`].
pub async fn cancel_matching(
    service: &Arc<Service>,
    fits: Fits,
    whole: bool,
    reason: &'static str,
) -> Done<Vec<(Uuid, usize)>> {
    let service = service.clone();
    let work = async move {
        let affected = matching(&service, fits).await?;
        let counts = affected.iter().map(|(job, files)| (*job, files.len())).collect();
        cancel(&service, affected, whole, reason).await?;
        Ok(counts)
    };
    to_the_end(work).await
}

/// Cancels all of them, even after the client has disconnected. `whole`: their jobs are cancelled with them.
///
/// # Errors
/// The first job that could not be cancelled; the others are tried all the same.
pub async fn cancel(service: &Arc<Service>, affected: Affected, whole: bool, reason: &'static str) -> Done<()> {
    let service = service.clone();
    to_the_end(async move {
        let one = |(job, files)| cancel_one(&service, job, files, whole, reason);
        let mut outcomes = futures_util::stream::iter(affected.into_iter().map(one)).buffer_unordered(IN_FLIGHT);
        let mut first = Ok(());
        while let Some(outcome) = outcomes.next().await {
            first = first.and(outcome);
        }
        first
    })
    .await
}

async fn to_the_end<T: Send + 'static>(work: impl Future<Output = Done<T>> + Send + 'static) -> Done<T> {
    let done = tokio::spawn(work).await;
    done.map_err(|_| NotDone::Stopping)?
}

async fn cancel_one(service: &Service, job: Uuid, files: Vec<u64>, whole: bool, reason: &'static str) -> Done<()> {
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
            outcome => return outcome.map_err(NotDone::NotTaken),
        }
    }
}

/// The files of a job that have not ended.
pub async fn live_files(service: &Service, job: Uuid) -> Result<Vec<u64>, StoreError> {
    let files = service.read(move |store| store.files(job)).await?;
    let live = files.iter().filter(|file| !file.state.is_terminal());
    Ok(live.map(|file| file.spec.id).collect())
}

/// These files of a job of this kind, with the files that wait for their turn after them.
pub async fn with_siblings(service: &Service, job: Uuid, kind: char, files: Vec<u64>) -> Result<Vec<u64>, StoreError> {
    match kind {
        SEVERAL_SOURCES | SEVERAL_HOPS => live_files(service, job).await,
        _ => Ok(files),
    }
}
