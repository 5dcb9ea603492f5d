//! The store: one trait, two backends, one test suite.
//!
//! The store holds rows of the present, not a log: jobs, files, past attempts, tokens, settings. Its rules:
//!
//! - [`Store::apply`] returns when a whole batch is durable, or changes nothing.
//! - A file that has come to its end ([`FileState::is_terminal`]) never changes again; a late change is ignored.
//! - A token is kept once, sealed ([`Sealer`]), under its hash. The query of a URL is sealed too, beside the file.
//! - A job's files have consecutive ids, so that they are found without an index. The job's number is the id of the
//!   first.
//! - Jobs leave the live tables for history some time after their end ([`Store::archive`]), in small steps; every query
//!   reads both. A token is deleted with the last file that names it, a URL's query with its file.

mod conflict;
#[cfg(test)]
mod former;
pub mod journal;
mod packed;
pub mod postgres;
#[cfg(test)]
mod rates;
mod set_aside;

mod renewals;
mod sealed;
pub mod sqlite;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod suite_destinations;
#[cfg(test)]
mod suite_forced;
#[cfg(test)]
mod suite_history;
#[cfg(test)]
mod suite_listings;
#[cfg(test)]
mod suite_renewals;
#[cfg(test)]
mod suite_routes;
#[cfg(test)]
mod suite_secrets;
#[cfg(test)]
mod suite_tape;
#[cfg(test)]
mod suite_urls;
#[cfg(test)]
mod troubled;
mod urls;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;
use uuid::Uuid;
use weir_auth::Secret;
use weir_sched::Work;

pub use conflict::Conflict;
pub(crate) use sealed::confirm_key;
pub use weir_store::{Sealer, StoreError, remedy};

#[cfg(test)]
pub(crate) use crate::testing::submission;
#[cfg(test)]
pub(crate) use troubled::TroubledStore;
use weir_executor::job::{
    Claim, File, FileResult, FileState, Job, JobState, NewFile, NewJob, Retry, SEVERAL_HOPS, SEVERAL_SOURCES,
    TokenHash, hash_of,
};
use weir_executor::orders::{Expiring, Kept, Orders};
use weir_executor::surl::Surl;
use weir_service::time::Millis;

/// One durable change.
#[derive(Debug, Clone)]
pub enum Change {
    /// A job came in.
    Submit(Box<Submission>),
    /// An attempt begins.
    Begin {
        /// The file.
        file: u64,
        /// The operation.
        work: Work,
        /// From 1.
        attempt: u32,
        /// The life of the scheduler that ordered it.
        epoch: u64,
        /// When.
        at: Millis,
    },
    /// An attempt came to its good end, and its file is not done yet.
    Advance {
        /// The file.
        file: u64,
        /// When.
        at: Millis,
        /// The next operation.
        next: Work,
        /// How it went, if bytes moved.
        result: Option<FileResult>,
    },
    /// A storage was asked to bring files online, and this is its name for the request. From now on each has a pin to be given
    /// back; see [`Orders::pins`].
    Requested {
        /// The files.
        files: Vec<u64>,
        /// The request.
        request: String,
    },
    /// Pins were released, or are unknown to the storage.
    Unpinned {
        /// The files.
        files: Vec<u64>,
    },
    /// An attempt ended, but not its file.
    Again {
        /// The file.
        file: u64,
        /// The operation that it waits for again.
        work: Work,
        /// The attempt that ended.
        attempt: u32,
        /// When it ended.
        at: Millis,
        /// How it went.
        result: FileResult,
        /// The follow-up.
        follow_up: FollowUp,
    },
    /// A file came to its end.
    End {
        /// The file.
        file: u64,
        /// The last operation.
        work: Work,
        /// When.
        at: Millis,
        /// A terminal state.
        state: FileState,
        /// How it went.
        result: FileResult,
    },
    /// It is the turn of a file that was not used so far. A further source continues with the known state of the
    /// destination.
    Release {
        /// The file.
        file: u64,
    },
    /// A file's metadata tell more than the client said.
    Metadata {
        /// The file.
        file: u64,
        /// A JSON object.
        metadata: Box<RawValue>,
    },
    /// Files of one job are taken back.
    Cancel {
        /// Their job.
        job: Uuid,
        /// Whether the whole job is.
        whole: bool,
        /// Files that have ended by this.
        settled: Vec<u64>,
        /// Files whose attempt is being stopped; their end follows.
        stopping: Vec<u64>,
        /// When.
        at: Millis,
        /// Why.
        reason: String,
    },
    /// The file that attempts may have left at the destination.
    Claim {
        /// The file.
        file: u64,
        /// `None`: nothing.
        claim: Option<Claim>,
    },
    /// Files that are [`FileState::Submitted`] are to start past all limits, and wait for no time any more.
    Force {
        /// The files.
        files: Vec<u64>,
    },
    /// A job's priority changes.
    Priority {
        /// The job.
        job: Uuid,
        /// 1 to 5.
        priority: u8,
    },
    /// A setting changes; `None` removes it.
    Setting {
        /// Its name.
        key: String,
        /// Its value, JSON.
        value: Option<String>,
    },
}

