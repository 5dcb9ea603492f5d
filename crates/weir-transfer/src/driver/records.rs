//! Between the core's records and the store's changes.

use std::sync::Arc;

use uuid::Uuid;
use weir_executor::{
    job::{CANCELED_REASON, FileResult, FileState, NewJob, SEVERAL_HOPS, SEVERAL_SOURCES},
    surl::{Scheme, Surl},
};
use weir_sched::{End, JobId, Next, TransferSpec};
use weir_service::time::Millis;
use weir_units::{Bytes, Timestamp};
use weir_world::{ErrorClass, Failure, OpId, Party, Retry, TransferId, Waits};

use crate::store::{Change, FollowUp, LiveJob, Submission};
use weir_sched::{
    JobSpec, Live, LiveState, Names, Priority, Record, Route, RouteKind, SeId, Strategy, Tape, Terms, Work,
};

/// Milliseconds of a core's time.
pub(crate) fn millis(at: Timestamp) -> Millis {
    at.as_millis() as Millis
}

fn timestamp(at: Millis) -> Timestamp {
    Timestamp(u64::try_from(at).unwrap_or_default().saturating_mul(1_000_000))
}

/// A job as the core sees it.
pub(crate) fn job_spec(submission: &Submission, names: &mut Names) -> Arc<JobSpec> {
    let (terms, mut memos) = (terms(&submission.job, names), Default::default());
    let transfers: Vec<TransferSpec> = submission
        .files
        .iter()
        .map(|file| {
            transfer_spec(
                names,
                &mut memos,
                file.id,
                [&file.source, &file.destination],
                file.user_filesize,
                &file.activity,
                submission.job.params.tape(file.index, &file.source, &file.destination),
            )
        })
        .collect();
    Arc::new(JobSpec {
        job: JobId(submission.job.id.as_u128()),
        terms,
        routes: routes(&submission.job, transfers.len()),
        transfers,
    })
}

/// The relation between the files of a job.
fn route_kind(job: &NewJob) -> Option<RouteKind> {
    match job.kind {
        SEVERAL_SOURCES => {
            let strategy = job.params.selection_strategy.as_deref().and_then(Strategy::named);
            Some(RouteKind::Replicas(strategy.unwrap_or_default()))
        }
        SEVERAL_HOPS => Some(RouteKind::Hops),
        _ => None,
    }
}

fn routes(job: &NewJob, files: usize) -> Vec<Route> {
    let route = |kind| Route {
        kind,
        places: 0..files,
        live: 0,
    };
    route_kind(job).map(route).into_iter().collect()
}

/// The storage element of the last location. Files of a job share theirs, and a queue of millions is brought back in seconds.
#[derive(Default)]
struct Memo(Option<(Scheme, String, SeId)>);

impl Memo {
    fn se(&mut self, names: &mut Names, url: &Surl) -> SeId {
        if let Some((scheme, host, se)) = &self.0
            && (*scheme, host.as_str()) == (url.scheme(), url.host())
        {
            return *se;
        }
        let se = names.se(&url.se());
        self.0 = Some((url.scheme(), url.host().to_owned(), se));
        se
    }
}

fn transfer_spec(
    names: &mut Names,
    memos: &mut [Memo; 2],
    id: u64,
    [source, destination]: [&Surl; 2],
    size: Option<u64>,
    activity: &str,
    tape: Tape,
) -> TransferSpec {
    let [from, to] = memos;
    TransferSpec {
        id: TransferId(id),
        source: from.se(names, source),
        destination: to.se(names, destination),
        size: Bytes(size.unwrap_or_default()),
        // As FTS3 compares them with shares.
        activity: names.activity(&activity.to_lowercase()),
        tape,
    }
}

fn terms(job: &NewJob, names: &mut Names) -> Terms {
    Terms {
        priority: Priority::new(i64::from(job.priority)),
        vo: names.vo(&job.vo),
        retries: job.params.retry,
        retry_delay: std::time::Duration::from_secs(u64::from(job.params.retry_delay)),
        deadline: Timestamp::ZERO,
    }
}

/// The file that a job begins with, if its others wait for it.
pub(crate) fn begins(job: &LiveJob) -> Option<u64> {
    route_kind(&job.job)?;
    let began = job.files.iter().find(|file| file.state != FileState::NotUsed);
    began.map(|file| file.file)
}

