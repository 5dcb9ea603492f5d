//! Jobs and files as JSON objects: FTS3's keys, all or some of them, and Weir's own.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use weir_executor::job::{File, Job};
use weir_service::time;

/// Keys of a job, in the order in which they are written.
const JOB_KEYS: [&str; 30] = [
    "job_id",
    "job_state",
    "job_type",
    "user_dn",
    "cred_id",
    "vo_name",
    "reason",
    "submit_time",
    "job_finished",
    "priority",
    "source_se",
    "dest_se",
    "retry",
    "retry_delay",
    "overwrite_flag",
    "verify_checksum",
    "bring_online",
    "copy_pin_lifetime",
    "archive_timeout",
    "dst_file_report",
    "max_time_in_queue",
    "source_spacetoken",
    "destination_spacetoken",
    "internal_job_params",
    "job_metadata",
    "submit_host",
    "cancel_job",
    "target_qos",
    "os_project_id",
    "space_token",
];

/// Keys of a file, in the order in which they are written.
const FILE_KEYS: [&str; 46] = [
    "file_id",
    "file_index",
    "file_state",
    "file_state_initial",
    "job_id",
    "source_surl",
    "dest_surl",
    "source_se",
    "dest_se",
    "vo_name",
    "activity",
    "priority",
    "checksum",
    "filesize",
    "user_filesize",
    "throughput",
    "tx_duration",
    "retry",
    "recoverable",
    "reason",
    "start_time",
    "finish_time",
    "staging_start",
    "staging_finished",
    "archive_start_time",
    "archive_finish_time",
    "file_metadata",
    "staging_metadata",
    "archive_metadata",
    "selection_strategy",
    "scitag",
    "transfer_host",
    "staging_host",
    "log_file",
    "log_debug",
    "pid",
    "hashed_id",
    "dest_surl_uuid",
    "internal_file_params",
    "bringonline_token",
    "src_token_id",
    "dst_token_id",
    "current_failures",
    "transferred",
    "transfer_type",
    "weir",
];

/// A job, as it answers to a request.
#[derive(Debug)]
pub(crate) struct JobObject<'a> {
    pub(crate) job: &'a Job,
    /// Of the one node that there is. `None`: there are several.
    pub(crate) host: Option<&'a str>,
    /// `None`: all keys.
    pub(crate) keys: Option<&'a [String]>,
    /// `200 Ok` and the like.
    pub(crate) http_status: Option<&'a str>,
    /// Null, or a text.
    pub(crate) http_message: Option<Value>,
    pub(crate) files: Option<Vec<FileObject<'a>>>,
}

impl<'a> JobObject<'a> {
    pub(crate) fn plain(job: &'a Job, host: Option<&'a str>) -> Self {
        Self {
            job,
            host,
            keys: None,
            http_status: None,
            http_message: None,
            files: None,
        }
    }

    /// One value; `None` if there is no such key.
    pub(crate) fn field(&self, key: &str) -> Option<Value> {
        let (job, spec) = (self.job, &self.job.spec);
        let params = &spec.params;
        Some(match key {
            "job_id" => json!(spec.id),
            "job_state" => json!(job.state.as_str()),
            "job_type" => json!(spec.kind),
            "user_dn" => json!(spec.user_dn),
            "cred_id" => json!(spec.cred_id),
            "vo_name" => json!(spec.vo),
            "reason" => json!(job.reason),
            "submit_time" => json!(time::format(spec.submitted)),
            "job_finished" => time::json(job.finished),
            "priority" => json!(spec.priority),
            "source_se" => json!(spec.source_se),
            "dest_se" => json!(spec.dest_se),
            "retry" => json!(params.retry),
            "retry_delay" => json!(params.retry_delay),
            "overwrite_flag" => json!(params.overwrite.letter()),
            "verify_checksum" => json!(params.verify_checksum.letter()),
            "bring_online" => seconds(params.bring_online),
            "copy_pin_lifetime" => seconds(params.copy_pin_lifetime),
            "archive_timeout" => seconds(params.archive_timeout),
            "dst_file_report" => json!(params.dst_file_report),
            "max_time_in_queue" => json!(params.max_time_in_queue),
            "source_spacetoken" => json!(params.source_spacetoken),
            "destination_spacetoken" | "space_token" => json!(params.destination_spacetoken),
            "internal_job_params" => json!(params.internal),
            "job_metadata" => self.metadata(),
            "submit_host" => json!(self.host),
            "cancel_job" => json!(job.cancelled),
            "target_qos" | "os_project_id" => Value::Null,
            _ => return None,
        })
    }

    /// As submitted, with the key that FTS3 adds.
    fn metadata(&self) -> Value {
        let text = self.job.spec.metadata.as_ref().map(|raw| raw.get());
        let mut value = text
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_else(|| json!({}));
        if let Value::Object(object) = &mut value {
            object
                .entry("auth_method")
                .or_insert_with(|| json!(self.job.spec.auth_method()));
        }
        value
    }
}

fn seconds(limit: Option<u32>) -> Value {
    limit.map_or(json!(-1), |limit| json!(limit))
}

impl Serialize for JobObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.keys {
            None => {
                for key in JOB_KEYS {
                    map.serialize_entry(key, &self.field(key))?;
                }
            }
            Some(keys) => {
                for key in keys {
                    if let Some(value) = self.field(key) {
                        map.serialize_entry(key, &value)?;
                    }
                }
            }
        }
        if let Some(files) = &self.files {
            map.serialize_entry("files", files)?;
        }
        if let Some(status) = self.http_status {
            map.serialize_entry("http_status", status)?;
        }
        if let Some(message) = &self.http_message {
            map.serialize_entry("http_message", message)?;
        }
        map.end()
    }
}