impl Change {
    /// The files that an operation notes something about, if it is such a note: a node may write that without being the scheduler, while
    /// it has their leases.
    pub fn of_copy(&self) -> Option<Vec<u64>> {
        match self {
            Self::Claim { file, .. } | Self::Metadata { file, .. } => Some(vec![*file]),
            Self::Requested { files, .. } => Some(files.clone()),
            // Pins outlive their leases, and releasing one twice is harmless.
            Self::Unpinned { .. } => Some(Vec::new()),
            _ => None,
        }
    }
}

/// A job with its files and the tokens they name.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The job.
    pub job: NewJob,
    /// In order; ids are consecutive.
    pub files: Vec<NewFile>,
    /// Every token that a file names.
    pub tokens: BTreeMap<TokenHash, Secret>,
    /// Tokens that are sealed already: [`Store::seal`].
    pub sealed: BTreeMap<TokenHash, Vec<u8>>,
    /// The one file that begins, if the others wait for it: they are [`FileState::NotUsed`].
    pub live: Option<u64>,
    /// The tokens that may be renewed.
    pub expiring: BTreeMap<TokenHash, Expiring>,
    /// Refused if a transfer that has not ended writes to one of its destinations.
    pub one_writer: bool,
    /// The storage elements of its files, as far as that was found out.
    pub storages: Vec<String>,
}

impl Submission {
    /// A submission. A job whose files go one after the other begins with the first, unless the scheduler finds a
    /// better one.
    pub fn new(job: NewJob, files: Vec<NewFile>, tokens: BTreeMap<TokenHash, Secret>) -> Self {
        let in_turn = matches!(job.kind, SEVERAL_SOURCES | SEVERAL_HOPS);
        let live = files.first().map(|file| file.id).filter(|_| in_turn);
        Self {
            job,
            files,
            tokens,
            sealed: BTreeMap::new(),
            live,
            expiring: BTreeMap::new(),
            one_writer: false,
            storages: Vec::new(),
        }
    }

    /// The ids of its first and its last file.
    pub fn range(&self) -> (u64, u64) {
        let end = |file: Option<&NewFile>| file.map_or(0, |file| file.id);
        (end(self.files.first()), end(self.files.last()))
    }

    /// The files whose destinations must be free, with the hashes of these. As in FTS3, further sources of one file are
    /// not checked.
    pub fn destinations(&self) -> impl Iterator<Item = (&NewFile, TokenHash)> {
        let asked = self.one_writer && self.job.kind != SEVERAL_SOURCES;
        let files = self.files.iter().filter(move |_| asked);
        files.map(|file| (file, hash_of(file.destination_url().as_str())))
    }

    /// The state in which a file begins.
    pub fn first_state(&self, file: &NewFile) -> FileState {
        self.job.first_state(file, self.live)
    }

    /// The state in which the job begins.
    pub fn first_job_state(&self) -> JobState {
        match self.job.params.bring_online {
            None => JobState::Submitted,
            Some(_) => JobState::Staging,
        }
    }
}

