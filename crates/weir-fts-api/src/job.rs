//! Jobs and files: answers of `/jobs`, `/files` and `/archive`.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use uuid::Uuid;
use weir_world::Waits;

use crate::{keyed::keyed, lenient::lenient, time::FtsTime};

/// Names of the states of a job, for its schema.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "the schema is made of them")]
enum JobStateName {
    Submitted,
    Staging,
    Active,
    Archiving,
    Finished,
    Finisheddirty,
    Failed,
    Canceled,
}

/// Names of the states of a file, for its schema.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "the schema is made of them")]
enum FileStateName {
    Submitted,
    ForceStart,
    Active,
    Staging,
    Started,
    Archiving,
    NotUsed,
    OnHold,
    Finished,
    Failed,
    Canceled,
}

keyed! {
    /// A job.
    pub struct Job<'a> {
        /// Its id.
        #[schemars(with = "Uuid")]
        pub job_id: Uuid,
        /// `SUBMITTED`, `STAGING`, `ACTIVE`, `ARCHIVING`, `FINISHED`, `FINISHEDDIRTY`, `FAILED` or `CANCELED`.
        #[schemars(with = "JobStateName")]
        pub job_state: Cow<'a, str>,
        /// `N` (files for themselves), `R` (several sources of one file), `H` (hops) or `Y` (reuse of sessions).
        #[serde(deserialize_with = "lenient")]
        pub job_type: Cow<'a, str>,
        /// Subject of the user's certificate, or of the token.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub user_dn: Cow<'a, str>,
        /// The delegation id of the user.
        #[serde(deserialize_with = "lenient")]
        pub cred_id: Cow<'a, str>,
        /// The VO of the user.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub vo_name: Cow<'a, str>,
        /// The reason of a failure, for people.
        #[serde(deserialize_with = "lenient")]
        pub reason: Cow<'a, str>,
        /// When it was accepted.
        #[serde(deserialize_with = "lenient")]
        pub submit_time: FtsTime,
        /// When its last file ended.
        #[serde(deserialize_with = "lenient")]
        pub job_finished: FtsTime,
        /// 1 to 5.
        #[schemars(with = "u8")]
        #[serde(deserialize_with = "lenient")]
        pub priority: u8,
        /// `scheme://host`; null if its files have several.
        #[serde(deserialize_with = "lenient")]
        pub source_se: Cow<'a, str>,
        /// `scheme://host`; null if its files have several.
        #[serde(deserialize_with = "lenient")]
        pub dest_se: Cow<'a, str>,
        /// Attempts after the first; 0: as many as the service makes by itself, below 0: none.
        #[serde(deserialize_with = "lenient")]
        pub retry: i32,
        /// Seconds between two attempts.
        #[serde(deserialize_with = "lenient")]
        pub retry_delay: u32,
        /// FTS3's letter for the way of overwriting.
        #[serde(deserialize_with = "lenient")]
        pub overwrite_flag: Cow<'a, str>,
        /// FTS3's letter for the compared checksums.
        #[serde(deserialize_with = "lenient")]
        pub verify_checksum: Cow<'a, str>,
        /// Seconds for a recall from tape; -1: no limit.
        #[serde(deserialize_with = "lenient")]
        pub bring_online: i64,
        /// Seconds that a recalled file stays on disk; -1: not said.
        #[serde(deserialize_with = "lenient")]
        pub copy_pin_lifetime: i64,
        /// Seconds for the migration to tape; -1: it is not awaited.
        #[serde(deserialize_with = "lenient")]
        pub archive_timeout: i64,
        /// Whether a report about an existing destination file is wanted.
        #[serde(deserialize_with = "lenient")]
        pub dst_file_report: bool,
        /// Seconds since the Unix epoch after which a waiting file is given up.
        #[serde(deserialize_with = "lenient")]
        pub max_time_in_queue: i64,
        /// Space token of the sources.
        #[serde(deserialize_with = "lenient")]
        pub source_spacetoken: Cow<'a, str>,
        /// Space token of the destinations.
        #[serde(deserialize_with = "lenient")]
        pub destination_spacetoken: Cow<'a, str>,
        /// Parameters of the copy, as FTS3 writes them for itself.
        #[serde(deserialize_with = "lenient")]
        pub internal_job_params: Cow<'a, str>,
        /// As submitted.
        #[schemars(with = "Option<Map<String, Value>>")]
        #[serde(deserialize_with = "lenient")]
        pub job_metadata: Value,
        /// The host that accepted it.
        #[serde(deserialize_with = "lenient")]
        pub submit_host: Cow<'a, str>,
        /// Whether a user cancelled it.
        #[serde(deserialize_with = "lenient")]
        pub cancel_job: bool,
        /// Null: not supported.
        #[serde(deserialize_with = "lenient")]
        pub target_qos: Cow<'a, str>,
        /// Null: not supported.
        #[serde(deserialize_with = "lenient")]
        pub os_project_id: Cow<'a, str>,
        /// As `destination_spacetoken`.
        #[serde(deserialize_with = "lenient")]
        pub space_token: Cow<'a, str>,
    }
    beside {
        /// Its files, where the request asks for them.
        #[schemars(with = "Vec<File<'a>>")]
        pub files: Vec<File<'a>>,
        /// `200 Ok` and the like, in answers about jobs by their ids.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub http_status: Cow<'a, str>,
        /// The reason why a job is not shown, or is not changed.
        #[serde(deserialize_with = "lenient")]
        pub http_message: Cow<'a, str>,
    }
}

