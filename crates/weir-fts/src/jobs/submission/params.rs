//! The `params` of a submission.

use serde_json::Value;
use uuid::Uuid;

use super::{
    BASE_ID, Refusal, SubmissionLimits, Submitter,
    files::FileEntry,
    values::{self, Object},
};
use weir_executor::{
    job::{ChecksumMode, JobParams, NewFile, NewJob, Overwrite, SEVERAL_HOPS, SEVERAL_SOURCES, TIMEOUT_MAX},
    surl::Surl,
};
use weir_service::time::Millis;

/// Seconds allowed for staging, or of a pin, if only the other is said.
const WEEK: u32 = 604_800;

/// The id FTS3 gives to a `sid` of a VO: `uuid5(uuid5(BASE_ID, vo), sid)`.
pub(crate) fn job_id_of(vo: &str, sid: &str) -> Uuid {
    Uuid::new_v5(&Uuid::new_v5(&BASE_ID, vo.as_bytes()), sid.as_bytes())
}

/// Reads the job's own parameters. The second value is whether the id is deterministic.
///
/// Checksum mode and storages are not settled yet: they depend on the files.
pub(super) fn job(
    submitted: &Object,
    user: &Submitter,
    limits: &SubmissionLimits,
    now: Millis,
) -> Result<(NewJob, bool), Refusal> {
    let (id, deterministic) = job_id(submitted, user)?;
    let job = NewJob {
        id,
        kind: kind(submitted),
        user_dn: user.user_dn.clone(),
        cred_id: user.cred_id.clone(),
        vo: user.vo.clone(),
        submitted: now,
        priority: values::integer(submitted, "priority")?.unwrap_or(3).clamp(1, 5) as u8,
        source_se: None,
        dest_se: None,
        params: kept(submitted, user.token.is_none(), now)?,
        metadata: values::metadata(
            submitted.get("job_metadata"),
            "Job metadata",
            limits.job_metadata,
            false,
        )?,
    };
    Ok((job, deterministic))
}

fn kind(submitted: &Object) -> char {
    if values::flag(submitted, "multihop") {
        SEVERAL_HOPS
    } else if values::flag(submitted, "reuse") {
        'Y'
    } else {
        'N'
    }
}

fn kept(submitted: &Object, certificate: bool, now: Millis) -> Result<JobParams, Refusal> {
    let destination_spacetoken = match values::text(submitted, "destination_spacetoken")? {
        None => values::text(submitted, "spacetoken")?,
        given => given,
    };
    let max_time_in_queue = values::seconds(submitted, "max_time_in_queue", 3600)?
        .filter(|seconds| *seconds > 0)
        .map(|seconds| (now / 1000).saturating_add(seconds));
    let (bring_online, copy_pin_lifetime) = staging(submitted)?;
    Ok(JobParams {
        certificate,
        retry: values::integer(submitted, "retry")?.unwrap_or(0).clamp(-1, 1000) as i32,
        retry_delay: values::integer(submitted, "retry_delay")?
            .unwrap_or(0)
            .clamp(0, 7 * 86_400) as u32,
        overwrite: overwrite(submitted)?,
        verify_checksum: ChecksumMode::None,
        timeout: positive(submitted, "timeout")?.map(|seconds| seconds.min(TIMEOUT_MAX)),
        nostreams: positive(submitted, "nostreams")?.map(|n| n.min(100) as u32),
        copy_mode: copy_mode(submitted)?,
        max_time_in_queue,
        source_spacetoken: values::text(submitted, "source_spacetoken")?,
        destination_spacetoken,
        internal: internal(submitted)?,
        disable_cleanup: values::flag(submitted, "disable_cleanup"),
        selection_strategy: None,
        hops: None,
        dst_file_report: values::flag(submitted, "dst_file_report"),
        bring_online,
        copy_pin_lifetime,
        archive_timeout: from_zero(submitted, "archive_timeout")?,
        unmanaged_tokens: values::flag(submitted, "unmanaged_tokens"),
    })
}

fn job_id(params: &Object, user: &Submitter) -> Result<(Uuid, bool), Refusal> {
    match values::text(params, "id_generator")?.as_deref() {
        None | Some("standard") => Ok((Uuid::new_v4(), false)),
        Some("deterministic") => match sid(params)? {
            Some(sid) => Ok((job_id_of(&user.vo, &sid), true)),
            None => Err(Refusal::bad("Deterministic id generator requires 'sid' to be given")),
        },
        Some(other) => Err(Refusal::invalid(format!("unknown id_generator '{other}'"))),
    }
}

