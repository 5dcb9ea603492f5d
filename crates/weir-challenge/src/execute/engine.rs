//! Keeps track of the transfers of a run until they have ended and their files are gone: submits, observes, deletes.
//!
//! One task owns an engine. Nothing here waits for a service: requests run in tasks of their own, and [`Engine::turn`]
//! takes their results, so that injection, progress and interruption go on whatever a service does.

mod deletion;
mod polling;
mod rule_state;
mod rules;
mod withdrawal;

pub(crate) use rule_state::Freed;
pub(crate) use withdrawal_reason::Withdrawal;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weir_measure::chain::RuleEnd;
use weir_measure::files::{FileRow, Happened};
use weir_measure::{Failure, State};
use weir_units::Bytes;
use weir_world::Party;

use self::rule_state::Rules;
use crate::execute::clock::Clock;
use crate::execute::record::{Record, Wanted};
use crate::inject::injection::{
    Batch, HeldBack, InjectionDoor, InjectionError, JobId, JobState, Order, Phase, RuleTerms,
};
use crate::output::folder::RunFolder;
use crate::prepare::seed::Sources;
use crate::removal::made::MadeFiles;
use crate::services::storage::StorageDoor;
use crate::verify::audit::Keep;

/// Jobs asked for in one request: their ids fill less than 2 kB of URL.
const JOBS_PER_POLL: usize = 50;

/// Submissions under way at once.
const SUBMISSIONS_AT_ONCE: usize = 8;

/// Deletions under way at once at one door.
const DELETIONS_AT_ONCE: usize = 4;

/// One of so many parts of a destination's quota may be filled with files that wait for the audit.
const KEPT_SHARE: u64 = 4;

/// Attempts to submit to a service that answers with an error of its own; a busy one is asked as long as the run injects.
const SUBMIT_ATTEMPTS: u32 = 4;

/// How long a service that cannot be reached is tried: twice the minute that its restart may take.
const AWAY_MAX: Duration = Duration::from_secs(120);

/// Half of the pause after the first attempt; each pause is twice as long as the one before it, up to the longest.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// Attempts after which pauses are the longest.
const PAUSES_LONGER: u32 = 4;

/// A link as the run uses it: indices of its doors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkEnds {
    pub(crate) source: usize,
    pub(crate) destination: usize,
}

/// The state of a link at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkState {
    /// Bytes of finished transfers since the start.
    pub(crate) delivered: u64,
    /// Bytes submitted and not ended.
    pub(crate) unfinished: u64,
    /// Transfers under way.
    pub(crate) active: u32,
}

/// Sums of the run so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) active: u64,
    pub(crate) queued: u64,
    pub(crate) injected_bytes: u64,
    pub(crate) deleted_files: u64,
    pub(crate) deletion_failures: u64,
}

/// A transfer that has not ended.
#[derive(Debug, Clone)]
struct Pending {
    record: Record,
    lifetime: Duration,
    phase: Phase,
    /// Why it waits, as far as the service tells; empty if it does not.
    waits: String,
}

/// A delivered file waiting for the end of its lifetime.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Delivered {
    due: Duration,
    id: u64,
    door: usize,
    path: String,
    size: u64,
}

struct Submitted {
    ids: Vec<u64>,
    outcome: Result<JobId, InjectionError>,
    rule: Option<RuleTerms>,
    at: Duration,
}

struct Deleted {
    file: Delivered,
    attempts: u32,
    outcome: Result<bool, crate::services::storage::StorageError>,
}

type Polled = Vec<Result<Vec<(JobId, JobState)>, InjectionError>>;

/// The dependencies of an engine.
pub(crate) struct EngineParts {
    pub(crate) doors: Arc<Vec<StorageDoor>>,
    pub(crate) links: Vec<LinkEnds>,
    /// How many workloads there are.
    pub(crate) workloads: usize,
    pub(crate) sources: Arc<Sources>,
    pub(crate) folder: Arc<RunFolder>,
    pub(crate) made: MadeFiles,
    pub(crate) clock: Clock,
    /// Cancelled when no submission may be tried again.
    pub(crate) stop: CancellationToken,
    pub(crate) keep: Keep,
}

