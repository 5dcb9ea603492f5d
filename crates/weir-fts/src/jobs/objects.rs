//! Jobs and files as JSON objects: the values of FTS3's keys, all or some of them, and Weir's own.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use weir_executor::{
    job::{File, Job},
    surl::Surl,
};
use weir_fts_api::{self as api, FileExtension, FtsTime, Keyed as _};
use weir_service::time::Millis;
use weir_world::{ErrorClass, Party, Phase};

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
        let keys = [key.to_owned()];
        let object = JobObject {
            keys: Some(&keys),
            ..JobObject::plain(self.job, self.host)
        };
        serde_json::to_value(object).ok()?.get_mut(key).map(Value::take)
    }

    /// Sets the value of one key.
    fn set(&self, object: &mut api::Job<'a>, key: &str) {
        let (job, spec) = (self.job, &self.job.spec);
        let params = &spec.params;
        match key {
            "job_id" => object.job_id = Some(spec.id),
            "job_state" => object.job_state = Some(job.state.as_str().into()),
            "job_type" => object.job_type = Some(spec.kind.to_string().into()),
            "user_dn" => object.user_dn = Some(spec.user_dn.as_str().into()),
            "cred_id" => object.cred_id = Some(spec.cred_id.as_str().into()),
            "vo_name" => object.vo_name = Some(spec.vo.as_str().into()),
            "reason" => object.reason = job.reason.as_deref().map(Cow::from),
            "submit_time" => object.submit_time = Some(FtsTime(spec.submitted)),
            "job_finished" => object.job_finished = job.finished.map(FtsTime),
            "priority" => object.priority = Some(spec.priority),
            "source_se" => object.source_se = spec.source_se.as_deref().map(Cow::from),
            "dest_se" => object.dest_se = spec.dest_se.as_deref().map(Cow::from),
            "retry" => object.retry = Some(params.retry),
            "retry_delay" => object.retry_delay = Some(params.retry_delay),
            "overwrite_flag" => object.overwrite_flag = params.overwrite.letter().map(Cow::from),
            "verify_checksum" => object.verify_checksum = Some(params.verify_checksum.letter().into()),
            "bring_online" => object.bring_online = Some(seconds(params.bring_online)),
            "copy_pin_lifetime" => object.copy_pin_lifetime = Some(seconds(params.copy_pin_lifetime)),
            "archive_timeout" => object.archive_timeout = Some(seconds(params.archive_timeout)),
            "dst_file_report" => object.dst_file_report = Some(params.dst_file_report),
            "max_time_in_queue" => object.max_time_in_queue = params.max_time_in_queue,
            "source_spacetoken" => object.source_spacetoken = params.source_spacetoken.as_deref().map(Cow::from),
            "destination_spacetoken" => {
                object.destination_spacetoken = params.destination_spacetoken.as_deref().map(Cow::from);
            }
            "space_token" => object.space_token = params.destination_spacetoken.as_deref().map(Cow::from),
            "internal_job_params" => object.internal_job_params = params.internal.as_deref().map(Cow::from),
            "job_metadata" => object.job_metadata = Some(self.metadata()),
            "submit_host" => object.submit_host = self.host.map(Cow::from),
            "cancel_job" => object.cancel_job = Some(job.cancelled),
            _ => {}
        }
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

/// The whole URL, which shows the query to its owner alone: the store hides it from others.
fn url(surl: Cow<'_, Surl>) -> Cow<'_, str> {
    match surl {
        Cow::Borrowed(surl) => surl.as_str().into(),
        Cow::Owned(surl) => surl.as_str().to_owned().into(),
    }
}

fn seconds(limit: Option<u32>) -> i64 {
    limit.map_or(-1, i64::from)
}

impl Serialize for JobObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut map, mut object) = (serializer.serialize_map(None)?, api::Job::default());
        let mut put = |key: &str| {
            self.set(&mut object, key);
            object.write(&mut map, key)
        };
        match self.keys {
            None => api::Job::KEYS.iter().try_for_each(|key| put(key))?,
            Some(keys) => keys.iter().try_for_each(|key| put(key))?,
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

impl<'a> FileObject<'a> {
    /// Spread over 16 bits, as clients that shard by it expect. Files that go together share theirs.
    fn hashed_id(&self) -> u16 {
        let number = match self.job.spec.kind {
            'N' => self.file.spec.id,
            _ => self.job.spec.id.as_u128() as u64,
        };
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
    }

    /// Sets the value of one key: pollers ask for few keys of ten thousand files at a time.
    fn set(&self, object: &mut api::File<'a>, key: &str) {
        let (file, spec, result, tape) = (self.file, &self.file.spec, &self.file.result, &self.file.tape);
        let time = |at: Option<Millis>| at.map(FtsTime);
        match key {
            "file_id" => object.file_id = Some(spec.id),
            "file_index" => object.file_index = Some(spec.index),
            "file_state" => object.file_state = Some(file.state.as_str().into()),
            "file_state_initial" => object.file_state_initial = Some("".into()),
            "job_id" => object.job_id = Some(file.job),
            "source_surl" => object.source_surl = Some(url(spec.source_url())),
            "dest_surl" => object.dest_surl = Some(url(spec.destination_url())),
            "source_se" => object.source_se = Some(spec.source.se().into()),
            "dest_se" => object.dest_se = Some(spec.destination.se().into()),
            "vo_name" => object.vo_name = Some(self.job.spec.vo.as_str().into()),
            "activity" => object.activity = Some(spec.activity.as_str().into()),
            "priority" => object.priority = Some(self.job.spec.priority),
            "checksum" => object.checksum = Some(spec.checksum.as_str().into()),
            "filesize" => object.filesize = result.filesize,
            "user_filesize" => object.user_filesize = Some(spec.user_filesize.unwrap_or(0)),
            "throughput" => object.throughput = self.throughput(),
            "tx_duration" => object.tx_duration = self.seconds(),
            "retry" => object.retry = Some(self.retries()),
            "current_failures" => object.current_failures = Some(self.retries()),
            "recoverable" => object.recoverable = result.recoverable,
            "reason" => object.reason = result.reason.as_deref().map(Cow::from),
            "start_time" => object.start_time = time(file.started),
            "finish_time" => object.finish_time = time(file.finished),
            "selection_strategy" => object.selection_strategy = Some(spec.selection_strategy.as_str().into()),
            "scitag" => object.scitag = spec.scitag,
            "transfer_host" => object.transfer_host = self.transfer_host(),
            "transferred" => object.transferred = Some(result.bytes_moved),
            "transfer_type" => object.transfer_type = result.mode.as_deref().map(Cow::from),
            "file_metadata" => object.file_metadata = spec.metadata.as_deref().map(Cow::Borrowed),
            "staging_metadata" => object.staging_metadata = spec.staging_metadata.as_deref().map(Cow::Borrowed),
            "archive_metadata" => object.archive_metadata = spec.archive_metadata.as_deref().map(Cow::Borrowed),
            "hashed_id" => object.hashed_id = Some(self.hashed_id()),
            "src_token_id" => object.src_token_id = spec.source_token.map(|hash| hash.short().into()),
            "dst_token_id" => object.dst_token_id = spec.destination_token.map(|hash| hash.short().into()),
            "staging_start" => object.staging_start = time(tape.staging_start),
            "staging_finished" => object.staging_finished = time(tape.staging_finished),
            "archive_start_time" => object.archive_start_time = time(tape.archive_start),
            "archive_finish_time" => object.archive_finish_time = time(tape.archive_finished),
            "staging_host" => object.staging_host = tape.staging_start.and(self.host).map(Cow::from),
            "bringonline_token" => object.bringonline_token = tape.request.as_deref().map(Cow::from),
            "weir" => object.weir = Some(self.weir()),
            _ => {}
        }
    }

    fn transfer_host(&self) -> Option<Cow<'a, str>> {
        let host = self.file.result.host.as_deref().or(self.host);
        self.file.started.and(host).map(Cow::from)
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
    fn weir(&self) -> FileExtension<'a> {
        let (file, result) = (self.file, &self.file.result);
        FileExtension {
            mode: result.mode.as_deref().map(Cow::from),
            bytes_moved: Some(result.bytes_moved),
            bytes_moved_total: Some(file.moved_total),
            counted_bytes: result.counted,
            first_byte_ms: result.first_byte_ms,
            waits: result.waits.clone(),
            submitted_ms: Some(self.job.spec.submitted),
            started_ms: file.started,
            finished_ms: file.finished,
            error_class: result.class.map(ErrorClass::as_str).map(Cow::from),
            party: result.party.map(Party::as_str).map(Cow::from),
            phase: result.phase.map(Phase::as_str).map(Cow::from),
            remedy: result.remedy.as_deref().map(Cow::from),
            attempts: Some(file.attempts),
            stopping: Some(file.stopping),
        }
    }
}

impl Serialize for FileObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut map, mut object) = (serializer.serialize_map(None)?, api::File::default());
        let mut put = |key: &str| {
            self.set(&mut object, key);
            object.write(&mut map, key)
        };
        match self.keys {
            None => api::File::KEYS.iter().try_for_each(|key| put(key))?,
            Some(keys) => keys.iter().try_for_each(|key| put(key))?,
        }
        map.end()
    }
}