/// A number is taken by its digits, as FTS3 does.
fn sid(params: &Object) -> Result<Option<String>, Refusal> {
    match values::get(params, "sid") {
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        _ => values::text(params, "sid"),
    }
}

fn overwrite(params: &Object) -> Result<Overwrite, Refusal> {
    let [yes, on_retry, on_disk, hop] = [
        "overwrite",
        "overwrite_on_retry",
        "overwrite_when_only_on_disk",
        "overwrite_hop",
    ]
    .map(|key| values::flag(params, key));
    let overwrite = match (yes, on_retry, on_disk, hop) {
        (false, false, false, false) => Overwrite::No,
        (true, false, false, false) => Overwrite::Yes,
        (false, true, false, false) => Overwrite::OnRetry,
        (false, false, true, false) => Overwrite::OnDisk,
        (false, false, false, true) => Overwrite::Hop,
        (false, false, true, true) => Overwrite::HopOnDisk,
        _ => return Err(Refusal::bad("Incompatible overwrite flags used at the same time")),
    };
    if on_disk && values::integer(params, "archive_timeout")?.unwrap_or(-1) <= 0 {
        return Err(Refusal::bad(
            "'overwrite-when-only-on-disk' requires 'archive-timeout' to be set",
        ));
    }
    Ok(overwrite)
}

/// Checks the overwrite mode against the kind of the job and its destinations.
pub(super) fn check_overwrite(files: &[NewFile], job: &NewJob) -> Result<(), Refusal> {
    let mode = job.params.overwrite;
    if matches!(mode, Overwrite::Hop | Overwrite::HopOnDisk) && job.kind != SEVERAL_HOPS {
        return Err(Refusal::bad("'overwrite-hop' requires multihop job submission"));
    }
    let mut ends = files.iter().filter(|file| !job.params.is_on_the_way(file.index));
    if matches!(mode, Overwrite::OnDisk | Overwrite::HopOnDisk)
        && !ends.all(|file| file.destination.scheme().is_encrypted())
    {
        return Err(Refusal::bad(
            "'overwrite-when-only-on-disk' requires destination to be HTTPs endpoint (Tape REST API required)",
        ));
    }
    Ok(())
}

/// Several sources make a job of one file; hops are one file each.
pub(super) fn settle_kind(files: &[FileEntry], job: &mut NewJob) -> Result<(), Refusal> {
    let several_sources = files.windows(2).any(|pair| pair[0].index() == pair[1].index());
    if several_sources {
        if job.kind != 'N' {
            return Err(Refusal::bad(
                "Can not request multiple replica job together with multihop or session reuse at the same time",
            ));
        }
        if files.iter().any(|file| file.index() > 0) {
            return Err(Refusal::bad("Multiple replica jobs must only have one unique file"));
        }
        job.kind = SEVERAL_SOURCES;
    }
    if job.kind == SEVERAL_HOPS {
        job.params.hops = Some(files.len() as u32);
    }
    Ok(())
}

/// The strategy of the first file is the job's.
pub(super) fn settle_strategy(files: &[NewFile], job: &mut NewJob) {
    if job.kind == SEVERAL_SOURCES {
        job.params.selection_strategy = files.first().map(|file| file.selection_strategy.clone());
    }
}

/// FTS3 stages if either is above zero, and has a week for the other.
fn staging(params: &Object) -> Result<(Option<u32>, Option<u32>), Refusal> {
    let given = |key| -> Result<Option<u32>, Refusal> { Ok(from_zero(params, key)?.filter(|seconds| *seconds > 0)) };
    Ok(match (given("bring_online")?, given("copy_pin_lifetime")?) {
        (None, None) => (None, None),
        (online, pin) => (online.or(Some(WEEK)), pin.or(Some(WEEK))),
    })
}

fn from_zero(params: &Object, key: &str) -> Result<Option<u32>, Refusal> {
    let seconds = values::integer(params, key)?.filter(|seconds| *seconds >= 0);
    Ok(seconds.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)))
}