/// See the module.
pub(crate) struct Engine<D> {
    door: Arc<D>,
    doors: Arc<Vec<StorageDoor>>,
    links: Vec<LinkEnds>,
    sources: Arc<Sources>,
    folder: Arc<RunFolder>,
    made: MadeFiles,
    clock: Clock,
    /// Set when no new submission may be tried again.
    stop: CancellationToken,
    pending: BTreeMap<u64, Pending>,
    jobs: BTreeMap<JobId, BTreeSet<u64>>,
    /// Since when the service does not know a job that it took.
    unknown: BTreeMap<JobId, Duration>,
    /// Why everything that has not ended was withdrawn, once it was.
    withdrawal: Option<Withdrawal>,
    /// The service's reasons why links waited when everything was withdrawn, by link.
    held_back: BTreeMap<usize, HeldBack>,
    /// The responsible party of the last failure on a link.
    failed_by: BTreeMap<usize, Party>,
    poll_order: VecDeque<JobId>,
    /// By workload and link.
    link_states: Vec<Vec<LinkState>>,
    /// Bytes of source files and delivered files at each door.
    held: Vec<u64>,
    keep: Keep,
    /// Bytes at each door that stay for the audit.
    kept: Vec<u64>,
    live: BTreeSet<Delivered>,
    submissions: JoinSet<Submitted>,
    submission_slots: Arc<Semaphore>,
    polls: JoinSet<Polled>,
    poll_failures: u32,
    deletions: JoinSet<Deleted>,
    deletion_slots: Vec<Arc<Semaphore>>,
    deletion_failures: u64,
    deleted_files: u64,
    /// Ended transfers that have not been taken yet.
    ended: Vec<Record>,
    injected_bytes: u64,
    rules: Rules,
}

impl<D: InjectionDoor> Engine<D> {
    pub(crate) fn new(door: Arc<D>, run: EngineParts) -> Self {
        let EngineParts {
            doors,
            links,
            workloads,
            sources,
            folder,
            made,
            clock,
            stop,
            keep,
        } = run;
        let count = doors.len();
        let mut held = vec![0; count];
        for file in sources.files() {
            held[file.door] += file.size;
        }
        Self {
            link_states: vec![vec![LinkState::default(); links.len()]; workloads],
            held,
            deletion_slots: (0..count)
                .map(|_| Arc::new(Semaphore::new(DELETIONS_AT_ONCE)))
                .collect(),
            submission_slots: Arc::new(Semaphore::new(SUBMISSIONS_AT_ONCE)),
            door,
            doors,
            links,
            sources,
            folder,
            made,
            clock,
            stop,
            pending: BTreeMap::new(),
            jobs: BTreeMap::new(),
            unknown: BTreeMap::new(),
            withdrawal: None,
            held_back: BTreeMap::new(),
            failed_by: BTreeMap::new(),
            poll_order: VecDeque::new(),
            keep,
            kept: vec![0; count],
            live: BTreeSet::new(),
            submissions: JoinSet::new(),
            polls: JoinSet::new(),
            poll_failures: 0,
            deletions: JoinSet::new(),
            deletion_failures: 0,
            deleted_files: 0,
            ended: Vec::new(),
            injected_bytes: 0,
            rules: Rules::default(),
        }
    }

    /// Submits transfers of one link as one job, in the background.
    pub(crate) fn submit(&mut self, wanted: Wanted) {
        let ends = self.links[wanted.link];
        let now = self.clock.now();
        let mut orders = Vec::with_capacity(wanted.files.len());
        let source_door = &self.doors[ends.source];
        let destination_door = &self.doors[ends.destination];
        for file in &wanted.files {
            let source = self.sources.file(file.source);
            let missing = if file.is_missing { ".missing" } else { "" };
            let path = match &source.did {
                Some(_) => source.path.clone(),
                None => format!(
                    "{}/{}/{}/{}",
                    destination_door.directory, wanted.workload, source_door.name, file.id
                ),
            };
            orders.push(Order {
                id: file.id,
                source: source_door.url_of(&source.path) + missing,
                destination: destination_door.url_of(&path),
                size: Bytes(source.size),
                checksum: source.checksum.clone(),
                did: source.did.clone(),
            });
            self.link_states[wanted.workload][wanted.link].unfinished += source.size;
            self.injected_bytes += source.size;
            let record = Record::new(file, &wanted, source.size, path, now);
            self.pending.insert(
                file.id,
                Pending {
                    record,
                    lifetime: wanted.lifetime,
                    phase: Phase::Queued,
                    waits: String::new(),
                },
            );
        }
        if let Some(refused) = self.sources.refused(ends.source) {
            let failure = Failure {
                class: refused.class,
                message: format!(
                    "not submitted: {} has no source files: {}",
                    source_door.name, refused.reason
                ),
                party: Some(Party::Source),
                phase: None,
                remedy: Some("let the run write its source files there, or leave its links out".to_owned()),
            };
            for order in orders {
                self.end(order.id, State::Failed, now, |record| {
                    record.failure = Some(failure.clone());
                });
            }
            return;
        }
        self.note(ends.destination, &orders);
        let rule = wanted.by_rule.then(|| self.terms(&wanted, ends.destination));
        let batch = Batch {
            source: ends.source,
            destination: ends.destination,
            activity: wanted.activity,
            mode: wanted.mode,
            single_attempt: wanted.measured,
            rule,
            orders,
        };
        let (door, clock, stop) = (self.door.clone(), self.clock, self.stop.clone());
        let slots = self.submission_slots.clone();
        self.submissions.spawn(async move {
            let _slot = slots.acquire_owned().await.expect("the slots are never closed");
            let outcome = submit_patiently(&*door, &batch, &stop).await;
            Submitted {
                ids: batch.orders.iter().map(|order| order.id).collect(),
                outcome,
                rule: batch.rule,
                at: clock.now(),
            }
        });
    }

