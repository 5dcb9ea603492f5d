//! A job and its files: as submitted, and their results.

mod counts;
mod hash;
mod result;
mod tape;
mod tape_times;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_auth::Secret;

pub use counts::Counts;
pub use hash::{TokenHash, hash_of, hex};
pub use result::{FileResult, Retry, meaning};
pub use tape_times::TapeTimes;
pub use weir_sched::JobState;
use weir_service::time::Millis;

use crate::surl::Surl;
pub use counts::{SEVERAL_HOPS, SEVERAL_SOURCES};

/// State of a file, with FTS3's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FileState {
    /// Waits for its turn, or for a retry.
    Submitted,
    /// An attempt runs.
    Active,
    /// Whole at the destination, verified as asked.
    Finished,
    /// Given up, with a reason.
    Failed,
    /// Taken back by the user, or out of its time in the queue.
    Canceled,
    /// Another source of its file, or a hop before it, goes first. It stays so if its turn never comes.
    NotUsed,
    /// Waits for its turn to be brought online at the source.
    Staging,
    /// Is being brought online.
    Started,
    /// Copied, and watched until it is on tape.
    Archiving,
    /// Waits like a file in [`Self::Submitted`], and starts past all limits.
    ForceStart,
}

impl FileState {
    /// All states, in the order of their numbers in the store.
    pub const ALL: [Self; 10] = [
        Self::Submitted,
        Self::Active,
        Self::Finished,
        Self::Failed,
        Self::Canceled,
        Self::NotUsed,
        Self::Staging,
        Self::Started,
        Self::Archiving,
        Self::ForceStart,
    ];

    /// FTS3's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "SUBMITTED",
            Self::Active => "ACTIVE",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
            Self::NotUsed => "NOT_USED",
            Self::Staging => "STAGING",
            Self::Started => "STARTED",
            Self::Archiving => "ARCHIVING",
            Self::ForceStart => "FORCE_START",
        }
    }

    /// Whether the state is final. A file in `NOT_USED` ends with its job.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Canceled)
    }

    /// The number in the store.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// Reads the number in the store; an unknown one is a failed file, which asks for a person.
    pub fn from_code(code: i64) -> Self {
        usize::try_from(code)
            .ok()
            .and_then(|i| Self::ALL.get(i).copied())
            .unwrap_or(Self::Failed)
    }
}

/// The number of a job's state in the store.
pub fn job_state_code(state: JobState) -> i64 {
    state as i64
}

/// Reads the number of a job's state in the store; an unknown one is a failed job, which asks for a person.
pub fn job_state_from_code(code: i64) -> JobState {
    JOB_STATES
        .into_iter()
        .find(|state| job_state_code(*state) == code)
        .unwrap_or(JobState::Failed)
}

/// Reads FTS3's name of a job's state.
pub fn job_state_from_name(name: &str) -> Option<JobState> {
    JOB_STATES.into_iter().find(|state| state.as_str() == name)
}

/// All states of a job.
pub const JOB_STATES: [JobState; 8] = [
    JobState::Submitted,
    JobState::Staging,
    JobState::Active,
    JobState::Archiving,
    JobState::Finished,
    JobState::FinishedDirty,
    JobState::Failed,
    JobState::Canceled,
];

/// Why a file is `CANCELED`, unless there is a better reason.
pub const CANCELED_REASON: &str = "Job canceled by the user";

/// The side whose checksum is compared (`verify_checksum`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ChecksumMode {
    /// Sizes only.
    #[default]
    #[serde(rename = "n")]
    None,
    /// The source's with the user's.
    #[serde(rename = "s")]
    Source,
    /// The destination's with the user's, or with the source's if the user gave none.
    #[serde(rename = "t")]
    Target,
    /// All three.
    #[serde(rename = "b")]
    Both,
}

