//! Taking back jobs and files, and changing their priority.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::extract::Path;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::state::State;
use crate::{
    access::caller::Caller,
    jobs::{
        objects::JobObject,
        query::{failed, one},
    },
    messages::{
        answer::{Answer, ApiError, json_answer, ok},
        body::JsonBody,
    },
};
use weir_executor::job::{CANCELED_REASON, FileState, Job};
use weir_fts_api::Affected;
use weir_transfer::{
    cancel::{self, Seen, live_files},
    driver::Request,
};

use crate::state::Door;

/// How long a cancellation waits for running copies to stop, so that its answer can say how they ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// `DELETE /jobs/{id}[,id...]`.
pub(crate) async fn jobs(service: State, caller: Caller, Path(ids): Path<String>) -> Answer {
    let mut asked = Vec::new();
    for name in ids.split(',').filter(|id| !id.is_empty()) {
        asked.push(cancel_one(&service, &caller, name).await?);
    }
    // All are cancelled before the first is waited for, and one patience is for all.
    let patience = Instant::now() + STOP_PATIENCE;
    let mut entries = Vec::new();
    for one in asked {
        entries.push(match one {
            Asked::Answered(entry) => entry,
            Asked::Stopping(job) => changed(&service, &wait_for_end(&service, *job, patience).await?),
        });
    }
    multi_status(entries, ids.split(',').count() > 1)
}

/// A job that was asked to be cancelled.
enum Asked {
    /// There is nothing to wait for.
    Answered(CancelEntry),
    /// It is cancelled; its copies may still run.
    Stopping(Box<Job>),
}

/// An entry and its status; 304 is no failure of a single request.
type CancelEntry = (StatusCode, Value);

async fn cancel_one(service: &Door, caller: &Caller, name: &str) -> Answer<Asked> {
    let job = match find(service, caller, name).await? {
        Ok(job) => job,
        Err(error) => return Ok(Asked::Answered((error.status, json!(failed(name, &error))))),
    };
    if job.state.is_terminal() {
        return Ok(Asked::Answered(unchanged(service, &job)));
    }
    cancel_whole(service, job.spec.id).await?;
    Ok(Asked::Stopping(Box::new(job)))
}

fn unchanged(service: &Door, job: &Job) -> CancelEntry {
    let object = JobObject {
        http_status: Some("304 Not Modified"),
        http_message: Some(json!("The job is in a terminal state")),
        ..JobObject::plain(job, service.one_host())
    };
    (
        StatusCode::NOT_MODIFIED,
        serde_json::to_value(object).unwrap_or_default(),
    )
}

fn changed(service: &Door, job: &Job) -> CancelEntry {
    let object = JobObject {
        http_status: Some("200 Ok"),
        http_message: Some(Value::Null),
        ..JobObject::plain(job, service.one_host())
    };
    (StatusCode::OK, serde_json::to_value(object).unwrap_or_default())
}

/// One: the object, with its own status unless that is 304. Several: an array, 207 if any failed.
fn multi_status(mut entries: Vec<CancelEntry>, several: bool) -> Answer {
    if several {
        let all_good = entries.iter().all(|(status, _)| status.is_success());
        let status = if all_good {
            StatusCode::OK
        } else {
            StatusCode::MULTI_STATUS
        };
        return Ok(json_answer(
            status,
            &entries.into_iter().map(|(_, object)| object).collect::<Vec<_>>(),
        ));
    }
    let Some((status, object)) = entries.pop() else {
        return Err(ApiError::no_job(""));
    };
    Ok(if status == StatusCode::NOT_MODIFIED {
        ok(&object)
    } else {
        json_answer(status, &object)
    })
}

async fn find(service: &Door, caller: &Caller, name: &str) -> Answer<Result<Job, ApiError>> {
    let (caller, name) = (caller.clone(), name.to_owned());
    Ok(service.read(move |store| one(store, &caller, &name)).await?)
}

async fn cancel_whole(service: &Door, job: Uuid) -> Answer<usize> {
    let files = live_files(service, job).await?;
    let n_files = files.len();
    let reason = CANCELED_REASON.to_owned();
    service
        .driver
        .ask(|reply| Request::Cancel {
            job,
            whole: true,
            files,
            reason,
            reply,
        })
        .await?;
    Ok(n_files)
}

/// Waits until a cancelled job's running copies have stopped, or patience is over; gives the job as it then is.
async fn wait_for_end(service: &Door, mut job: Job, patience: Instant) -> Answer<Job> {
    let id = job.spec.id;
    let mut settled = service.driver.settled();
    loop {
        settled.mark_unchanged();
        if let Some(current) = service.read(move |store| store.job(id)).await? {
            job = current;
        }
        if job.state.is_terminal() {
            return Ok(job);
        }
        tokio::select! {
            changed = settled.changed() => if changed.is_err() { return Ok(job) },
            () = tokio::time::sleep_until(patience) => return Ok(job),
            () = service.stopping.cancelled() => return Ok(job),
        }
    }
}