impl Job<'static> {
    /// Reads an answer about one job or about several.
    ///
    /// # Errors
    /// It is no JSON, or no job.
    pub fn read_all(answer: &[u8]) -> Result<Vec<Self>, serde_json::Error> {
        if answer.trim_ascii_start().starts_with(b"[") {
            return serde_json::from_slice(answer);
        }
        serde_json::from_slice(answer).map(|job| vec![job])
    }
}

keyed! {
    /// A file of a job.
    pub struct File<'a> {
        /// Its id.
        #[schemars(with = "u64")]
        #[serde(deserialize_with = "lenient")]
        pub file_id: u64,
        /// Its place among the files of the job, from 0. Sources of one file share theirs.
        #[schemars(with = "u32")]
        #[serde(deserialize_with = "lenient")]
        pub file_index: u32,
        /// `SUBMITTED`, `ACTIVE`, `FINISHED` and so on.
        #[schemars(with = "FileStateName")]
        pub file_state: Cow<'a, str>,
        /// Empty.
        #[serde(deserialize_with = "lenient")]
        pub file_state_initial: Cow<'a, str>,
        /// Its job.
        #[schemars(with = "Uuid")]
        #[serde(deserialize_with = "lenient")]
        pub job_id: Uuid,
        /// URL of the source.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub source_surl: Cow<'a, str>,
        /// URL of the destination.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub dest_surl: Cow<'a, str>,
        /// `scheme://host` of the source.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub source_se: Cow<'a, str>,
        /// `scheme://host` of the destination.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub dest_se: Cow<'a, str>,
        /// The VO of the user.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub vo_name: Cow<'a, str>,
        /// The activity that it is for.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "lenient")]
        pub activity: Cow<'a, str>,
        /// 1 to 5.
        #[serde(deserialize_with = "lenient")]
        pub priority: u8,
        /// `ALGORITHM:VALUE`, or the algorithm alone.
        #[serde(deserialize_with = "lenient")]
        pub checksum: Cow<'a, str>,
        /// Bytes, once known.
        #[serde(deserialize_with = "lenient")]
        pub filesize: u64,
        /// Bytes as submitted; 0: not said.
        #[schemars(with = "u64")]
        #[serde(deserialize_with = "lenient")]
        pub user_filesize: u64,
        /// Rate of the copy in MiB/s.
        #[serde(deserialize_with = "lenient")]
        pub throughput: f64,
        /// Duration of the copy in seconds.
        #[serde(deserialize_with = "lenient")]
        pub tx_duration: f64,
        /// Attempts after the first.
        #[schemars(with = "u32")]
        #[serde(deserialize_with = "lenient")]
        pub retry: u32,
        /// Whether another attempt could help.
        #[serde(deserialize_with = "lenient")]
        pub recoverable: bool,
        /// The reason of a failure, for people.
        #[serde(deserialize_with = "lenient")]
        pub reason: Cow<'a, str>,
        /// Start of the newest attempt.
        #[serde(deserialize_with = "lenient")]
        pub start_time: FtsTime,
        /// End of the file.
        #[serde(deserialize_with = "lenient")]
        pub finish_time: FtsTime,
        /// Start of the recall from tape.
        #[serde(deserialize_with = "lenient")]
        pub staging_start: FtsTime,
        /// End of the recall from tape.
        #[serde(deserialize_with = "lenient")]
        pub staging_finished: FtsTime,
        /// Start of the migration to tape.
        #[serde(deserialize_with = "lenient")]
        pub archive_start_time: FtsTime,
        /// End of the migration to tape.
        #[serde(deserialize_with = "lenient")]
        pub archive_finish_time: FtsTime,
        /// As submitted.
        #[schemars(with = "Option<Map<String, Value>>")]
        pub file_metadata: Cow<'a, RawValue>,
        /// As submitted.
        #[schemars(with = "Option<Value>")]
        pub staging_metadata: Cow<'a, RawValue>,
        /// As submitted.
        #[schemars(with = "Option<Value>")]
        pub archive_metadata: Cow<'a, RawValue>,
        /// The choice among several sources.
        #[serde(deserialize_with = "lenient")]
        pub selection_strategy: Cow<'a, str>,
        /// SciTag, 65 to 65535.
        #[serde(deserialize_with = "lenient")]
        pub scitag: u32,
        /// The host that copied it.
        #[serde(deserialize_with = "lenient")]
        pub transfer_host: Cow<'a, str>,
        /// The host that recalled it from tape.
        #[serde(deserialize_with = "lenient")]
        pub staging_host: Cow<'a, str>,
        /// Null: the reason says everything.
        #[serde(deserialize_with = "lenient")]
        pub log_file: Cow<'a, str>,
        /// Null.
        #[serde(deserialize_with = "lenient")]
        pub log_debug: i64,
        /// Null.
        #[serde(deserialize_with = "lenient")]
        pub pid: i64,
        /// A number by which clients share work.
        #[schemars(with = "u16")]
        #[serde(deserialize_with = "lenient")]
        pub hashed_id: u16,
        /// Null.
        #[serde(deserialize_with = "lenient")]
        pub dest_surl_uuid: Cow<'a, str>,
        /// Null.
        #[serde(deserialize_with = "lenient")]
        pub internal_file_params: Cow<'a, str>,
        /// The request at the tape system.
        #[serde(deserialize_with = "lenient")]
        pub bringonline_token: Cow<'a, str>,
        /// Short name of the token for the source.
        #[serde(deserialize_with = "lenient")]
        pub src_token_id: Cow<'a, str>,
        /// Short name of the token for the destination.
        #[serde(deserialize_with = "lenient")]
        pub dst_token_id: Cow<'a, str>,
        /// As `retry`.
        #[serde(deserialize_with = "lenient")]
        pub current_failures: u32,
        /// Bytes that travelled in the newest attempt.
        #[serde(deserialize_with = "lenient")]
        pub transferred: u64,
        /// `pull`, `push`, `streamed` or `adopted`.
        #[serde(deserialize_with = "lenient")]
        pub transfer_type: Cow<'a, str>,
        /// The keys that FTS3 lacks.
        #[schemars(with = "FileExtension<'a>")]
        #[serde(deserialize_with = "lenient")]
        pub weir: FileExtension<'a>,
    }
}