/// A job's live files as the core is given them back.
pub(crate) fn live(job: &LiveJob, names: &mut Names) -> Vec<Record> {
    let (terms, mut memos) = (terms(&job.job, names), Default::default());
    let first = job.files.first().map(|file| TransferId(file.file));
    let route = route_kind(&job.job).zip(first);
    // The file's index tells its hop, which matters for tape.
    let index_of = |file: &crate::store::Live| match job.job.params.hops {
        Some(_) => (file.file - job.first) as u32,
        None => 0,
    };
    let record = |file: &crate::store::Live| {
        let spec = transfer_spec(
            names,
            &mut memos,
            file.file,
            [&file.source, &file.destination],
            file.size,
            &file.activity,
            job.job.params.tape(index_of(file), &file.source, &file.destination),
        );
        let state = match (file.stopping, file.running) {
            _ if file.state == FileState::NotUsed => LiveState::Held,
            (true, _) => LiveState::Stopping,
            (false, true) => LiveState::Active,
            (false, false) if file.state == FileState::ForceStart => LiveState::Forced,
            (false, false) => LiveState::Queued,
        };
        Record::Live(Live {
            transfer: spec,
            terms,
            route,
            state,
            work: match state {
                LiveState::Held => spec.first_work(),
                _ => file.state.work(),
            },
            attempt: file.attempts,
            failures: file.follow_up.failures,
            free_retries: file.follow_up.free_retries,
            resume: file.follow_up.resume,
            not_before: timestamp(file.follow_up.not_before),
        })
    };
    job.files.iter().map(record).collect()
}

/// The changes of a started attempt.
pub(crate) fn started(op: OpId, work: Work, now: Timestamp) -> Change {
    Change::Begin {
        file: op.transfer.0,
        work,
        attempt: op.attempt,
        epoch: op.epoch,
        at: millis(now),
    }
}

/// The changes of an ended attempt. `cancel_reason` is the reason of a stopped file, if one was given.
pub(crate) fn ended(
    op: OpId,
    work: Work,
    end: &End,
    next: Next,
    now: Timestamp,
    cancel_reason: Option<String>,
) -> Change {
    let (file, at) = (op.transfer.0, millis(now));
    let mut result = result(end);
    match next {
        Next::Finished => Change::End {
            file,
            work,
            at,
            state: FileState::Finished,
            result,
        },
        Next::Failed => Change::End {
            file,
            work,
            at,
            state: FileState::Failed,
            result,
        },
        Next::Cancelled => {
            result.reason = Some(cancel_reason.unwrap_or_else(|| CANCELED_REASON.to_owned()));
            result.class = Some(ErrorClass::Cancelled);
            (result.party, result.phase, result.remedy, result.recoverable) = (None, None, None, None);
            Change::End {
                file,
                work,
                at,
                state: FileState::Canceled,
                result,
            }
        }
        Next::Queued { work: next, .. } if next != work => Change::Advance {
            file,
            at,
            next,
            result: (work == Work::Copy).then_some(result),
        },
        Next::Queued {
            not_before,
            failures,
            free_retries,
            resume,
            ..
        } => {
            let follow_up = FollowUp {
                not_before: millis(not_before),
                failures,
                free_retries,
                resume,
            };
            Change::Again {
                file,
                work,
                attempt: op.attempt,
                at,
                result,
                follow_up,
            }
        }
        Next::Cleanup { not_before } => {
            let follow_up = FollowUp {
                not_before: millis(not_before),
                resume: true,
                ..FollowUp::default()
            };
            Change::Again {
                file,
                work,
                attempt: op.attempt,
                at,
                result,
                follow_up,
            }
        }
    }
}

/// Notes with the result of an operation which node carried it out, if there are several, and what it waited for.
pub(crate) fn carried_out(change: &mut Change, host: Option<&str>, waits: Option<&Waits>) {
    match change {
        Change::End { result, .. }
        | Change::Again { result, .. }
        | Change::Advance {
            result: Some(result), ..
        } => {
            result.host = host.map(str::to_owned);
            result.waits = waits.copied().map(Box::new);
        }
        _ => {}
    }
}

fn result(end: &End) -> FileResult {
    match end {
        End::Done {
            bytes,
            mode,
            counted,
            first_byte,
        } => FileResult {
            filesize: Some(bytes.0),
            bytes_moved: bytes.0,
            counted: counted.map(|bytes| bytes.0),
            first_byte_ms: first_byte.map(|after| after.as_millis() as u64),
            mode: Some(mode.as_str().to_owned()),
            ..FileResult::default()
        },
        End::Adopted { bytes } => FileResult {
            filesize: Some(bytes.0),
            mode: Some("adopted".to_owned()),
            ..FileResult::default()
        },
        End::Ready => FileResult::default(),
        End::Failed(failure) => FileResult {
            bytes_moved: failure.bytes_moved.0,
            reason: Some(reason(failure)),
            class: Some(failure.class),
            party: Some(failure.party),
            phase: Some(failure.phase),
            remedy: (!failure.remedy.is_empty()).then(|| failure.remedy.clone()),
            recoverable: Some(failure.retry != Retry::Never),
            ..FileResult::default()
        },
        End::Stopped { bytes_moved } => FileResult {
            bytes_moved: bytes_moved.0,
            reason: Some("TRANSFER [125] the attempt was stopped; another follows".to_owned()),
            recoverable: Some(true),
            ..FileResult::default()
        },
        End::Lost => FileResult {
            reason: Some("TRANSFER [107] the attempt was lost from sight; another follows".to_owned()),
            recoverable: Some(true),
            ..FileResult::default()
        },
    }
}

