//! The messages: FTS3's keys, character by character (`tr_bt_transfered` is spelt so), times in milliseconds since the epoch.
//!
//! Keys of SRM, of staging and of things that this service does not do have the value that FTS3 gives them when they are not used.

use serde::Serialize;
use serde_json::value::RawValue;
use weir_executor::timeline::{Span, Timeline};
use weir_executor::{
    job::{FileResult, NewFile, NewJob, SEVERAL_HOPS, SEVERAL_SOURCES, TapeTimes},
    surl::Surl,
};
use weir_service::time::Millis;

/// A transfer as its messages show it.
pub(crate) struct Subject<'a> {
    pub job: &'a NewJob,
    pub file: &'a NewFile,
    /// This service's name: `endpnt`.
    pub endpoint: &'a str,
    /// From 1.
    pub attempt: u32,
    /// Retries that the service allows where the job leaves it to the service.
    pub retries: u8,
    /// Where its job's hops lead in the end.
    pub final_destination: Option<String>,
}

impl Subject<'_> {
    fn ends(&self) -> Ends {
        let end = |url: &Surl| (url.se(), url.host().to_owned());
        let ((src_se, src_host), (dst_se, dst_host)) = (end(&self.file.source), end(&self.file.destination));
        Ends {
            channel: format!("{src_se}__{dst_se}"),
            src_se,
            src_host,
            dst_se,
            dst_host,
        }
    }

    /// `2026-11-21-1830__src.example.org__dst.example.org__7__<job>`: the job's id follows the last `__`.
    fn transfer_id(&self, began: Millis, ends: &Ends) -> String {
        let time = weir_service::time::format(began);
        let (day, clock) = time.split_once('T').unwrap_or((&time, ""));
        let minute: String = clock.chars().filter(char::is_ascii_digit).take(4).collect();
        let (file, job) = (self.file.id, self.job.id);
        format!("{day}-{minute}__{}__{}__{file}__{job}", ends.src_host, ends.dst_host)
    }

    fn retry_max(&self) -> u32 {
        match self.job.params.retry {
            0 => u32::from(self.retries),
            retries => u32::try_from(retries).unwrap_or(0),
        }
    }
}

struct Ends {
    channel: String,
    src_se: String,
    src_host: String,
    dst_se: String,
    dst_host: String,
}

/// Metadata is JSON, or FTS3's empty text.
#[derive(Serialize)]
#[serde(untagged)]
enum Metadata<'a> {
    Json(&'a RawValue),
    None(&'static str),
}

impl<'a> From<&'a Option<Box<RawValue>>> for Metadata<'a> {
    fn from(raw: &'a Option<Box<RawValue>>) -> Self {
        raw.as_deref().map_or(Self::None(""), Self::Json)
    }
}

/// `ST`: an attempt began.
pub(crate) fn start(subject: &Subject<'_>, began: Millis) -> Vec<u8> {
    #[derive(Serialize)]
    struct Start<'a> {
        transfer_id: String,
        job_id: uuid::Uuid,
        file_id: u64,
        endpnt: &'a str,
        timestamp: Millis,
        src_srm_v: &'static str,
        dest_srm_v: &'static str,
        vo: &'a str,
        src_url: String,
        dst_url: String,
        src_hostname: &'a str,
        dst_hostname: &'a str,
        src_site_name: &'static str,
        dst_site_name: &'static str,
        t_channel: &'a str,
        srm_space_token_src: &'a str,
        srm_space_token_dst: &'a str,
        user_dn: &'a str,
        is_archiving: bool,
        file_metadata: Metadata<'a>,
        job_metadata: Metadata<'a>,
    }
    let (job, file, ends) = (subject.job, subject.file, subject.ends());
    line(&Start {
        transfer_id: subject.transfer_id(began, &ends),
        job_id: job.id,
        file_id: file.id,
        endpnt: subject.endpoint,
        timestamp: began,
        src_srm_v: "",
        dest_srm_v: "",
        vo: &job.vo,
        src_url: file.source.redacted(),
        dst_url: file.destination.redacted(),
        src_hostname: &ends.src_host,
        dst_hostname: &ends.dst_host,
        src_site_name: "",
        dst_site_name: "",
        t_channel: &ends.channel,
        srm_space_token_src: job.params.source_spacetoken.as_deref().unwrap_or_default(),
        srm_space_token_dst: job.params.destination_spacetoken.as_deref().unwrap_or_default(),
        user_dn: &job.user_dn,
        is_archiving: job.params.archive_timeout.is_some(),
        file_metadata: (&file.metadata).into(),
        job_metadata: (&job.metadata).into(),
    })
}

