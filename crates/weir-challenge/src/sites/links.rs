//! Tries copies between storages, through the transfer service that the run uses.

use std::time::Duration;

use tokio::time::Instant;
use weir_measure::files::{FileRow, Happened};
use weir_plan::Plan;
use weir_units::{Algorithm, Bytes};
use weir_world::Party;

use super::choice::Copy;
use super::{CopyCheck, Outcome, TestFile};
use crate::inject::injection::{Batch, InjectionDoor, InjectionError, JobId, JobState, Observed, Order, Phase};
use crate::inject::rules::RulesDoor;
use crate::prepare::content::Content;
use crate::removal::made::MadeFiles;
use crate::services::storage::StorageDoor;

/// Time for one copy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked for.
const POLL: Duration = Duration::from_millis(200);

/// Number of the first copy as a transfer; those of a run count from zero, and are fewer.
const FIRST: u64 = 1 << 62;

/// The means of trying copies.
pub(crate) struct CopyMeans<'a, D> {
    pub(crate) doors: &'a [StorageDoor],
    pub(crate) transfer: &'a D,
    /// The catalogue, if it does not start with the grid.
    pub(crate) catalog: Option<&'a RulesDoor>,
    pub(crate) made: &'a MadeFiles,
}

/// Tries a copy if there is a file at its source and its destination takes files.
pub(super) async fn check<D: InjectionDoor>(
    plan: &Plan,
    ground: &CopyMeans<'_, D>,
    id: u64,
    copy: Copy,
    ready: &[usize],
    deadline: Instant,
) -> CopyCheck {
    let (source, destination) = (&ground.doors[copy.source], &ground.doors[copy.destination]);
    let begun = std::time::Instant::now();
    let unready = [copy.source, copy.destination]
        .into_iter()
        .find(|end| !ready.contains(end));
    let (outcome, worked) = if let Some(end) = unready {
        let why = format!("nothing could be written at {}", ground.doors[end].name);
        (Outcome::Skipped { why }, None)
    } else {
        let file = TestFile::of(source, copy.source, plan.seed);
        let until = deadline.min(Instant::now() + PATIENCE);
        try_copy(ground, id, copy, &file, until).await
    };
    CopyCheck {
        source: source.name.clone(),
        destination: destination.name.clone(),
        mode: copy.mode.map(weir_plan::Mode::as_str),
        worked,
        outcome,
        took_s: begun.elapsed().as_secs_f64(),
    }
}

/// A copy that was not tried.
pub(super) fn skipped<D>(ground: &CopyMeans<'_, D>, copy: Copy, why: &str) -> CopyCheck {
    CopyCheck {
        source: ground.doors[copy.source].name.clone(),
        destination: ground.doors[copy.destination].name.clone(),
        mode: copy.mode.map(weir_plan::Mode::as_str),
        worked: None,
        outcome: Outcome::Skipped { why: why.to_owned() },
        took_s: 0.0,
    }
}

async fn try_copy<D: InjectionDoor>(
    ground: &CopyMeans<'_, D>,
    id: u64,
    copy: Copy,
    file: &TestFile,
    until: Instant,
) -> (Outcome, Option<String>) {
    let (source, destination) = (&ground.doors[copy.source], &ground.doors[copy.destination]);
    let mut content = Content::new(file.seed, file.number, file.size);
    let checksums = content.checksums();
    Iterator::for_each(&mut content, drop);
    let checksum = checksums.get().and_then(|all| all.get(Algorithm::Adler32).cloned());
    let path = format!("{}/preflight/{id}-from-{}", destination.directory, source.name);
    ground.made.make([FileRow {
        happened: Happened::Made,
        rse: &destination.name,
        path: &path,
        size: file.size,
        checksum: checksum.clone(),
    }]);
    let batch = Batch {
        source: copy.source,
        destination: copy.destination,
        activity: "preflight".to_owned(),
        mode: copy.mode.map(weir_plan::Mode::as_str),
        single_attempt: true,
        rule: None,
        orders: vec![Order {
            id: FIRST + id,
            source: source.url_of(&file.path),
            destination: destination.url_of(&path),
            size: Bytes(file.size),
            checksum,
            did: None,
        }],
    };
    let (mut job, mut worked) = (None, None);
    let outcome = match tokio::time::timeout_at(until, follow(ground.transfer, &batch, &mut job)).await {
        Ok(Ok(observed)) => {
            worked = observed.mode.clone().filter(|_| observed.phase == Phase::Finished);
            told(&observed, source, destination)
        }
        Ok(Err(error)) => Outcome::failed(
            weir_auth::redact(&weir_auth::error_chain(&error)),
            "see that the transfer service runs and takes jobs",
        ),
        Err(_) => {
            // Else it may arrive after its file was looked for.
            if let Some(job) = &job {
                let _withdrawn = ground.transfer.cancel(std::slice::from_ref(job)).await;
            }
            Outcome::failed(
                "the copy did not end in time",
                "see what the storages say: one of them may wait for the other",
            )
        }
    };
    if destination.delete(&path).await.is_ok() {
        ground.made.deleted(&destination.name, &path);
    }
    (outcome, worked)
}

/// Submits a job, which is in `taken` from then on, and waits for its end.
async fn follow<D: InjectionDoor>(
    door: &D,
    batch: &Batch,
    taken: &mut Option<JobId>,
) -> Result<Observed, InjectionError> {
    let job = loop {
        match door.submit(batch).await {
            Ok(job) => break job,
            Err(InjectionError::Busy { after, .. }) => tokio::time::sleep(after).await,
            Err(error) => return Err(error),
        }
    };
    *taken = Some(job.clone());
    loop {
        tokio::time::sleep(POLL).await;
        for (_, state) in door.observe(std::slice::from_ref(&job)).await? {
            if let JobState::Known(transfers) = state
                && let Some(observed) = transfers.into_iter().find(|observed| observed.phase.is_final())
            {
                return Ok(observed);
            }
        }
    }
}

fn told(observed: &Observed, source: &StorageDoor, destination: &StorageDoor) -> Outcome {
    if observed.phase == Phase::Finished {
        let mode = observed.mode.as_deref().unwrap_or("unknown mode");
        let by = if destination.is_without_checksums() {
            "verified by its size"
        } else {
            "verified"
        };
        return Outcome::ok(format!("copied and {by} ({mode})"));
    }
    let (source, destination) = (&source.name, &destination.name);
    let party = match observed.party {
        Some(Party::Source) => format!("{source}: "),
        Some(Party::Destination) => format!("{destination}: "),
        Some(other) => format!("{other}: "),
        None => String::new(),
    };
    let class = observed.class.map_or_else(String::new, |class| format!(" ({class})"));
    let remedy = observed.remedy.clone();
    Outcome::failed(
        format!("{party}{}{class}", observed.reason),
        remedy.unwrap_or_else(|| {
            format!("see that {destination} can reach {source}, or the other way round, and trusts its certificate")
        }),
    )
}