impl ChecksumMode {
    /// FTS3 keeps the first letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::None => "n",
            Self::Source => "s",
            Self::Target => "t",
            Self::Both => "b",
        }
    }

    /// Whether the source's checksum is asked for.
    pub fn source(self) -> bool {
        matches!(self, Self::Source | Self::Both)
    }

    /// Whether the destination's checksum is asked for.
    pub fn target(self) -> bool {
        matches!(self, Self::Target | Self::Both)
    }
}

/// When a file that exists at the destination may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Overwrite {
    /// Never.
    #[default]
    #[serde(rename = "N")]
    No,
    /// Always.
    #[serde(rename = "Y")]
    Yes,
    /// Only from the second attempt on.
    #[serde(rename = "R")]
    OnRetry,
    /// At all hops but the last.
    #[serde(rename = "M")]
    Hop,
    /// If it is on disk only.
    #[serde(rename = "D")]
    OnDisk,
    /// At all hops but the last; there, if it is on disk only.
    #[serde(rename = "Q")]
    HopOnDisk,
}

impl Overwrite {
    /// FTS3's letter; `None` is null there.
    pub fn letter(self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::Yes => Some("Y"),
            Self::OnRetry => Some("R"),
            Self::Hop => Some("M"),
            Self::OnDisk => Some("D"),
            Self::HopOnDisk => Some("Q"),
        }
    }
}

/// The parameters of a job that the service stores unchanged: for the executor, and for answers. A parameter that a row
/// of another version lacks has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the client, each its own")]
pub struct JobParams {
    /// `retry` as submitted: 0 the service's default, below 0 none, above 0 that many.
    pub retry: i32,
    /// Seconds between attempts; 0 leaves it to the service.
    pub retry_delay: u32,
    /// The treatment of an existing file.
    pub overwrite: Overwrite,
    /// The compared checksums.
    pub verify_checksum: ChecksumMode,
    /// Wall time allowed for one attempt, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Streams asked of the active party.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nostreams: Option<u32>,
    /// The only way to copy, if the client forces one (`pull`, `push`, `streamed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_mode: Option<String>,
    /// End of the file's time in the queue, in seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_in_queue: Option<i64>,
    /// Echoed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_spacetoken: Option<String>,
    /// Echoed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_spacetoken: Option<String>,
    /// FTS3's packed form of the protocol parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<String>,
    /// Keep the partial file of a failed attempt at the destination.
    pub disable_cleanup: bool,
    /// How to choose among several sources, in a job of [`SEVERAL_SOURCES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_strategy: Option<String>,
    /// Number of hops, in a job of [`SEVERAL_HOPS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Report an existing destination in the file's metadata.
    pub dst_file_report: bool,
    /// Seconds allowed for bringing a file online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bring_online: Option<u32>,
    /// Seconds for which a file that was brought online is to stay there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_pin_lifetime: Option<u32>,
    /// Seconds allowed until a copy is on tape; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_timeout: Option<u32>,
    /// The user came with a certificate: files that bring no tokens are moved with the proxy that was delegated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub certificate: bool,
    /// Its tokens are used as they are, and never renewed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unmanaged_tokens: bool,
}

impl JobParams {
    /// Whether the file of this index only passes where it is copied to.
    pub fn is_on_the_way(&self, index: u32) -> bool {
        self.hops.is_some_and(|hops| index + 1 < hops)
    }
}

/// Largest accepted size, also in clients' requests: 8 PiB, as much as a whole storage system holds. A larger one is an
/// error or a lie.
pub const SIZE_MAX: u64 = 1 << 53;

/// Longest time for one copy that is asked for, in seconds: a year, more than any copy takes, and a clock holds the sum.
pub const TIMEOUT_MAX: u64 = 366 * 86_400;

/// Bytes as databases hold them.
pub fn bytes(bytes: u64) -> i64 {
    bytes.min(SIZE_MAX) as i64
}