/// How an attempt ended, in FTS3's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file is there.
    Ok,
    /// It failed, for now or for good.
    Error,
    /// It was stopped.
    Abort,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "Ok",
            Self::Error => "Error",
            Self::Abort => "Abort",
        }
    }

    fn flag(self) -> i8 {
        match self {
            Self::Ok => 1,
            Self::Error => 0,
            Self::Abort => -1,
        }
    }
}

/// `CO`: an attempt ended. The state of its job is told of jobs with several sources only.
pub(crate) fn complete(
    subject: &Subject<'_>,
    times: &Timeline,
    verdict: Verdict,
    result: &FileResult,
    job_state: &'static str,
) -> Vec<u8> {
    let job_state = (subject.job.kind == SEVERAL_SOURCES).then_some(job_state);
    line(&Complete::new(subject, times, (verdict, job_state), result))
}

#[derive(Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "the keys are FTS3's"
)]
struct Complete<'a> {
    tr_id: String,
    job_id: uuid::Uuid,
    file_id: u64,
    endpnt: &'a str,
    src_srm_v: &'static str,
    dest_srm_v: &'static str,
    vo: &'a str,
    src_url: String,
    dst_url: String,
    src_hostname: String,
    dst_hostname: String,
    src_se: String,
    dst_se: String,
    protocol: String,
    src_protocol: String,
    dst_protocol: String,
    src_transfer_protocol: String,
    dst_transfer_protocol: String,
    protocol_translation: String,
    src_site_name: &'static str,
    dst_site_name: &'static str,
    t_channel: String,
    timestamp_tr_st: Millis,
    timestamp_tr_comp: Millis,
    timestamp_chk_src_st: Millis,
    timestamp_chk_src_ended: Millis,
    timestamp_checksum_dest_st: Millis,
    timestamp_checksum_dest_ended: Millis,
    t_timeout: u64,
    chk_timeout: i64,
    t_error_code: u32,
    tr_error_scope: &'static str,
    t_failure_phase: &'static str,
    tr_error_category: &'static str,
    t_final_transfer_state: &'static str,
    t_final_transfer_state_flag: i8,
    tr_bt_transfered: u64,
    nstreams: u32,
    buf_size: u64,
    tcp_buf_size: u64,
    block_size: u64,
    scitag: u32,
    f_size: u64,
    file_size: u64,
    time_srm_prep_st: Millis,
    time_srm_prep_end: Millis,
    time_srm_fin_st: Millis,
    time_srm_fin_end: Millis,
    srm_space_token_src: &'a str,
    srm_space_token_dst: &'a str,
    #[serde(rename = "t__error_message")]
    error_message: String,
    tr_timestamp_start: Millis,
    tr_timestamp_complete: Millis,
    transfer_time: Millis,
    operation_time: Millis,
    throughput: f64,
    srm_preparation_time: Millis,
    srm_finalization_time: Millis,
    srm_overhead_time: Millis,
    srm_overhead_percentage: f64,
    timestamp_checksum_src_diff: Millis,
    timestamp_checksum_dst_diff: Millis,
    channel_type: &'static str,
    user_dn: &'a str,
    file_metadata: Metadata<'a>,
    job_metadata: Metadata<'a>,
    activity: &'a str,
    retry: u32,
    retry_max: u32,
    job_m_replica: bool,
    job_multihop: bool,
    transfer_lasthop: bool,
    is_archiving: bool,
    job_state: &'static str,
    is_recoverable: bool,
    ipv6: bool,
    ipver: &'static str,
    eviction_code: i32,
    cleanup_code: i32,
    final_destination: String,
    transfer_type: &'static str,
    auth_method: &'static str,
    overwrite_on_disk_flag: bool,
    overwrite_on_disk_deletion_code: i32,
}

