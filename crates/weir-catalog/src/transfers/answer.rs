//! The answers of a transfer service about jobs, and the resulting ends of requests. Pure.

use std::collections::HashMap;

use serde::Deserialize;
use uuid::Uuid;
use weir_rules::place::End;
use weir_service::time::{self, Millis};

use crate::requests::{Attempt, CopyTimes, Ended, outgoing::Carried, uid::Tag};

/// Fields of files that are asked for. `weir` is an addition of Weir's own service.
pub const FIELDS: &str = "file_id,file_state,file_metadata,reason,start_time,finish_time,weir";

/// An answer: about one job, or about several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// About several.
    Many(Vec<JobAnswer>),
    /// About one.
    One(Box<JobAnswer>),
}

impl Answer {
    /// All jobs of it.
    pub fn jobs(self) -> Vec<JobAnswer> {
        match self {
            Self::Many(jobs) => jobs,
            Self::One(job) => vec![*job],
        }
    }
}

/// A job as the service knows it.
#[derive(Debug, Deserialize)]
pub struct JobAnswer {
    /// Its id.
    pub job_id: Uuid,
    /// `200 Ok`, `404 Not Found` and the like, where several were asked for.
    #[serde(default)]
    http_status: Option<String>,
    #[serde(default)]
    job_state: Option<String>,
    #[serde(default)]
    files: Vec<FileAnswer>,
}

#[derive(Debug, Deserialize)]
struct FileAnswer {
    #[serde(default)]
    file_id: Option<serde_json::Value>,
    file_state: String,
    #[serde(default)]
    file_metadata: Option<Metadata>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    start_time: Option<String>,
    #[serde(default)]
    finish_time: Option<String>,
    #[serde(default)]
    weir: Option<Extension>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default)]
    request_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Extension {
    #[serde(default)]
    error_class: Option<String>,
    #[serde(default)]
    party: Option<String>,
    #[serde(default)]
    started_ms: Option<Millis>,
    #[serde(default)]
    finished_ms: Option<Millis>,
}

/// States of jobs in which nothing changes any more.
const FINAL: [&str; 4] = ["FINISHED", "FAILED", "FINISHEDDIRTY", "CANCELED"];

impl JobAnswer {
    /// A job that the service does not know.
    pub fn unknown(job_id: Uuid) -> Self {
        Self {
            job_id,
            http_status: Some("404 Not Found".to_owned()),
            job_state: None,
            files: Vec::new(),
        }
    }

    /// The ids of the service for the files of these attempts.
    pub fn file_ids(&self, attempts: &[Attempt], tag: Tag) -> Vec<String> {
        let is_one = |file: &&FileAnswer| {
            file.attempt(tag)
                .is_some_and(|at| attempts.iter().any(|one| at == (one.request, one.number)))
        };
        let ids = self
            .files
            .iter()
            .filter(is_one)
            .filter_map(|file| file.file_id.as_ref());
        ids.map(|id| id.to_string().trim_matches('"').to_owned()).collect()
    }

    /// The ends of the attempts that the job carries; unfinished ones are left out.
    pub fn ends(&self, attempts: &[Carried], tag: Tag) -> Vec<Ended> {
        let status = self.http_status.as_deref().unwrap_or("200");
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
        let told = self.files.iter().filter_map(|file| Some((file.attempt(tag)?, file)));
        let told = told.collect::<HashMap<_, _>>();
        let is_final = self.job_state.as_deref().is_some_and(|state| FINAL.contains(&state));
        // A file that never had its turn has the reason of the hop before it.
        let failed = self.files.iter().filter(|file| file.file_state == "FAILED");
        let reason = failed
            .filter_map(|file| file.reason.as_deref())
            .find(|reason| !reason.is_empty());
        let end = |one: &Carried| match told.get(&(one.attempt.request, one.attempt.number)) {
            Some(file) => file.end(*one, reason),
            None if is_final => Some(lost(one)),
            None => None,
        };
        attempts.iter().filter_map(end).collect()
    }
}

impl FileAnswer {
    /// The attempt that it is, if it is one of this catalogue.
    fn attempt(&self, tag: Tag) -> Option<(weir_rules::ids::RequestId, u64)> {
        tag.read(self.file_metadata.as_ref()?.request_id.as_deref()?)
    }

    fn end(&self, Carried { attempt, is_cancelled }: Carried, others: Option<&str>) -> Option<Ended> {
        let end = match self.file_state.as_str() {
            "FINISHED" => End::Done,
            "CANCELED" if is_cancelled => End::Cancelled,
            // An operator of the service cancelled it: that is a failure, which is repeated so often and not for ever.
            "CANCELED" | "FAILED" | "NOT_USED" => End::Failed {
                recoverable: self.is_recoverable(),
                has_other_source: false,
            },
            _ => return None,
        };
        let said = weir_auth::redact(
            self.reason
                .as_deref()
                .filter(|own| !own.is_empty())
                .or(others)
                .unwrap_or_default(),
        );
        let reason = (end != End::Done).then(|| match said.trim() {
            "" => format!("the transfer service says {} without a reason", self.file_state),
            said => said.to_owned(),
        });
        let times = self.times();
        Some(Ended {
            attempt,
            end,
            reason,
            times,
        })
    }

    /// When it was copied: to a millisecond by Weir's service, to a second by others.
    fn times(&self) -> CopyTimes {
        let own = |time: fn(&Extension) -> Option<Millis>| self.weir.as_ref().and_then(time);
        let told = |text: &Option<String>| time::parse(text.as_deref()?);
        CopyTimes {
            started: own(|one| one.started_ms).or_else(|| told(&self.start_time)),
            finished: own(|one| one.finished_ms).or_else(|| told(&self.finish_time)),
        }
    }

    /// Whether the same source may succeed later. Only Weir's service tells; of others each failure is taken for passing.
    fn is_recoverable(&self) -> bool {
        let is = |extension: &Extension| {
            extension.error_class.as_deref() == Some("not-found") && extension.party.as_deref() == Some("source")
        };
        !self.weir.as_ref().is_some_and(is)
    }
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
        serde_json::from_str::<Answer>(text).unwrap().jobs().pop().unwrap()
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
        assert_eq!(mixed.file_ids(&[all[2].attempt, all[3].attempt], tag()), ["300", "400"]);
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
            r#"[{{"job_id": "00000000-0000-0000-0000-000000000001", "job_state": "FAILED", "files": [{{"file_state": "FAILED",
            "file_metadata": {{"request_id": "{uid}"}}, "reason": null, "weir": {{"error_class": "not-found", "party": "source"}}}}]}}]"#
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