/// The follow-up of an attempt that was not the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FollowUp {
    /// Begin of the next attempt, at the earliest.
    pub not_before: Millis,
    /// Failures so far that count.
    pub failures: u8,
    /// Attempts so far that do not.
    pub free_retries: u8,
    /// Whether an attempt may have left something at the destination.
    pub resume: bool,
}

/// The scheduler's data about an unfinished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The file.
    pub file: u64,
    /// Where from.
    pub source: Surl,
    /// Where to.
    pub destination: Surl,
    /// Its activity.
    pub activity: String,
    /// The user's size.
    pub size: Option<u64>,
    /// Attempts begun.
    pub attempts: u32,
    /// Whether the newest attempt has not ended.
    pub running: bool,
    /// Whether it is cancelled, and its attempt being stopped.
    pub stopping: bool,
    /// Its state; names the operation that it waits for or runs.
    pub state: FileState,
    /// The follow-up of the newest attempt that ended.
    pub follow_up: FollowUp,
}

/// Says which pin is not given back, as its row cannot be read.
fn unreadable_pin(file: u64, error: &dyn std::fmt::Display) {
    tracing::error!(file, %error, "a row of the store cannot be read; the file stays pinned until the pin's lifetime ends");
}

/// A job whose time in the queue is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// The job.
    pub job: Uuid,
    /// As [`NewJob::kind`].
    pub kind: char,
    /// Its files that wait to begin, in order.
    pub files: Vec<u64>,
}

/// Files that are found overdue in one look.
const OVERDUE_MAX: usize = 10_000;

/// Jobs that are looked at together for overdue files.
const OVERDUE_PAGE: i64 = 500;

/// A job with files that have not come to their end.
#[derive(Debug, Clone)]
pub struct LiveJob {
    /// The job.
    pub job: NewJob,
    /// The id of its first file, whether that is live or not.
    pub first: u64,
    /// Its live files, by id.
    pub files: Vec<Live>,
}

/// A row that is damaged, or of a version that this one does not understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The row, for people: `job 5f0b6a52-…`, `file 7`.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// An item of a restore.
#[derive(Debug, Clone)]
pub enum Restored {
    /// A job.
    Job(Box<LiveJob>),
    /// Something that is passed over.
    Unreadable(Unreadable),
}

/// The filter of a job listing. Empty fields match all.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only these states; empty: only jobs that are not finished.
    pub states: Vec<JobState>,
    /// The user's name.
    pub user_dn: Option<String>,
    /// The user's delegation id.
    pub cred_id: Option<String>,
    /// The VO.
    pub vo: Option<String>,
    /// `scheme://host` of the sources.
    pub source_se: Option<String>,
    /// `scheme://host` of the destinations.
    pub dest_se: Option<String>,
    /// Finished at this time or later; live ones are left out then.
    pub finished_since: Option<Millis>,
    /// At most so many, the newest first.
    pub limit: Option<usize>,
}

impl JobFilter {
    /// FTS3's reading: without states, or with states but neither limit nor window, only unfinished jobs are listed.
    pub fn live_only(&self) -> bool {
        self.states.is_empty() || (self.limit.is_none() && self.finished_since.is_none())
    }
}

/// The single writer of this service's changes.
pub type Writer = weir_store::Writer<Change>;
/// A batch that is durable.
pub type Durable = weir_store::Durable<Change>;

/// Starts the writer of a store. `tell` is called from its thread, in order.
pub fn start_writer(store: Arc<dyn Store>, tell: impl Fn(Durable) + Send + 'static) -> std::io::Result<Writer> {
    Writer::start(move |changes| store.apply(changes), tell)
}

/// The outcome of standing for election: the scheduler's epoch.
pub type Standing = weir_store::Standing<u64>;

/// Where jobs live. Calls block; the service makes them on threads that may.
pub trait Store: Orders {
    /// Seals the tokens of a submission ahead of [`Self::apply`], where several can be at it at once. Nothing depends on it.
    fn seal(&self, submission: &mut Submission) {
        let _ = submission;
    }

    /// Makes a batch durable: all of it, or nothing. After a temporary error the result is unknown; the caller gives
    /// the very same batch again, until it is known.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`] for ever, once another scheduler has begun a newer epoch than this handle's.
    fn apply(&self, changes: &[Change]) -> Result<(), StoreError>;

