//! Housekeeping: moves ended jobs to history, and much later deletes them. Each step starts from the rows, so nothing
//! can be missed, and pauses keep submissions from waiting for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;
use weir_service::tasks::Tasks;
use weir_service::time::{self, Millis};

use crate::{
    cancel::{self, Sweeps},
    config::HistoryConfig,
    service::Service,
    store::{Overdue, Store, StoreError},
};

/// Between two looks when nothing was due.
const INTERVAL: Duration = Duration::from_secs(10);

/// Files of one step: it holds the writer up for some 20 ms, or 100 ms where they are forgotten.
const STEP: usize = 2000;

/// Pause after a failed deletion. It must not slow down the archiving of new ends.
const FORGET_AGAIN: Duration = Duration::from_secs(60);

/// One part of work to four of rest: some 20,000 files a second leave, ten times the rate of transfers.
const REST: u32 = 4;

/// Pause between the end of a scheduler and the start of the next: one that ends at once must not use the whole
/// processor.
const SUCCESSION: Duration = Duration::from_secs(2);

/// Interval of the search for jobs whose time in the queue is over. Their limit is in hours, kept to some seconds.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);

/// A step of the wall clock that is told, in seconds.
const STEP_TOLD: f64 = 30.0;

/// Overdue jobs that are taken back at the same time: they share commits.
const EXPIRING: usize = 200;

/// Never ends. One node of several is enough: `is_ours` says whether it is this one.
pub(crate) async fn keep_house(store: Arc<dyn Store>, config: HistoryConfig, is_ours: impl Fn() -> bool) {
    let mut pause = INTERVAL.min(config.archive_after);
    let mut forgets_at = Instant::now();
    loop {
        tokio::time::sleep(pause).await;
        if !is_ours() {
            continue;
        }
        let begin = Instant::now();
        let (store, config, forgets) = (store.clone(), config.clone(), forgets_at <= begin);
        let step = tokio::task::spawn_blocking(move || step(store.as_ref(), &config, forgets, time::now())).await;
        let step = step.unwrap_or(StepResult {
            more: false,
            forgot: false,
        });
        if !step.forgot {
            forgets_at = Instant::now() + FORGET_AGAIN;
        }
        pause = if step.more {
            (begin.elapsed() * REST).clamp(Duration::from_millis(20), INTERVAL)
        } else {
            INTERVAL
        };
    }
}

/// The result of one step.
struct StepResult {
    /// More is due.
    more: bool,
    /// Nothing went wrong with forgetting.
    forgot: bool,
}

/// One fails without the other.
fn step(store: &dyn Store, config: &HistoryConfig, forgets: bool, now: Millis) -> StepResult {
    let ago = |age: Duration| now.saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX));
    let archived = store.archive(ago(config.archive_after), STEP);
    let forgotten = match config.keep {
        Duration::ZERO => Ok(0),
        _ if !forgets => Ok(0),
        keep => store.forget(ago(keep), STEP),
    };
    for (outcome, what) in [
        (&archived, "put finished jobs into history"),
        (&forgotten, "forget old jobs"),
    ] {
        match outcome {
            Ok(0) => {}
            Ok(files) => tracing::debug!(files, "history"),
            Err(error) => tracing::warn!(error = weir_auth::error_chain(error), "could not {what}; trying again"),
        }
    }
    let is_full = |outcome: &Result<usize, StoreError>| matches!(outcome, Ok(n) if *n >= STEP);
    StepResult {
        more: is_full(&archived) || is_full(&forgotten),
        forgot: forgotten.is_ok(),
    }
}

/// Restarts a scheduler that a defect has ended, where no other node would: from the rows, as after a restart. Repeated
/// failures lead to repeated restarts, with pauses.
pub(crate) async fn keep_scheduling(service: Arc<Service>, stop: CancellationToken) {
    while let Some(driver) = service.driver.driver() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = driver.stopped() => {}
        }
        if stop.is_cancelled() {
            return;
        }
        tracing::error!("the scheduler has ended by a defect; another takes its place");
        driver.shutdown().await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(SUCCESSION) => {}
            }
            let begun = async { service.lead(service.read(Store::next_epoch).await?).await };
            match begun.await {
                Ok(()) => break,
                Err(error) => tracing::error!(
                    error = weir_auth::error_chain(&error),
                    "could not begin to schedule; trying again"
                ),
            }
        }
    }
}

/// Starts everything that looks again and again.
pub(crate) fn start(service: &Arc<Service>, tasks: &Tasks) {
    tasks.spawn(expire(service.clone()));
    tasks.spawn(keep_bans(service.clone()));
    tasks.spawn(service.watchdog.clone().watch(service.driver.clone()));
}

/// Cancels files that have waited longer than their job allows. Each pass starts from the rows: nothing can be missed.
async fn expire(service: Arc<Service>) {
    let mut stepped = false;
    loop {
        tokio::time::sleep(EXPIRY_INTERVAL).await;
        stepped = watch_clock(stepped);
        if !service.driver.is_taken() {
            continue;
        }
        sample(&service).await;
        let now = time::now() / 1000;
        match service.read(move |store| store.overdue(now)).await {
            Ok(overdue) => {
                let taken_back = overdue.into_iter().map(|overdue| take_back(&service, overdue));
                let mut taken_back = futures_util::stream::iter(taken_back).buffer_unordered(EXPIRING);
                while taken_back.next().await.is_some() {}
            }
            Err(error) => tracing::warn!(%error, "could not look for overdue jobs"),
        }
    }
}

