//! The answers of a transfer service about jobs, and the resulting ends of requests. Pure.

use std::collections::HashMap;

use serde::Deserialize;
use uuid::Uuid;
use weir_fts_api::{File, FileExtension, Job};
use weir_rules::place::End;
use weir_service::time::Millis;

use crate::requests::{Attempt, CopyTimes, Ended, outgoing::Carried, uid::Tag};

/// Fields of files that are asked for. `weir` is an addition of Weir's own service.
pub const FIELDS: &str = "file_id,file_state,file_metadata,reason,start_time,finish_time,weir";

/// A job as the service knows it.
#[derive(Debug)]
pub struct JobAnswer {
    /// Its id.
    pub job_id: Uuid,
    job: Job<'static>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default)]
    request_id: Option<String>,
}

/// States of jobs in which nothing changes any more.
const FINAL: [&str; 4] = ["FINISHED", "FAILED", "FINISHEDDIRTY", "CANCELED"];

impl JobAnswer {
    /// A job of an answer; `None` if it has no id.
    pub fn of(job: Job<'static>) -> Option<Self> {
        let job_id = job.job_id?;
        Some(Self { job_id, job })
    }

    /// A job that the service does not know.
    pub fn unknown(job_id: Uuid) -> Self {
        let job = Job {
            http_status: Some("404 Not Found".into()),
            ..Job::default()
        };
        Self { job_id, job }
    }

    fn files(&self) -> &[File<'static>] {
        self.job.files.as_deref().unwrap_or_default()
    }

    /// The ids of the service for the files of these attempts.
    pub fn file_ids(&self, attempts: &[Attempt], tag: Tag) -> Vec<u64> {
        let is_one = |file: &&File<'_>| {
            attempt(file, tag).is_some_and(|at| attempts.iter().any(|one| at == (one.request, one.number)))
        };
        let files = self.files().iter().filter(is_one);
        files.filter_map(|file| file.file_id).collect()
    }

    /// The ends of the attempts that the job carries; unfinished ones are left out.
    pub fn ends(&self, attempts: &[Carried], tag: Tag) -> Vec<Ended> {
        let status = self.job.http_status.as_deref().unwrap_or("200");
        let lost = |one: &Carried| Ended {
            attempt: one.attempt,
            end: End::Lost,
            reason: Some(format!(
                "the transfer service does not know the job {} or its file any more",
                self.job_id
            )),
            times: CopyTimes::default(),
        };
        if status.starts_with("404") {
            return attempts.iter().map(lost).collect();
        }
        if !status.starts_with("200") {
            return Vec::new();
        }
        let told = self.files().iter().filter_map(|file| Some((attempt(file, tag)?, file)));
        let told = told.collect::<HashMap<_, _>>();
        let is_final = self
            .job
            .job_state
            .as_deref()
            .is_some_and(|state| FINAL.contains(&state));
        // A file that never had its turn has the reason of the hop before it.
        let failed = self.files().iter().filter(|file| state(file) == "FAILED");
        let reason = failed
            .filter_map(|file| file.reason.as_deref())
            .find(|reason| !reason.is_empty());
        let end = |one: &Carried| match told.get(&(one.attempt.request, one.attempt.number)) {
            Some(file) => end_of(file, *one, reason),
            None if is_final => Some(lost(one)),
            None => None,
        };
        attempts.iter().filter_map(end).collect()
    }
}

fn state<'a>(file: &'a File<'_>) -> &'a str {
    file.file_state.as_deref().unwrap_or_default()
}

/// The attempt that a file is, if it is one of this catalogue.
fn attempt(file: &File<'_>, tag: Tag) -> Option<(weir_rules::ids::RequestId, u64)> {
    let metadata = serde_json::from_str::<Metadata>(file.file_metadata.as_ref()?.get()).ok()?;
    tag.read(&metadata.request_id?)
}

fn end_of(file: &File<'_>, Carried { attempt, is_cancelled }: Carried, others: Option<&str>) -> Option<Ended> {
    let end = match state(file) {
        "FINISHED" => End::Done,
        "CANCELED" if is_cancelled => End::Cancelled,
        // An operator of the service cancelled it: that is a failure, which is repeated so often and not for ever.
        "CANCELED" | "FAILED" | "NOT_USED" => End::Failed {
            recoverable: is_recoverable(file),
            has_other_source: false,
        },
        _ => return None,
    };
    let own = file.reason.as_deref().filter(|own| !own.is_empty());
    let said = weir_auth::redact(own.or(others).unwrap_or_default());
    let reason = (end != End::Done).then(|| match said.trim() {
        "" => format!("the transfer service says {} without a reason", state(file)),
        said => said.to_owned(),
    });
    let times = times(file);
    Some(Ended {
        attempt,
        end,
        reason,
        times,
    })
}