/// Data of a file that only Weir's service has.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FileExtension<'a> {
    /// `pull`, `push`, `streamed` or `adopted`.
    pub mode: Option<Cow<'a, str>>,
    /// Bytes that travelled in the newest attempt.
    pub bytes_moved: Option<u64>,
    /// Bytes that travelled in all attempts.
    pub bytes_moved_total: Option<u64>,
    /// Bytes that the service saw moving, of a copy that succeeded.
    pub counted_bytes: Option<u64>,
    /// Milliseconds from the order to the first byte.
    pub first_byte_ms: Option<u64>,
    /// Seconds that the newest attempt spent in each state.
    #[schemars(with = "Option<BTreeMap<String, f64>>")]
    pub waits: Option<Box<Waits>>,
    /// Submission, in milliseconds since the Unix epoch.
    pub submitted_ms: Option<i64>,
    /// Start of the newest attempt, in milliseconds since the Unix epoch.
    pub started_ms: Option<i64>,
    /// End of the file, in milliseconds since the Unix epoch.
    pub finished_ms: Option<i64>,
    /// Class of the error.
    pub error_class: Option<Cow<'a, str>>,
    /// The responsible party: `source`, `destination` and so on.
    pub party: Option<Cow<'a, str>>,
    /// Phase of the attempt in which the error happened.
    pub phase: Option<Cow<'a, str>>,
    /// The remedy, for people.
    pub remedy: Option<Cow<'a, str>>,
    /// Attempts so far.
    pub attempts: Option<u32>,
    /// Whether a running copy is being stopped.
    pub stopping: Option<bool>,
}