impl<'a> Complete<'a> {
    #[expect(clippy::too_many_lines, reason = "one line for each key of FTS3's message")]
    fn new(
        subject: &Subject<'a>,
        times: &Timeline,
        (verdict, job_state): (Verdict, Option<&'static str>),
        result: &FileResult,
    ) -> Self {
        let (job, file, ends) = (subject.job, subject.file, subject.ends());
        let protocol = |url: &Surl| url.scheme().as_str().to_owned();
        let (src_protocol, dst_protocol) = (protocol(&file.source), protocol(&file.destination));
        // Before the copy is preparation, after it finalization; an attempt that never copied was preparation to its end.
        let copy = times.copy.unwrap_or(Span {
            from: times.ended,
            to: times.ended,
        });
        let told = |span: Option<Span>| span.map_or((0, 0), |span| (span.from, span.to));
        let (source_from, source_to) = told(times.source_checksum);
        let (destination_from, destination_to) = told(times.destination_checksum);
        let (copy_from, copy_to) = told(times.copy);
        let operation = times.ended - times.began;
        let transfer = copy.to - copy.from;
        let seconds = transfer as f64 / 1e3;
        let overhead = operation - transfer;
        let size = result.filesize.or(file.user_filesize).unwrap_or_default();
        let failed = verdict != Verdict::Ok;
        Self {
            tr_id: subject.transfer_id(times.began, &ends),
            job_id: job.id,
            file_id: file.id,
            endpnt: subject.endpoint,
            src_srm_v: "",
            dest_srm_v: "",
            vo: &job.vo,
            src_url: file.source.redacted(),
            dst_url: file.destination.redacted(),
            src_hostname: ends.src_host,
            dst_hostname: ends.dst_host,
            src_se: ends.src_se,
            dst_se: ends.dst_se,
            protocol: dst_protocol.clone(),
            src_transfer_protocol: src_protocol.clone(),
            dst_transfer_protocol: dst_protocol.clone(),
            protocol_translation: format!("{src_protocol}->{dst_protocol}"),
            src_protocol,
            dst_protocol,
            src_site_name: "",
            dst_site_name: "",
            t_channel: ends.channel,
            timestamp_tr_st: copy_from,
            timestamp_tr_comp: copy_to,
            timestamp_chk_src_st: source_from,
            timestamp_chk_src_ended: source_to,
            timestamp_checksum_dest_st: destination_from,
            timestamp_checksum_dest_ended: destination_to,
            t_timeout: times.timeout,
            chk_timeout: 0,
            t_error_code: if failed { error_code(result) } else { 0 },
            tr_error_scope: if failed { scope(result) } else { "" },
            t_failure_phase: if failed { phase(result) } else { "" },
            tr_error_category: if failed { category(error_code(result)) } else { "" },
            t_final_transfer_state: verdict.word(),
            t_final_transfer_state_flag: verdict.flag(),
            // Bytes that moved, not the size of the file: a failed transfer must not count as its size.
            tr_bt_transfered: result.bytes_moved,
            nstreams: job.params.nostreams.unwrap_or(1),
            buf_size: 0,
            tcp_buf_size: 0,
            block_size: 0,
            scitag: file.scitag.unwrap_or_default(),
            f_size: size,
            file_size: size,
            time_srm_prep_st: times.began,
            time_srm_prep_end: copy.from,
            time_srm_fin_st: copy.to,
            time_srm_fin_end: times.ended,
            srm_space_token_src: job.params.source_spacetoken.as_deref().unwrap_or_default(),
            srm_space_token_dst: job.params.destination_spacetoken.as_deref().unwrap_or_default(),
            error_message: if failed {
                plain(result.reason.as_deref().unwrap_or_default())
            } else {
                String::new()
            },
            tr_timestamp_start: times.began,
            tr_timestamp_complete: times.ended,
            transfer_time: transfer,
            operation_time: operation,
            throughput: if seconds > 0.0 {
                result.bytes_moved as f64 / seconds
            } else {
                0.0
            },
            srm_preparation_time: copy.from - times.began,
            srm_finalization_time: times.ended - copy.to,
            srm_overhead_time: overhead,
            srm_overhead_percentage: if operation > 0 {
                overhead as f64 * 100.0 / operation as f64
            } else {
                0.0
            },
            timestamp_checksum_src_diff: source_to - source_from,
            timestamp_checksum_dst_diff: destination_to - destination_from,
            channel_type: "urlcopy",
            user_dn: &job.user_dn,
            file_metadata: (&file.metadata).into(),
            job_metadata: (&job.metadata).into(),
            activity: &file.activity,
            retry: subject.attempt.saturating_sub(1),
            retry_max: subject.retry_max(),
            job_m_replica: job.kind == SEVERAL_SOURCES,
            job_multihop: job.kind == SEVERAL_HOPS,
            transfer_lasthop: job.kind == SEVERAL_HOPS && !job.params.is_on_the_way(file.index),
            is_archiving: job.params.archive_timeout.is_some(),
            // FTS3 says more only for jobs of several replicas or hops.
            job_state: job_state.unwrap_or("UNKNOWN"),
            is_recoverable: failed && result.recoverable.unwrap_or(false),
            ipv6: false,
            ipver: "unknown",
            eviction_code: -1,
            cleanup_code: -1,
            final_destination: subject.final_destination.clone().unwrap_or_default(),
            transfer_type: transfer_type(result),
            auth_method: job.auth_method(),
            overwrite_on_disk_flag: false,
            overwrite_on_disk_deletion_code: -1,
        }
    }
}

/// `SS`: a file changed its state.
pub(crate) fn state(subject: &Subject<'_>, change: &StateChange<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    #[allow(clippy::struct_field_names, reason = "the keys are FTS3's")]
    struct State<'a> {
        user_dn: &'a str,
        src_url: String,
        dst_url: String,
        vo_name: &'a str,
        source_se: String,
        dest_se: String,
        job_id: uuid::Uuid,
        file_id: u64,
        job_state: &'a str,
        file_state: &'a str,
        retry_counter: u32,
        retry_max: u32,
        user_filesize: u64,
        timestamp: Millis,
        submit_time: Millis,
        staging_start: Millis,
        staging_finished: Millis,
        staging: bool,
        archiving_start: Millis,
        archiving_finished: Millis,
        archiving: bool,
        reason: String,
        endpnt: &'a str,
        job_metadata: Metadata<'a>,
        file_metadata: Metadata<'a>,
    }
    let (job, file, ends) = (subject.job, subject.file, subject.ends());
    let nothing = TapeTimes::default();
    let tape = change.tape.unwrap_or(&nothing);
    line(&State {
        user_dn: &job.user_dn,
        src_url: file.source.redacted(),
        dst_url: file.destination.redacted(),
        vo_name: &job.vo,
        source_se: ends.src_se,
        dest_se: ends.dst_se,
        job_id: job.id,
        file_id: file.id,
        job_state: change.job,
        file_state: change.file,
        retry_counter: subject.attempt.saturating_sub(1),
        retry_max: subject.retry_max(),
        user_filesize: file.user_filesize.unwrap_or_default(),
        timestamp: change.at,
        submit_time: job.submitted,
        staging_start: tape.staging_start.unwrap_or_default(),
        staging_finished: tape.staging_finished.unwrap_or_default(),
        staging: job.params.bring_online.is_some(),
        archiving_start: tape.archive_start.unwrap_or_default(),
        archiving_finished: tape.archive_finished.unwrap_or_default(),
        archiving: job.params.archive_timeout.is_some(),
        reason: change.reason.map(plain).unwrap_or_default(),
        endpnt: subject.endpoint,
        job_metadata: (&job.metadata).into(),
        file_metadata: (&file.metadata).into(),
    })
}

