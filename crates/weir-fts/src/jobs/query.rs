//! Looking at jobs and files that are named.

use std::collections::HashMap;

use axum::{
    extract::{Path, Query},
    response::Response,
};
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;
use weir_fts_api::{FtsTime, NotShown, Retry};

use crate::state::State;
use crate::{
    access::caller::Caller,
    jobs::objects::{FileObject, JobObject},
    messages::answer::{Answer, ApiError, json_answer, ok},
};
use weir_executor::job::{File, Job};
use weir_store::StoreError;
use weir_transfer::store::Store;

/// A job that may be seen, with its files if they were asked for.
type FoundJob = Result<(Job, Vec<File>), ApiError>;

/// `GET /jobs/{id}[,id...]?files=a,b`.
///
/// One id: the object, with the status of its own. Several: an array, 207 if any of them is not there or not the caller's.
pub(crate) async fn jobs(
    service: State,
    caller: Caller,
    Path(ids): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let keys = query
        .get("files")
        .map(|keys| keys.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = ids
        .split(',')
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let single = ids.split(',').count() == 1;
    let with_files = keys.is_some();
    let asked = names.clone();
    let found = service
        .read(move |store| find(store, &caller, &asked, with_files))
        .await??;

    let shown = AnswerScope {
        host: service.one_host(),
        keys: keys.as_deref(),
    };
    let objects: Vec<_> = names
        .iter()
        .zip(&found.jobs)
        .map(|(name, found)| shown.object(name, found))
        .collect();
    let any_error = found.jobs.iter().any(Result::is_err);
    Ok(match (single, found.jobs.first(), objects.first()) {
        (true, Some(Err(error)), Some(object)) => json_answer(error.status, object),
        (true, _, Some(object)) => ok(object),
        _ if any_error => json_answer(StatusCode::MULTI_STATUS, &objects),
        _ => ok(&objects),
    })
}

/// One of the jobs that were asked for. Pollers ask for ten thousand files at once: they are written without a copy.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'a> {
    Job(Box<JobObject<'a>>),
    Failed(NotShown),
}

/// The caller, and the requested keys.
struct AnswerScope<'a> {
    host: Option<&'a str>,
    /// Of the files; `None` if none were asked for.
    keys: Option<&'a [String]>,
}