/// When a file was copied: to a millisecond by Weir's service, to a second by others.
fn times(file: &File<'_>) -> CopyTimes {
    let own = |time: fn(&FileExtension<'_>) -> Option<Millis>| file.weir.as_ref().and_then(time);
    CopyTimes {
        started: own(|one| one.started_ms).or(file.start_time.map(|time| time.0)),
        finished: own(|one| one.finished_ms).or(file.finish_time.map(|time| time.0)),
    }
}

/// Whether the same source may succeed later. Only Weir's service tells; of others each failure is taken for passing.
fn is_recoverable(file: &File<'_>) -> bool {
    let is = |extension: &FileExtension<'_>| {
        extension.error_class.as_deref() == Some("not-found") && extension.party.as_deref() == Some("source")
    };
    !file.weir.as_ref().is_some_and(is)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_rules::ids::{DidId, RequestId, RseId};

    use super::*;
    use crate::requests::uid::Tag;

    fn tag() -> Tag {
        Tag::new(5)
    }

    fn attempt(request: u64, number: u64) -> Carried {
        let attempt = Attempt {
            request: RequestId(request),
            at: (DidId(request), RseId(1)),
            number,
        };
        Carried {
            attempt,
            is_cancelled: request == 4,
        }
    }

    fn job(text: &str) -> JobAnswer {
        JobAnswer::of(serde_json::from_str(text).unwrap()).unwrap()
    }

    fn answer(job_state: &str, files: &[(u64, u64, &str)]) -> JobAnswer {
        let file = |(request, number, state): &(u64, u64, &str)| {
            let uid = tag().uid(RequestId(*request), *number);
            format!(
                r#"{{"file_id": {request}00, "file_state": "{state}", "reason": "r", "file_metadata": {{"request_id": "{uid}"}}}}"#
            )
        };
        let files = files.iter().map(file).collect::<Vec<_>>().join(",");
        job(&format!(
            r#"{{"job_id": "00000000-0000-0000-0000-000000000001", "http_status": "200 Ok", "job_state": "{job_state}", "files": [{files}]}}"#
        ))
    }

    fn ends(answer: &JobAnswer, attempts: &[Carried]) -> Vec<(u64, End)> {
        let ends = answer.ends(attempts, tag());
        ends.into_iter().map(|one| (one.attempt.request.0, one.end)).collect()
    }

    const FAILED: End = End::Failed {
        recoverable: true,
        has_other_source: false,
    };

    #[test]
    fn files_end_as_the_service_says() {
        let all = [
            attempt(1, 1),
            attempt(2, 1),
            attempt(3, 2),
            attempt(4, 1),
            attempt(5, 1),
        ];
        let files = [
            (1, 1, "FINISHED"),
            (2, 1, "FAILED"),
            (3, 2, "ACTIVE"),
            (4, 1, "CANCELED"),
            (5, 1, "CANCELED"),
        ];
        let mixed = answer("ACTIVE", &files);
        let expected = [(1, End::Done), (2, FAILED), (4, End::Cancelled), (5, FAILED)];
        assert_eq!(ends(&mixed, &all), expected);
        assert_eq!(mixed.file_ids(&[all[2].attempt, all[3].attempt], tag()), [300, 400]);
        // Another attempt of the request, and a file that is missing in a job that goes on.
        assert_eq!(ends(&answer("ACTIVE", &[(1, 2, "FINISHED")]), &all[..1]), []);
        assert_eq!(
            ends(&answer("FINISHED", &[(2, 1, "FINISHED")]), &all[..1]),
            [(1, End::Lost)]
        );
    }

    #[test]
    fn times_of_a_copy_are_those_of_the_service() {
        // Wrong: a report divides the time of a rule by figures that no service reported.
        let uid = tag().uid(RequestId(1), 1);
        let times = |more: &str| {
            let text = format!(
                r#"{{"job_id": "00000000-0000-0000-0000-000000000001", "http_status": "200 Ok", "files": [{{"file_state": "FINISHED",
                "file_metadata": {{"request_id": "{uid}"}}, "start_time": "2026-11-21T11:11:37", "finish_time": null {more}}}]}}"#
            );
            job(&text).ends(&[attempt(1, 1)], tag()).pop().unwrap().times
        };
        let to_a_second = CopyTimes {
            started: Some(1_795_259_497_000),
            finished: None,
        };
        assert_eq!(times(""), to_a_second);
        let exact = CopyTimes {
            started: Some(1_795_259_497_123),
            finished: Some(1_795_259_498_456),
        };
        let own = r#", "weir": {"started_ms": 1795259497123, "finished_ms": 1795259498456}"#;
        assert_eq!(times(own), exact);
    }

    #[test]
    fn unknown_jobs_are_lost_and_unclear_answers_mean_nothing() {
        let all = [attempt(1, 1)];
        assert_eq!(ends(&JobAnswer::unknown(Uuid::nil()), &all), [(1, End::Lost)]);
        let unclear = job(r#"{"job_id": "00000000-0000-0000-0000-000000000001", "http_status": "503 Busy"}"#);
        assert_eq!(ends(&unclear, &all), []);
        let foreign = r#"{"job_id": "00000000-0000-0000-0000-000000000001", "job_state": "ACTIVE",
            "files": [{"file_state": "FAILED", "file_metadata": null}, {"file_state": "FAILED", "file_metadata": {"request_id": "x"}}]}"#;
        assert_eq!(ends(&job(foreign), &all), []);
    }

    #[test]
    fn a_source_without_the_file_is_not_asked_again() {
        let uid = tag().uid(RequestId(1), 1);
        let text = format!(
            r#"{{"job_id": "00000000-0000-0000-0000-000000000001", "job_state": "FAILED", "files": [{{"file_state": "FAILED",
            "file_metadata": {{"request_id": "{uid}"}}, "reason": null, "weir": {{"error_class": "not-found", "party": "source"}}}}]}}"#
        );
        let ended = job(&text).ends(&[attempt(1, 1)], tag());
        assert_eq!(
            ended[0].end,
            End::Failed {
                recoverable: false,
                has_other_source: false
            }
        );
        assert!(ended[0].reason.as_deref().unwrap().contains("without a reason"));
    }
}