/// FTS3's delegation id of a user with a token: the first 16 hex digits of SHA-1 over issuer and subject.
pub fn cred_id(issuer: &str, subject: &str) -> String {
    let text = format!("{issuer}{subject}");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    hex(&digest.as_ref()[..8])
}

/// Reads the letter of a kind.
pub fn kind_of(text: &str) -> char {
    text.chars().next().unwrap_or('N')
}

/// The index of the file that is so far behind the first of a job of this kind.
pub fn index_of(kind: &str, place: i64) -> u32 {
    if kind_of(kind) == SEVERAL_SOURCES {
        0
    } else {
        place as u32
    }
}

/// A job as submitted, before the store has seen it.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: uuid::Uuid,
    /// FTS3's letter: `N` (normal), `Y` (session reuse asked), [`SEVERAL_SOURCES`] or [`SEVERAL_HOPS`].
    pub kind: char,
    /// The token's subject.
    pub user_dn: String,
    /// FTS3's delegation id: the owner of the job.
    pub cred_id: String,
    /// The user's VO.
    pub vo: String,
    /// When it was accepted.
    pub submitted: Millis,
    /// 1 to 5.
    pub priority: u8,
    /// `scheme://host` if all files share it.
    pub source_se: Option<String>,
    /// `scheme://host` if all files share it.
    pub dest_se: Option<String>,
    /// See [`JobParams`].
    pub params: JobParams,
    /// Echoed; a JSON object.
    pub metadata: Option<Box<RawValue>>,
}

/// The owner's key: the delegation id alone is a short hash over texts without separators, and does not include the VO.
pub fn owner(cred_id: &str, vo: &str, name: &str) -> String {
    // No VO has a line break in its name, and a delegation id is of hexadecimal digits.
    format!("{cred_id}\n{vo}\n{name}")
}

impl NewJob {
    /// The owner's key.
    pub fn owner(&self) -> String {
        owner(&self.cred_id, &self.vo, &self.user_dn)
    }

    /// Whether a file of this job is moved with the proxy that the user delegated.
    pub fn moves_by_proxy(&self, file: &File) -> bool {
        self.params.certificate && (file.spec.source_token.is_none() || file.spec.destination_token.is_none())
    }

    /// FTS3's word for how the user came in.
    pub fn auth_method(&self) -> &'static str {
        if self.params.certificate {
            "certificate"
        } else {
            "oauth2"
        }
    }
}

/// A file as submitted. Fields that a row of another version lacks have their defaults.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewFile {
    /// Its id: the transfer.
    #[serde(default)]
    pub id: u64,
    /// Place among the files of the job, from 0. Sources of one file share theirs.
    #[serde(default)]
    pub index: u32,
    /// The source; its query is shown as `***`, and kept in [`Self::secrets`].
    pub source: Surl,
    /// Where to; likewise.
    pub destination: Surl,
    /// Present only where needed: at submission, for the executor, and in an answer to the owner.
    #[serde(skip)]
    pub secrets: Option<Box<UrlSecrets>>,
    /// `ADLER32:0a1b2c3d`, or a bare algorithm name.
    #[serde(default)]
    pub checksum: String,
    /// The size the user expects; `None` if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_filesize: Option<u64>,
    /// Activity; `default` if not said.
    #[serde(default)]
    pub activity: String,
    /// How to choose among several sources of the file.
    #[serde(default)]
    pub selection_strategy: String,
    /// SciTag, 65 to 65535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u32>,
    /// Echoed; a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// Echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_metadata: Option<Box<RawValue>>,
    /// Echoed, and sent with the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_metadata: Option<Box<RawValue>>,
    /// The token for the source, as its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_token: Option<TokenHash>,
    /// The token for the destination, as its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_token: Option<TokenHash>,
}

/// The queries of a file's URLs, which often hold credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlSecrets {
    /// Of the source.
    pub source: Option<Secret>,
    /// Of the destination.
    pub destination: Option<Secret>,
}