    /// Notes the files that transfers will make, before anybody can make them.
    fn note(&self, destination: usize, orders: &[Order]) {
        let rows = orders.iter().filter_map(|order| {
            let pending = self.pending.get(&order.id)?;
            Some(FileRow {
                happened: Happened::Made,
                rse: &self.doors[destination].name,
                path: &pending.record.path,
                size: order.size.0,
                checksum: order.checksum.clone(),
            })
        });
        self.made.make(rows);
    }

    /// Takes the results of requests, and starts those that are due. Never waits.
    pub(crate) fn turn(&mut self) {
        while let Some(submitted) = self.submissions.try_join_next() {
            self.take_submitted(submitted.expect("a submission does not panic"));
        }
        while let Some(polled) = self.polls.try_join_next() {
            self.take_polled(polled.expect("a poll does not panic"));
        }
        while let Some(deleted) = self.deletions.try_join_next() {
            self.take_deleted(deleted.expect("a deletion does not panic"));
        }
        self.delete_due();
        self.look_after_rules();
    }

    fn take_submitted(&mut self, submitted: Submitted) {
        match submitted.outcome {
            Ok(job) => {
                for id in &submitted.ids {
                    if let Some(pending) = self.pending.get_mut(id) {
                        pending.record.accepted(&job, submitted.at);
                    }
                }
                if let Some(terms) = submitted.rule {
                    self.rule_made(&job, terms, (&submitted.ids, submitted.at));
                }
                self.jobs.insert(job.clone(), submitted.ids.into_iter().collect());
                self.poll_order.push_back(job);
            }
            Err(error) => {
                let message = weir_auth::redact(&weir_auth::error_chain(&error));
                self.folder.log(&format!(
                    "submission of {} transfers failed: {message}",
                    submitted.ids.len()
                ));
                let stopped = self.stop.is_cancelled() && error.is_temporary();
                if submitted.rule.is_some() {
                    let end = if stopped { RuleEnd::Cancelled } else { RuleEnd::Refused };
                    self.rule_not_made((&submitted.ids, submitted.at), end, &message);
                }
                let state = match (&error, stopped) {
                    (_, false) => State::Failed,
                    // A service whose answer was lost may have accepted them.
                    (InjectionError::Unreachable { .. }, true) => State::Unanswered,
                    (_, true) => State::Cancelled,
                };
                let asked = match submitted.rule {
                    Some(_) => Party::Catalogue,
                    None => Party::TransferService,
                };
                for id in submitted.ids {
                    let failure = Failure {
                        class: error.class(),
                        message: format!("not submitted: {message}"),
                        party: Some(asked),
                        phase: None,
                        remedy: None,
                    };
                    self.end(id, state, submitted.at, |record| record.failure = Some(failure));
                }
            }
        }
    }