/// Cancels files that bans have let wait for too long, or have not reached. A full sweep takes long: nothing else waits
/// for it.
async fn keep_bans(service: Arc<Service>) {
    let sweeps = Sweeps::default();
    loop {
        tokio::time::sleep(EXPIRY_INTERVAL).await;
        if !service.driver.is_taken() {
            continue;
        }
        if let Err(error) = cancel::expire(&service, &sweeps, time::now()).await {
            tracing::warn!(
                error = weir_auth::error_chain(&error),
                "could not take back what waited for a banned storage element"
            );
        }
    }
}

/// Says once that the wall clock has stepped; gives whether it is away.
fn watch_clock(stepped: bool) -> bool {
    let ahead = time::wall_ahead();
    let away = ahead.abs() > STEP_TOLD;
    if away && !stepped {
        tracing::warn!(
            seconds = ahead,
            "the wall clock has stepped; this service goes after it by six minutes in an hour; if the new time is right, restart it"
        );
    }
    away
}

async fn take_back(service: &Service, overdue: Overdue) {
    let Overdue { job, kind, files } = overdue;
    let files = match cancel::with_siblings(service, job, kind, files).await {
        Ok(files) => files,
        Err(error) => {
            tracing::warn!(%job, error = weir_auth::error_chain(&error), "could not look for an overdue job's files; trying again");
            return;
        }
    };
    let reason = "Job expired: longer in the queue than max_time_in_queue allows".to_owned();
    let cancel = |reply| crate::driver::Request::Cancel {
        job,
        whole: false,
        files,
        reason,
        reply,
    };
    if let Err(error) = service.driver.ask(cancel).await {
        tracing::warn!(%job, %error, "could not take back an overdue job; trying again");
    }
}

/// Samples the current limits of links.
async fn sample(service: &Arc<Service>) {
    let (noted, at) = (service.clone(), time::now());
    let look = service.driver.look(
        move |core: &weir_sched::Scheduler, names: &weir_sched::Names, meter: &_| {
            noted.evolution.sample(core, names, meter, at);
        },
    );
    // It does not answer when the service stops: then there is nothing to note either.
    let _ = look.await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use uuid::Uuid;
    use weir_executor::orders::Orders as _;

    use super::*;
    use crate::store::{Change, sqlite::SqliteStore, submission};

    fn cancelled(store: SqliteStore, jobs: u64) -> SqliteStore {
        let changes = (1..=jobs).flat_map(|job| {
            let cancel = Change::Cancel {
                job: Uuid::from_u128(job.into()),
                whole: true,
                settled: vec![job],
                stopping: vec![],
                at: 4000,
                reason: String::new(),
            };
            let submit = Change::Submit(Box::new(submission(job.into(), job, 1)));
            [submit, cancel]
        });
        store.apply(&changes.collect::<Vec<_>>()).unwrap();
        store
    }

    #[test]
    fn an_ended_job_is_archived_and_forgotten_at_its_times() {
        let store = cancelled(SqliteStore::in_memory(), 1);
        let seconds = Duration::from_secs;
        let config = |keep| HistoryConfig {
            archive_after: seconds(10),
            keep,
        };
        let held = || {
            let present = store.order(1).unwrap().is_some();
            (present, store.file(1).unwrap().is_some())
        };
        step(&store, &config(seconds(20)), true, 13_999);
        assert_eq!(held(), (true, true));
        step(&store, &config(seconds(20)), true, 14_000);
        assert_eq!(held(), (false, true));
        step(&store, &config(Duration::ZERO), true, i64::MAX);
        assert_eq!(held(), (false, true), "0 keeps for ever");
        step(&store, &config(seconds(20)), true, 24_000);
        assert_eq!(held(), (false, false));
    }

    #[tokio::test]
    async fn many_cancelled_jobs_go_without_being_asked_for() {
        // On a disk, as readers of an in-memory database see uncommitted rows.
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("db"), crate::store::Sealer::ephemeral()).unwrap();
        let store = Arc::new(cancelled(store, 3000));
        let config = HistoryConfig {
            archive_after: Duration::from_millis(1),
            keep: Duration::ZERO,
        };
        let house = tokio::spawn(keep_house(store.clone(), config, || true));
        tokio::time::timeout(Duration::from_secs(20), async {
            while store.order(3000).unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
        assert!(store.file(3000).unwrap().is_some() && store.order(1).unwrap().is_none());
        house.abort();
    }

    #[tokio::test]
    async fn a_scheduler_that_a_defect_ended_is_replaced() {
        // The door would stay open for a service that never starts anything again.
        let directory = tempfile::tempdir().unwrap();
        let mut config = crate::TransferConfig::new("127.0.0.1:0".parse().unwrap());
        config.store = Some(directory.path().join("db"));
        let issuer = weir_executor::config::IssuerConfig::new("https://127.0.0.1:1", "test");
        config.issuers.push(issuer);
        let outbound = crate::Outbound::open(&config, std::time::SystemTime::now()).unwrap();
        let verifier = weir_auth::Verifier::new(weir_auth::VerifierConfig::default(), outbound.client.clone());
        let opened = crate::Opened::open(config).await.unwrap();
        let running = opened.start("http://127.0.0.1", outbound, verifier).await.unwrap();
        let nobody_asks = Box::new(|_| panic!("there is no other node"));
        running.begin(nobody_asks).await.unwrap();
        let service = running.service().clone();
        let first = service.driver.driver().unwrap();
        let broken = service
            .driver
            .look::<()>(|_, _, _| panic!("a defect, on purpose"))
            .await;
        assert!(broken.is_none());
        first.stopped().await;
        let fresh = async {
            while service.driver.look(|_, _, _| ()).await.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), fresh)
            .await
            .expect("another takes its place");
        assert_eq!(service.driver.trouble(), None);
        drop((first, service));
        running.shutdown().await;
    }
}