impl<'a> AnswerScope<'a> {
    fn object(&self, name: &str, found: &'a FoundJob) -> Shown<'a> {
        let (job, files) = match found {
            Ok(found) => found,
            Err(error) => return Shown::Failed(failed(name, error)),
        };
        let file = |file| FileObject {
            file,
            job,
            host: self.host,
            keys: self.keys,
        };
        Shown::Job(Box::new(JobObject {
            http_status: Some("200 Ok"),
            files: self.keys.map(|_| files.iter().map(file).collect()),
            ..JobObject::plain(job, self.host)
        }))
    }
}

/// How a job that cannot be shown looks in a list.
pub(crate) fn failed(id: &str, error: &ApiError) -> NotShown {
    NotShown {
        job_id: id.to_owned(),
        http_status: error.status_text(),
        http_message: error.message.clone(),
    }
}

/// Files of one answer, at most, unless they are of one job.
const FILES_MAX: i64 = 200_000;

/// Files in memory for answers: about a gigabyte.
static IN_HAND: Semaphore = Semaphore::const_new(600_000);

/// The result, and its share of the memory.
struct Found {
    jobs: Vec<FoundJob>,
    _places: Vec<SemaphorePermit<'static>>,
}

fn find(store: &dyn Store, caller: &Caller, names: &[String], with_files: bool) -> Result<Answer<Found>, StoreError> {
    let (mut found, mut places, mut left) = (Vec::with_capacity(names.len()), Vec::new(), FILES_MAX);
    for name in names {
        let job = one(store, caller, name)?;
        if with_files && let Ok(job) = &job {
            let files = job.counts.files;
            if files > left && left < FILES_MAX {
                return Ok(Err(too_many()));
            }
            left -= files;
            let Ok(place) = IN_HAND.try_acquire_many(files.clamp(0, FILES_MAX) as u32) else {
                return Ok(Err(ApiError::unavailable(
                    "Too many files are looked at at once; ask again",
                )));
            };
            places.push(place);
        }
        found.push(match job {
            Ok(job) => {
                let mut files = Vec::new();
                if with_files {
                    files = store.files(job.spec.id)?;
                    if caller.owns(&job) {
                        store.reveal(&mut files)?;
                    }
                }
                Ok((job, files))
            }
            Err(error) => Err(error),
        });
    }
    Ok(Ok(Found {
        jobs: found,
        _places: places,
    }))
}

fn too_many() -> ApiError {
    let text = format!("These jobs have more than {FILES_MAX} files; ask for fewer of them at once");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

/// A job by its name, if it is there and the caller may see it.
pub(crate) fn one(store: &dyn Store, caller: &Caller, name: &str) -> Result<Result<Job, ApiError>, StoreError> {
    let Ok(id) = Uuid::parse_str(name) else {
        return Ok(Err(ApiError::no_job(name)));
    };
    Ok(match store.job(id)? {
        None => Err(ApiError::no_job(name)),
        Some(job) if caller.may_see(&job) => Ok(job),
        Some(_) => Err(ApiError::forbidden(format!(
            "Not enough permissions to check the job \"{name}\""
        ))),
    })
}

/// `GET /jobs/{id}/files`.
pub(crate) async fn files(service: State, caller: Caller, Path(id): Path<String>) -> Answer {
    let mut found = service.read(move |store| find(store, &caller, &[id], true)).await??;
    let (job, files) = found.jobs.pop().unwrap_or_else(|| Err(ApiError::no_job("")))?;
    let objects: Vec<_> = files
        .iter()
        .map(|file| FileObject {
            file,
            job: &job,
            host: service.one_host(),
            keys: None,
        })
        .collect();
    Ok(ok(&objects))
}

/// `GET /jobs/{id}/files/{file}/retries`.
pub(crate) async fn retries(
    service: State,
    caller: Caller,
    Path((id, file)): Path<(String, String)>,
) -> Answer<Response> {
    let no_file = ApiError::not_found(format!("No file with the id \"{file}\" has been found"));
    let Ok(number) = file.parse::<u64>() else {
        return Err(no_file);
    };
    let host = service.one_host().map(str::to_owned);
    let retries = service
        .read(move |store| {
            let job = match one(store, &caller, &id)? {
                Ok(job) => job,
                Err(error) => return Ok(Err(error)),
            };
            match store.file(number)? {
                Some(file) if file.job == job.spec.id => Ok(Ok(store.retries(number)?)),
                _ => Ok(Err(no_file)),
            }
        })
        .await??;
    let shown = retries.iter().map(|retry| Retry {
        file_id: retry.file,
        attempt: retry.attempt,
        datetime: FtsTime(retry.at),
        reason: retry.reason.as_str().into(),
        transfer_host: host.as_deref().map(Into::into),
        log_file: None,
    });
    Ok(ok(&shown.collect::<Vec<_>>()))
}

/// `GET /jobs/{id}/dm`: FTS3 gave up data management jobs; clients still ask.
pub(crate) async fn dm(service: State, caller: Caller, Path(id): Path<String>) -> Answer {
    service.read(move |store| one(store, &caller, &id)).await??;
    Ok(ok(&json!([])))
}

/// `GET /jobs/{id}/{field}`: one value of a job.
pub(crate) async fn field(service: State, caller: Caller, Path((id, field)): Path<(String, String)>) -> Answer {
    let job = service.read(move |store| one(store, &caller, &id)).await??;
    match JobObject::plain(&job, service.one_host()).field(&field) {
        Some(value) => Ok(ok(&value)),
        None => Err(ApiError::not_found("No such field")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use weir_transfer::{
        config::Level,
        store::Change,
        testing::{in_memory, submission},
    };

    use crate::access::caller::By;

    #[test]
    fn an_answer_holds_only_so_many_files() {
        // A list of ids of large jobs took the whole memory.
        let store = in_memory();
        let mut names = Vec::new();
        for (job, first, n) in [(1_u128, 1, 120_000), (2, 200_000, 100_000)] {
            store
                .apply(&[Change::Submit(Box::new(submission(job, first, n)))])
                .unwrap();
            names.push(Uuid::from_u128(job).to_string());
        }
        let caller = Caller {
            user_dn: "alice".into(),
            cred_id: "cred-1".into(),
            vo: "testvo".into(),
            level: Level::All,
            reach: Level::All,
            by: By::Elsewhere { certificate: false },
        };
        let look = |names: &[String], with_files| find(&*store, &caller, names, with_files).unwrap();
        assert_eq!(
            look(&names, true).map(|_| ()).unwrap_err().status,
            StatusCode::PAYLOAD_TOO_LARGE
        );
        assert_eq!(look(&names, false).unwrap().jobs.len(), 2);
        for name in &names {
            assert_eq!(look(std::slice::from_ref(name), true).unwrap().jobs.len(), 1);
        }
        assert_eq!(IN_HAND.available_permits(), 600_000);
    }
}