/// A failure in the shape of FTS3's reasons, `SCOPE [errno] message`, with phase and remedy.
///
/// `DESTINATION [28] TRANSFER no space left (free space at the destination, or raise the quota)`
pub(crate) fn reason(failure: &Failure) -> String {
    let scope = match failure.party {
        Party::Source => "SOURCE",
        Party::Destination => "DESTINATION",
        Party::TransferService | Party::Catalogue | Party::Issuer | Party::Network => "TRANSFER",
    };
    let phase = failure.phase.as_str().to_ascii_uppercase();
    let remedy = if failure.remedy.is_empty() {
        String::new()
    } else {
        format!(" ({})", failure.remedy)
    };
    format!("{scope} [{}] {phase} {}{remedy}", errno(failure.class), failure.message)
}

/// Linux's number nearest to a class: tools of the field sort failures by it.
fn errno(class: ErrorClass) -> u32 {
    match class {
        ErrorClass::NotFound | ErrorClass::Forgotten => 2,
        ErrorClass::Checksum | ErrorClass::Size | ErrorClass::Internal => 5,
        ErrorClass::Permission => 13,
        ErrorClass::Overload => 16,
        ErrorClass::Exists => 17,
        ErrorClass::NoSpace => 28,
        ErrorClass::ReadOnly => 30,
        ErrorClass::Protocol => 71,
        ErrorClass::Network => 111,
        ErrorClass::Timeout | ErrorClass::Stall | ErrorClass::Unfinished => 110,
        ErrorClass::Tls => 112,
        ErrorClass::Cancelled => 125,
        ErrorClass::Token => 129,
    }
}

/// A job's name as clients write it.
pub(crate) fn uuid(job: JobId) -> Uuid {
    Uuid::from_u128(job.0)
}

#[cfg(test)]
mod tests {
    use weir_world::Phase;

    use super::*;
    use crate::testing::surl;

    #[test]
    fn a_reason_names_everything_and_keeps_the_words_clients_look_for() {
        let failure = Failure {
            class: ErrorClass::Exists,
            party: Party::Destination,
            phase: Phase::Preparation,
            message: "Destination file exists and overwrite is not enabled".into(),
            remedy: "submit with overwrite".into(),
            bytes_moved: Bytes(0),
            retry: Retry::Never,
        };
        let text =
            "DESTINATION [17] PREPARATION Destination file exists and overwrite is not enabled (submit with overwrite)";
        assert_eq!(reason(&failure), text);
    }

    #[test]
    fn only_the_last_hop_is_watched_for_tape() {
        // A hop before it would wait for a tape that its storage does not have, once the last one was cancelled.
        let mut job = crate::store::submission(1, 5, 3).job;
        job.kind = SEVERAL_HOPS;
        let params = &mut job.params;
        (params.hops, params.bring_online, params.archive_timeout) = (Some(3), Some(60), Some(0));
        let file = |file| crate::store::Live {
            file,
            source: surl(format!("https://a.ex/{file}")),
            destination: surl(format!("https://b.ex/{file}")),
            activity: "default".into(),
            size: None,
            attempts: 0,
            running: false,
            stopping: false,
            state: FileState::Submitted,
            follow_up: FollowUp::default(),
        };
        let tapes = |files: &[u64]| {
            let files = files.iter().map(|id| file(*id)).collect();
            let job = LiveJob {
                job: job.clone(),
                first: 5,
                files,
            };
            let tape = |record| match record {
                Record::Live(live) => (
                    live.transfer.tape.stage != weir_sched::Staging::No,
                    live.transfer.tape.archive,
                ),
                other => panic!("{other:?}"),
            };
            live(&job, &mut Names::default())
                .into_iter()
                .map(tape)
                .collect::<Vec<_>>()
        };
        assert_eq!(tapes(&[5, 6, 7]), [(true, false), (false, false), (false, true)]);
        assert_eq!(tapes(&[5, 6]), [(true, false), (false, false)]);
        assert_eq!(tapes(&[6]), [(false, false)]);
        assert_eq!(tapes(&[7]), [(false, true)]);
    }

    #[test]
    fn a_storage_element_is_remembered_only_for_its_own_places() {
        let (mut names, mut memo) = (Names::default(), Memo::default());
        for url in [
            "https://a.ex:8443/f",
            "https://A.ex:8443/g/h",
            "https://a.ex:8444/g",
            "https://a.exa/g",
            "davs://a.exa/g",
            "https://a.ex:8443/f",
        ] {
            let url = surl(url);
            let se = memo.se(&mut names, &url);
            assert_eq!(names.se_name(se), url.se());
        }
    }

    #[test]
    fn a_cancelled_file_says_why_and_blames_nobody() {
        let op = OpId {
            transfer: TransferId(7),
            attempt: 2,
            epoch: 1,
        };
        let end = End::Stopped { bytes_moved: Bytes(5) };
        let change = ended(op, Work::Copy, &end, Next::Cancelled, Timestamp(2_000_000), None);
        let Change::End {
            file: 7,
            work: Work::Copy,
            at: 2,
            state: FileState::Canceled,
            result,
        } = change
        else {
            panic!("{change:?}")
        };
        assert_eq!(result.reason.as_deref(), Some(CANCELED_REASON));
        assert_eq!((result.bytes_moved, result.party), (5, None));
    }
}