/// `DELETE /jobs/{id}/files/{file}[,file...]`.
pub(crate) async fn files(service: State, caller: Caller, Path((id, files)): Path<(String, String)>) -> Answer {
    let job = find(&service, &caller, &id).await??;
    if job.spec.kind != 'N' {
        return Err(ApiError::bad_request(format!(
            "Multihop or reuse jobs must be cancelled at once ({})",
            job.spec.kind
        )));
    }
    let known = service.read(move |store| store.files(job.spec.id)).await?;
    let asked = files
        .split(',')
        .map(|text| text.trim().parse::<u64>().ok())
        .collect::<Vec<_>>();
    let known = known
        .iter()
        .map(|file| (file.spec.id, file.state))
        .collect::<HashMap<_, _>>();
    let state_of = |id: Option<u64>| id.and_then(|id| known.get(&id).copied());
    let live: Vec<u64> = asked
        .iter()
        .copied()
        .filter(|id| state_of(*id).is_some_and(|state| !state.is_terminal()))
        .flatten()
        .collect();
    if !live.is_empty() {
        let (job, reason) = (job.spec.id, CANCELED_REASON.to_owned());
        service
            .driver
            .ask(|reply| Request::Cancel {
                job,
                whole: false,
                files: live.clone(),
                reason,
                reply,
            })
            .await?;
    }
    let states = asked.iter().map(|id| match state_of(*id) {
        None => json!("File does not belong to the job"),
        Some(state) if state.is_terminal() => json!(state.as_str()),
        Some(_) => json!(FileState::Canceled.as_str()),
    });
    let mut states = states.collect::<Vec<_>>();
    Ok(if states.len() == 1 {
        ok(&states.remove(0))
    } else {
        ok(&states)
    })
}

/// `POST /jobs/{id}[,id...]` with `{"params": {"priority": n}}`.
pub(crate) async fn modify(
    service: State,
    caller: Caller,
    Path(ids): Path<String>,
    JsonBody(body): JsonBody,
) -> Answer {
    let asked = body
        .get("params")
        .and_then(|params| params.get("priority"))
        .filter(|value| !value.is_null());
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    let priority = match asked {
        None => None,
        Some(value) => Some(number(value).ok_or_else(|| ApiError::bad_request("Invalid priority value"))?),
    };
    let mut entries = Vec::new();
    for name in ids.split(',').filter(|id| !id.is_empty()) {
        entries.push(modify_one(&service, &caller, name, priority).await?);
    }
    multi_status(entries, ids.split(',').count() > 1)
}

async fn modify_one(service: &Door, caller: &Caller, name: &str, priority: Option<i64>) -> Answer<CancelEntry> {
    let job = match find(service, caller, name).await? {
        Ok(job) => job,
        Err(error) => return Ok((error.status, json!(failed(name, &error)))),
    };
    if job.state.is_terminal() {
        return Ok(unchanged(service, &job));
    }
    if let Some(priority) = priority {
        let (id, priority) = (job.spec.id, priority.clamp(1, 5) as u8);
        let files = live_files(service, id).await?;
        service
            .driver
            .ask(|reply| Request::Priority {
                job: id,
                files,
                priority,
                reply,
            })
            .await?;
    }
    match find(service, caller, name).await? {
        Ok(job) => Ok(changed(service, &job)),
        Err(error) => Ok((error.status, json!(failed(name, &error)))),
    }
}

/// `DELETE /jobs/vo/{vo}`.
pub(crate) async fn vo(service: State, caller: Caller, Path(vo): Path<String>) -> Answer {
    cancel_all(&service, &caller, Some(vo)).await
}

/// `DELETE /jobs/all`.
pub(crate) async fn all(service: State, caller: Caller) -> Answer {
    cancel_all(&service, &caller, None).await
}

async fn cancel_all(service: &Arc<Door>, caller: &Caller, vo: Option<String>) -> Answer {
    if !vo.as_ref().map_or(caller.is_admin(), |vo| caller.manages(vo)) {
        return Err(ApiError::forbidden("User does not have root privileges"));
    }
    let fits = move |seen: &Seen| vo.as_ref().is_none_or(|vo| seen.job.job.vo == *vo);
    let cancelled = cancel::cancel_matching(service, Box::new(fits), true, CANCELED_REASON).await?;
    let n_files = cancelled.iter().map(|(_, files)| files).sum::<usize>();
    Ok(ok(&Affected {
        affected_files: n_files,
        affected_dm: 0,
        affected_jobs: cancelled.len(),
    }))
}