/// A file, as it answers to a request.
#[derive(Debug)]
pub(crate) struct FileObject<'a> {
    pub(crate) file: &'a File,
    pub(crate) job: &'a Job,
    /// Of the one node that there is. `None`: there are several.
    pub(crate) host: Option<&'a str>,
    /// `None`: all keys.
    pub(crate) keys: Option<&'a [String]>,
}

impl FileObject<'_> {
    /// Spread over 16 bits, as clients that shard by it expect. Files that go together share theirs.
    fn hashed_id(&self) -> u16 {
        let number = match self.job.spec.kind {
            'N' => self.file.spec.id,
            _ => self.job.spec.id.as_u128() as u64,
        };
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
    }

    /// Writes one key; nothing if there is no such key. Straight into the answer: pollers ask for ten thousand files at a time.
    fn write<M: SerializeMap>(&self, map: &mut M, key: &str) -> Result<(), M::Error> {
        macro_rules! put {
            ($value:expr) => {
                map.serialize_entry(key, &$value)
            };
        }
        let (file, spec, result) = (self.file, &self.file.spec, &self.file.result);
        match key {
            "file_id" => put!(spec.id),
            "file_index" => put!(spec.index),
            "file_state" => put!(file.state.as_str()),
            "file_state_initial" => put!(""),
            "job_id" => put!(file.job),
            "source_surl" => put!(spec.source_url()),
            "dest_surl" => put!(spec.destination_url()),
            "source_se" => put!(spec.source.se()),
            "dest_se" => put!(spec.destination.se()),
            "vo_name" => put!(self.job.spec.vo),
            "activity" => put!(spec.activity),
            "priority" => put!(self.job.spec.priority),
            "checksum" => put!(spec.checksum),
            "filesize" => put!(result.filesize),
            "user_filesize" => put!(spec.user_filesize.unwrap_or(0)),
            "throughput" => put!(self.throughput()),
            "tx_duration" => put!(self.seconds()),
            "retry" | "current_failures" => put!(self.retries()),
            "recoverable" => put!(result.recoverable),
            "reason" => put!(result.reason),
            "start_time" => put!(file.started.map(time::format)),
            "finish_time" => put!(file.finished.map(time::format)),
            "selection_strategy" => put!(spec.selection_strategy),
            "scitag" => put!(spec.scitag),
            "transfer_host" => put!(file.started.and(result.host.as_deref().or(self.host))),
            "transferred" => put!(result.bytes_moved),
            "transfer_type" => put!(result.mode),
            "file_metadata" => put!(spec.metadata),
            "staging_metadata" => put!(spec.staging_metadata),
            "archive_metadata" => put!(spec.archive_metadata),
            "hashed_id" => put!(self.hashed_id()),
            "src_token_id" => put!(spec.source_token.map(|hash| hash.short())),
            "dst_token_id" => put!(spec.destination_token.map(|hash| hash.short())),
            "staging_start" => put!(file.tape.staging_start.map(time::format)),
            "staging_finished" => put!(file.tape.staging_finished.map(time::format)),
            "archive_start_time" => put!(file.tape.archive_start.map(time::format)),
            "archive_finish_time" => put!(file.tape.archive_finished.map(time::format)),
            "staging_host" => put!(file.tape.staging_start.and(self.host)),
            "bringonline_token" => put!(file.tape.request),
            "log_file" | "log_debug" | "pid" | "dest_surl_uuid" | "internal_file_params" => put!(()),
            "weir" => put!(self.weir()),
            _ => Ok(()),
        }
    }

    /// Attempts that had to be made again: bringing a file online and watching its copy are none.
    fn retries(&self) -> u32 {
        let tape = &self.file.tape;
        let steps = u32::from(tape.staging_finished.is_some()) + u32::from(tape.archive_start.is_some());
        self.file.attempts.saturating_sub(1 + steps)
    }

    /// Duration of the copy, without later waits.
    fn seconds(&self) -> Option<f64> {
        let ended = self.file.tape.archive_start.or(self.file.finished)?;
        Some((ended - self.file.started?).max(0) as f64 / 1000.0)
    }

    /// MiB/s, as FTS3 has it.
    fn throughput(&self) -> Option<f64> {
        let seconds = self.seconds().filter(|seconds| *seconds > 0.0)?;
        Some(self.file.result.filesize? as f64 / seconds / f64::from(1 << 20))
    }

    /// The keys that FTS3 lacks.
    fn weir(&self) -> Value {
        let (file, result) = (self.file, &self.file.result);
        json!({
            "mode": result.mode,
            "bytes_moved": result.bytes_moved,
            "bytes_moved_total": file.moved_total,
            "counted_bytes": result.counted,
            "first_byte_ms": result.first_byte_ms,
            "submitted_ms": self.job.spec.submitted,
            "started_ms": file.started,
            "finished_ms": file.finished,
            "error_class": result.class,
            "party": result.party,
            "phase": result.phase,
            "remedy": result.remedy,
            "attempts": file.attempts,
            "stopping": file.stopping,
        })
    }
}

impl Serialize for FileObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.keys {
            None => FILE_KEYS.iter().try_for_each(|key| self.write(&mut map, key))?,
            Some(keys) => keys.iter().try_for_each(|key| self.write(&mut map, key))?,
        }
        map.end()
    }
}