    /// Ends a transfer: gives its space back unless it was delivered, and moves it among the ended.
    fn end(&mut self, id: u64, state: State, ended: Duration, change: impl FnOnce(&mut Record)) {
        let Some(Pending {
            mut record,
            lifetime,
            phase,
            ..
        }) = self.pending.remove(&id)
        else {
            return;
        };
        if phase == Phase::Active {
            self.link_states[record.workload][record.link].active -= 1;
        }
        change(&mut record);
        if let Some(party) = record.failure.as_ref().and_then(|failure| failure.party) {
            self.failed_by.insert(record.link, party);
        }
        record.state = Some(state);
        record.ended = ended;
        let ends = self.links[record.link];
        let link = &mut self.link_states[record.workload][record.link];
        link.unfinished -= record.size;
        if state == State::Finished {
            link.delivered += record.size;
            self.held[ends.destination] += record.size;
            if record.stages.is_none() {
                record.kept = self.keep.keeps(id) && self.may_keep(ends.destination, record.size);
                let due = if record.kept {
                    self.kept[ends.destination] += record.size;
                    Duration::MAX
                } else {
                    self.clock.now() + lifetime
                };
                self.live.insert(Delivered {
                    due,
                    id,
                    door: ends.destination,
                    path: record.path.clone(),
                    size: record.size,
                });
            }
        }
        if record.stages.is_some() {
            self.rule_file_ended(&mut record);
        }
        if let Some(job) = &record.job
            && let Some(left) = self.jobs.get_mut(job)
        {
            left.remove(&id);
            if left.is_empty() {
                self.jobs.remove(job);
                self.unknown.remove(job);
            }
        }
        self.ended.push(record);
    }

    /// Whether one more file for the audit leaves a door enough of its space for the run.
    fn may_keep(&self, door: usize, size: u64) -> bool {
        let quota = self.doors[door].quota;
        quota.is_none_or(|quota| self.kept[door] + size <= quota / KEPT_SHARE)
    }

    /// Returns the state of a link in one workload.
    pub(crate) fn link(&self, workload: usize, link: usize) -> LinkState {
        self.link_states[workload][link]
    }

    /// Returns the bytes that the destination of a link can still take, without counting this workload's files on their
    /// way to it; `None` where its space is unknown.
    pub(crate) fn space_left(&self, workload: usize, link: usize) -> Option<u64> {
        let door = self.links[link].destination;
        let to_door = |(other, state): (usize, &LinkState)| {
            if self.links[other].destination == door {
                state.unfinished
            } else {
                0
            }
        };
        let others = self
            .link_states
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != workload);
        let coming: u64 = others
            .flat_map(|(_, states)| states.iter().enumerate().map(to_door))
            .sum();
        Some(
            self.doors[door]
                .quota?
                .saturating_sub(self.held[door])
                .saturating_sub(coming),
        )
    }

    /// Takes the transfers that have ended since the last call, in the order in which that was seen.
    pub(crate) fn take_ended(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.ended)
    }

    /// The doors into which links lead, with their names.
    pub(crate) fn destinations(&self) -> Vec<(usize, &str)> {
        let doors: BTreeSet<usize> = self.links.iter().map(|link| link.destination).collect();
        doors
            .into_iter()
            .map(|door| (door, self.doors[door].name.as_str()))
            .collect()
    }

    /// Returns the sums of the run so far.
    pub(crate) fn sums(&self) -> Sums {
        let active = self
            .link_states
            .iter()
            .flatten()
            .map(|link| u64::from(link.active))
            .sum();
        Sums {
            active,
            queued: self.pending.len() as u64 - active,
            injected_bytes: self.injected_bytes,
            deleted_files: self.deleted_files,
            deletion_failures: self.deletion_failures,
        }
    }

    /// Returns how many transfers have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.pending.len()
    }

    /// Returns whether every transfer has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.submissions.is_empty()
    }
}

/// Submits, again where it helps, until the run stops injecting.
async fn submit_patiently<D: InjectionDoor>(
    door: &D,
    batch: &Batch,
    stop: &CancellationToken,
) -> Result<JobId, InjectionError> {
    let begin = tokio::time::Instant::now();
    let mut attempt = 1;
    loop {
        let error = match door.submit(batch).await {
            Ok(job) => return Ok(job),
            Err(error) => error,
        };
        let is_away = error.is_away();
        let wait = match &error {
            InjectionError::Busy { after, .. } => *after,
            // A service that starts anew is away for a while.
            _ if is_away && begin.elapsed() < AWAY_MAX => (PAUSE * 2u32.pow(attempt)).min(PAUSE_MAX),
            _ if !is_away && error.is_temporary() && attempt < SUBMIT_ATTEMPTS => PAUSE * 2u32.pow(attempt),
            _ => return Err(error),
        };
        attempt = (attempt + 1).min(PAUSES_LONGER);
        // It may have been taken all the same: then the answer is asked for, also when nothing new is begun any more.
        let may_be_taken = matches!(error, InjectionError::Unreachable { .. });
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled(), if !may_be_taken => return Err(error),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
mod withdrawal_reason;