    /// Begins a new epoch, even if another scheduler lives: durably stores an epoch greater than every one before. From
    /// now on this handle's changes belong to this epoch.
    fn next_epoch(&self) -> Result<u64, StoreError>;

    /// As [`Self::next_epoch`], if no other scheduler is alive. A backend that only one process can open always elects.
    fn stand(&self) -> Result<Standing, StoreError> {
        self.next_epoch().map(Standing::Elected)
    }

    /// Says that this scheduler is alive: to be called each second or two. Batches say so too.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`]: it is not the scheduler any more.
    fn renew(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends the term of this scheduler, so that the next scheduler need not wait.
    fn resign(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The first file id that was never given.
    fn next_file_id(&self) -> Result<u64, StoreError>;

    /// Takes the next ids of files, `n` or more, for this handle alone. A backend that only one process can open gives all there are.
    fn take_file_ids(&self, n: u64) -> Result<std::ops::Range<u64>, StoreError> {
        let first = self.next_file_id()?;
        Ok(first..first.max(u64::MAX - n))
    }

    /// Hands over every job with live files whose ids are below this one, oldest first. An unreadable row is reported,
    /// and does not stop the others.
    fn restore(&self, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError>;

    /// A job.
    fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError>;

    /// A job's files, in order; empty if there is no such job.
    fn files(&self, job: Uuid) -> Result<Vec<File>, StoreError>;

    /// One file.
    fn file(&self, id: u64) -> Result<Option<File>, StoreError>;

    /// The jobs a filter admits: the newest first if it has a limit, else the oldest first. Rows that cannot be read are left
    /// out, and logged.
    fn jobs(&self, filter: &JobFilter) -> Result<Vec<Job>, StoreError>;

    /// Jobs whose time in the queue is over (`now` in seconds since the epoch) and that have waiting files; at most
    /// about `OVERDUE_MAX` of these at once.
    fn overdue(&self, now: i64) -> Result<Vec<Overdue>, StoreError>;

    /// A file's attempts that were followed by another, in order.
    fn retries(&self, file: u64) -> Result<Vec<Retry>, StoreError>;

    /// Restores the queries of the files' URLs, for their submitter. Files in history have lost them.
    fn reveal(&self, files: &mut [File]) -> Result<(), StoreError>;

    /// Settings whose key begins with `prefix`, by key.
    fn settings(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// Moves jobs that ended at `before` or earlier into history, in the order of their ends: one step of about
    /// `files_max` files, which blocks writers for some milliseconds. A large job takes several steps, and is whole for
    /// readers in between. Returns the number of files and jobs moved; a smaller number than `files_max` means that
    /// nothing more is due.
    fn archive(&self, before: Millis, files_max: usize) -> Result<usize, StoreError>;

    /// Stores a secret durably, in place of one of the same name, and deletes secrets that expired before `now`. Any
    /// node may, the leader or not.
    fn keep(&self, kept: &Kept, now: Millis) -> Result<(), StoreError>;

    /// As [`Self::keep`], but a secret of the same name stays if it expires after `fresh`. Returns the stored one:
    /// nodes that store one concurrently all get the same.
    fn keep_first(&self, kept: &Kept, now: Millis, fresh: Millis) -> Result<Kept, StoreError> {
        match self.kept(&kept.name)? {
            Some(first) if first.until > fresh => Ok(first),
            _ => self.keep(kept, now).map(|()| kept.clone()),
        }
    }

    /// Stores a secret in place of `old`, which has the same name, if `old` is still stored: a slow writer overwrites
    /// no newer value. Returns whether it was.
    fn replace(&self, old: &Kept, kept: &Kept) -> Result<bool, StoreError>;

    /// Forgets the secret of this name. Returns whether there was one.
    fn discard(&self, name: &str) -> Result<bool, StoreError>;

    /// Deletes about `files_max` files of history, with their jobs, that ended at `before` or earlier. A large job may
    /// take several steps, its last files first. Returns the number of files; a smaller number than `files_max` means
    /// that nothing more is due.
    fn forget(&self, before: Millis, files_max: usize) -> Result<usize, StoreError>;
}