fn copy_mode(params: &Object) -> Result<Option<String>, Refusal> {
    match values::text(params, "copy_mode")?.as_deref() {
        None => Ok(None),
        Some(mode @ ("pull" | "push" | "streamed")) => Ok(Some(mode.to_owned())),
        Some(other) => Err(Refusal::invalid(format!(
            "copy_mode is pull, push or streamed, not '{other}'"
        ))),
    }
}

fn positive(params: &Object, key: &str) -> Result<Option<u64>, Refusal> {
    Ok(values::integer(params, key)?
        .and_then(|n| u64::try_from(n).ok())
        .filter(|n| *n > 0))
}

/// FTS3's packed form, which it echoes as `internal_job_params`.
fn internal(params: &Object) -> Result<Option<String>, Refusal> {
    let mut parts = Vec::new();
    for (key, name) in [
        ("nostreams", "nostreams"),
        ("timeout", "timeout"),
        ("buffer_size", "buffersize"),
    ] {
        if let Some(number) = positive(params, key)? {
            parts.push(format!("{name}:{number}"));
        }
    }
    for (key, name) in [("strict_copy", "strict"), ("disable_cleanup", "disable-cleanup")] {
        if values::flag(params, key) {
            parts.push(name.to_owned());
        }
    }
    if values::flag(params, "ipv4") {
        parts.push("ipv4".to_owned());
    } else if values::flag(params, "ipv6") {
        parts.push("ipv6".to_owned());
    }
    if values::flag(params, "s3alternate") {
        parts.push("s3alternate".to_owned());
    }
    Ok((!parts.is_empty()).then(|| parts.join(",")))
}

/// A string's first letter counts; `true` is both sides; `false` is the destination if any file brings a checksum.
pub(super) fn settle_checksum_mode(params: &Object, files: &[FileEntry], job: &mut NewJob) -> Result<(), Refusal> {
    let any_checksum = files.iter().any(|file| file.checksum_given);
    job.params.verify_checksum = match values::get(params, "verify_checksum") {
        None | Some(Value::Bool(false)) if any_checksum => ChecksumMode::Target,
        None | Some(Value::Bool(false)) => ChecksumMode::None,
        Some(Value::Bool(true)) => ChecksumMode::Both,
        Some(Value::String(text)) => match text.as_bytes().first().map(u8::to_ascii_lowercase) {
            None | Some(b'n') => ChecksumMode::None,
            Some(b's') => ChecksumMode::Source,
            Some(b't') => ChecksumMode::Target,
            Some(b'b') => ChecksumMode::Both,
            Some(_) => {
                return Err(Refusal::invalid(format!(
                    "verify_checksum is none, source, target or both, not '{text}'"
                )));
            }
        },
        Some(_) => return Err(Refusal::invalid("verify_checksum is neither a flag nor a string")),
    };
    Ok(())
}

/// A file is copied to itself only where it is not copied: in a job that brings it online.
pub(super) fn check_same(files: &[NewFile], job: &NewJob) -> Result<(), Refusal> {
    for file in files {
        let (source, destination) = (file.source_url(), file.destination_url());
        let staged = job.params.bring_online.is_some();
        // Stage-only files are compared without the secret query.
        let same_query = source.query() == destination.query() || (staged && file.source == file.destination);
        let same = source.identity() == destination.identity() && same_query;
        let staged_only = staged && source.as_str() == destination.as_str();
        if same && !staged_only {
            return Err(Refusal::invalid(format!(
                "source and destination are the same ({source})"
            )));
        }
    }
    Ok(())
}

/// The job's storages are those of its files if they all agree; for hops, the first source and the last destination.
/// Session reuse requires that they agree.
pub(super) fn settle_storages(files: &[NewFile], job: &mut NewJob) -> Result<(), Refusal> {
    let common = |url_of: fn(&NewFile) -> &Surl| {
        let mut urls = files.iter().map(url_of);
        let first = urls.next()?;
        urls.all(|url| url.storage() == first.storage()).then(|| first.se())
    };
    (job.source_se, job.dest_se) = match files {
        [first, .., last] if job.kind == SEVERAL_HOPS => (Some(first.source.se()), Some(last.destination.se())),
        _ => (common(|file| &file.source), common(|file| &file.destination)),
    };
    if job.kind == 'Y' && (job.source_se.is_none() || job.dest_se.is_none()) {
        return Err(Refusal::bad(
            "Reuse jobs must only contain transfers for the same source ad destination storage",
        ));
    }
    Ok(())
}