impl NewFile {
    /// A file of which the client has said no more than its URLs.
    pub fn new(source: &Surl, destination: &Surl) -> Self {
        let mut file = Self {
            id: 0,
            index: 0,
            source: source.clone(),
            destination: destination.clone(),
            secrets: None,
            checksum: String::new(),
            user_filesize: None,
            activity: String::new(),
            selection_strategy: String::new(),
            scitag: None,
            metadata: None,
            staging_metadata: None,
            archive_metadata: None,
            source_token: None,
            destination_token: None,
        };
        file.set_urls(source, destination);
        file
    }

    /// Takes the URLs as the client wrote them.
    pub fn set_urls(&mut self, source: &Surl, destination: &Surl) {
        let (source, of_source) = source.conceal();
        let (destination, of_destination) = destination.conceal();
        (self.source, self.destination) = (source, destination);
        let any = of_source.is_some() || of_destination.is_some();
        self.secrets = any.then(|| {
            Box::new(UrlSecrets {
                source: of_source,
                destination: of_destination,
            })
        });
    }

    /// Whether a URL carries more than is shown.
    pub fn hides(&self) -> bool {
        self.source.conceals() || self.destination.conceals()
    }

    /// The source as the client wrote it, if its secrets are there.
    pub fn source_url(&self) -> Cow<'_, Surl> {
        let secrets = self.secrets.as_ref();
        self.source.reveal(secrets.and_then(|secrets| secrets.source.as_ref()))
    }

    /// The destination, likewise.
    pub fn destination_url(&self) -> Cow<'_, Surl> {
        let secrets = self.secrets.as_ref();
        let secret = secrets.and_then(|secrets| secrets.destination.as_ref());
        self.destination.reveal(secret)
    }
}

/// A job as stored.
#[derive(Debug, Clone)]
pub struct Job {
    /// As submitted; `priority` may have changed since.
    pub spec: NewJob,
    /// Follows from the files, or cancelled.
    pub state: JobState,
    /// When the last file came to its end.
    pub finished: Option<Millis>,
    /// Why it is not simply finished.
    pub reason: Option<String>,
    /// Whether the whole job was cancelled.
    pub cancelled: bool,
    /// Its files' states, counted.
    pub counts: Counts,
}

/// A file as stored. History keeps it in this very form (JSON): a field that comes later needs a default.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct File {
    /// As submitted.
    pub spec: NewFile,
    /// The job.
    pub job: uuid::Uuid,
    /// Where it stands.
    pub state: FileState,
    /// Attempts begun.
    pub attempts: u32,
    /// Begin of the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_started: Option<Millis>,
    /// Begin of the newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Millis>,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Millis>,
    /// Whether it is cancelled, and its attempt being stopped.
    pub stopping: bool,
    /// The file that attempts may have left at the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Bytes that travelled in all attempts that have ended.
    #[serde(default)]
    pub moved_total: u64,
    /// Its tape operations.
    #[serde(default, skip_serializing_if = "TapeTimes::is_empty")]
    pub tape: TapeTimes,
    /// How the newest attempt that ended went.
    pub result: FileResult,
}

/// A claim: the destination was free when an order of this transfer was sent, and the result of the order has not been
/// checked since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// When it was seen to be free, just before the order.
    pub since: Millis,
    /// When the order was over; `None` if no end is on record.
    pub until: Option<Millis>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_in_the_store_stay_what_they_are() {
        for state in FileState::ALL {
            assert_eq!(FileState::from_code(state.code()), state);
        }
        for state in JOB_STATES {
            assert_eq!(job_state_from_code(job_state_code(state)), state);
            assert_eq!(job_state_from_name(state.as_str()), Some(state));
        }
        assert_eq!(FileState::Finished.code(), 2);
        assert_eq!(
            (job_state_code(JobState::Active), job_state_code(JobState::Canceled)),
            (2, 7)
        );
    }
}