/// The content of a state message beside its subject.
pub(crate) struct StateChange<'a> {
    pub job: &'a str,
    pub file: &'a str,
    pub at: Millis,
    pub reason: Option<&'a str>,
    /// The tape operations of the file.
    pub tape: Option<&'a TapeTimes>,
}

/// One line: JSON has no line breaks of its own.
fn line(message: &impl Serialize) -> Vec<u8> {
    // No map with keys that are no text, and no value that refuses: this cannot fail.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Printable ASCII without quotes, at most 1024 characters: the format that readers of these messages expect.
fn plain(text: &str) -> String {
    let kept = text.chars().filter(|c| !matches!(c, '\n' | '"' | '\''));
    kept.map(|c| if (' '..='~').contains(&c) { c } else { ' ' })
        .take(1024)
        .collect()
}

/// The number in `SCOPE [errno] message`.
fn error_code(result: &FileResult) -> u32 {
    let reason = result.reason.as_deref().unwrap_or_default();
    let number = reason.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(5)
}

fn scope(result: &FileResult) -> &'static str {
    match result.party {
        Some(weir_world::Party::Source) => "SOURCE",
        Some(weir_world::Party::Destination) => "DESTINATION",
        _ => "TRANSFER",
    }
}

fn phase(result: &FileResult) -> &'static str {
    match result.phase {
        Some(weir_world::Phase::Preparation) => "TRANSFER_PREPARATION",
        Some(weir_world::Phase::Finalization) => "TRANSFER_FINALIZATION",
        _ => "TRANSFER",
    }
}

/// FTS3 groups errors by the name of their number.
fn category(errno: u32) -> &'static str {
    match errno {
        2 => "FILE_NOT_FOUND",
        13 => "PERMISSION_DENIED",
        16 => "DEVICE_BUSY",
        17 => "FILE_EXISTS",
        28 => "NO_SPACE_LEFT",
        30 => "READ_ONLY",
        71 => "PROTOCOL_ERROR",
        107 | 111 | 112 => "CONNECTION_ERROR",
        110 => "TIMEOUT",
        125 => "CANCELED",
        129 => "AUTHENTICATION",
        _ => "GENERAL_FAILURE",
    }
}

fn transfer_type(result: &FileResult) -> &'static str {
    match result.mode.as_deref() {
        Some("pull") => "3rd pull",
        Some("push") => "3rd push",
        Some("streamed") => "streamed",
        _ => "",
    }
}