/// A job of an answer about several that is not shown: there is none, or it is another's.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NotShown {
    /// The id as given.
    pub job_id: String,
    /// `404 Not Found` and the like.
    pub http_status: String,
    /// The reason, for people.
    pub http_message: String,
}

/// An attempt that was followed by another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Retry<'a> {
    /// The file.
    pub file_id: u64,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Its end.
    pub datetime: FtsTime,
    /// The reason of its failure.
    pub reason: Cow<'a, str>,
    /// The host that copied.
    pub transfer_host: Option<Cow<'a, str>>,
    /// Null: the reason says everything.
    pub log_file: Option<Cow<'a, str>>,
}

/// The answer to a submission.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// The id of the job.
    pub job_id: Uuid,
}

/// Counts of a cancellation of all jobs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct Affected {
    /// Files that were cancelled.
    pub affected_files: usize,
    /// Always 0: FTS3 gave up data management jobs.
    pub affected_dm: usize,
    /// Jobs that were cancelled.
    pub affected_jobs: usize,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    /// Recorded from an FTS3 3.14.
    const RECORDED: &str = r#"{"job_id":"1b2cb7dc-c6c9-11f0-a6d6-02420a580002","job_state":"FINISHED","job_type":"N","user_dn":"/DC=ch/CN=u",
        "cred_id":"0123456789abcdef","vo_name":"testvo","reason":null,"submit_time":"2026-11-21T11:03:03","job_finished":null,"priority":3,
        "source_se":"https://a.ex","dest_se":"https://b.ex","retry":3,"retry_delay":0,"overwrite_flag":"Y","verify_checksum":"b",
        "bring_online":-1,"copy_pin_lifetime":-1,"archive_timeout":-1,"dst_file_report":false,"max_time_in_queue":null,
        "job_metadata":{"m":1,"auth_method":"certificate"},"cancel_job":false,"target_qos":null,"http_status":"200 Ok","files":[{
        "file_id":8872398253,"file_index":0,"file_state":"FINISHED","source_surl":"https://a.ex/f","dest_surl":"https://b.ex/f","filesize":null,
        "user_filesize":10,"retry":0,"file_metadata":{"label":"lbl"},"hashed_id":17277,"start_time":"2026-11-21T11:03:04"}]}"#;

    #[test]
    fn an_answer_of_fts3_is_read() {
        for answer in [RECORDED.to_owned(), format!("[{RECORDED}]")] {
            let job = Job::read_all(answer.as_bytes()).unwrap().pop().unwrap();
            assert_eq!((job.priority, job.bring_online), (Some(3), Some(-1)));
            let file = &job.files.unwrap()[0];
            assert_eq!(file.file_id, Some(8_872_398_253));
            assert_eq!(file.file_metadata.as_ref().unwrap().get(), r#"{"label":"lbl"}"#);
        }
    }

    /// A service of another version would be asked in vain for the end of a job because of a key that nobody needs.
    #[test]
    fn a_key_of_another_form_is_passed_over() {
        let other = RECORDED.replace("\"priority\":3", "\"priority\":\"high\"");
        let other = other.replace("\"retry_delay\":0", "\"retry_delay\":{\"s\":1},\"more\":[1]");
        let job = Job::read_all(other.as_bytes()).unwrap().pop().unwrap();
        assert_eq!((job.priority, job.retry_delay), (None, None));
        assert_eq!(job.job_state.as_deref(), Some("FINISHED"));
    }

    /// One file with a time of another form would hide the states of all files of forty jobs.
    #[test]
    fn a_file_is_read_without_the_keys_of_another_form() {
        let other = RECORDED
            .replace("2026-11-21T11:03:04", "21 Nov 2026, 11:03")
            .replace("8872398253", "\"a-1\"");
        let job = Job::read_all(other.as_bytes()).unwrap().pop().unwrap();
        let file = &job.files.unwrap()[0];
        assert_eq!((file.file_id, file.start_time), (None, None));
        assert_eq!(file.file_state.as_deref(), Some("FINISHED"));
    }
}
