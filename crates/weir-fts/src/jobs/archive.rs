//! `/archive` and `/files`: jobs that have ended, and files over all jobs.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    extract::{Path, Query},
    routing::get,
};
use serde_json::Value;

use crate::state::State;
use crate::{
    access::caller::Caller,
    jobs::{
        list,
        objects::{FileObject, JobObject},
        query::one,
    },
    messages::answer::{Answer, ApiError, ok},
};
use weir_executor::{
    job::{File, FileState, Job},
    surl::Surl,
};
use weir_store::StoreError;
use weir_transfer::store::{JobFilter, Store};

use crate::state::Door;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/archive", get(jobs))
        .route("/archive/{id}", get(job))
        .route("/archive/{id}/{field}", get(field))
        .route("/files", get(files))
}

/// `GET /archive`: ended jobs, the newest first, with the filters of `GET /jobs`.
async fn jobs(service: State, caller: Caller, Query(mut query): Query<HashMap<String, String>>) -> Answer {
    let ended = ["FINISHED", "FAILED", "FINISHEDDIRTY", "CANCELED"];
    let asked = query.get("state_in").map(String::as_str).unwrap_or_default();
    let states = asked.split(',').map(str::trim).filter(|state| ended.contains(state));
    let states = states.collect::<Vec<_>>().join(",");
    if states.is_empty() && !asked.is_empty() {
        return Ok(ok(&Vec::<()>::new()));
    }
    let states = if states.is_empty() { ended.join(",") } else { states };
    query.insert("state_in".to_owned(), states);
    query.entry("limit".to_owned()).or_insert_with(|| "500".to_owned());
    list::jobs(service, caller, Query(query)).await
}

async fn find(service: &Door, caller: Caller, id: String) -> Answer<Job> {
    let name = id.clone();
    let job = service.read(move |store| one(store, &caller, &id)).await??;
    if job.state.is_terminal() {
        Ok(job)
    } else {
        Err(ApiError::no_job(&name))
    }
}

/// `GET /archive/{id}`.
async fn job(service: State, caller: Caller, Path(id): Path<String>) -> Answer {
    let job = find(&service, caller, id).await?;
    Ok(ok(&JobObject::plain(&job, service.one_host())))
}

/// `GET /archive/{id}/{field}`.
async fn field(service: State, caller: Caller, Path((id, field)): Path<(String, String)>) -> Answer {
    let job = find(&service, caller, id).await?;
    let value: Option<Value> = JobObject::plain(&job, service.one_host()).field(&field);
    value
        .map(|value| ok(&value))
        .ok_or_else(|| ApiError::not_found("No such field"))
}

/// Most files in an answer, and most jobs whose files are searched, newest first.
const FILES_MAX: usize = 1000;

/// The filter of `GET /files`.
struct FileFilter {
    states: Vec<FileState>,
    source_se: Option<String>,
    dest_se: Option<String>,
    dest_surl: Option<String>,
    limit: usize,
}

impl FileFilter {
    fn read(query: &HashMap<String, String>) -> Answer<Self> {
        let text = |key: &str| query.get(key).filter(|text| !text.is_empty()).cloned();
        let limit = text("limit").map(|limit| limit.parse::<usize>());
        let limit = match limit {
            None => FILES_MAX,
            Some(Ok(limit)) if limit <= FILES_MAX => limit,
            Some(_) => {
                return Err(ApiError::bad_request(
                    "The limit must be positive and less or equal than 1000",
                ));
            }
        };
        let states = text("state_in").map_or_else(
            || vec![FileState::Submitted, FileState::ForceStart, FileState::Active],
            |names| {
                let all = FileState::ALL.into_iter();
                all.filter(|state| names.split(',').any(|name| name.trim() == state.as_str()))
                    .collect()
            },
        );
        Ok(Self {
            states,
            source_se: text("source_se"),
            dest_se: text("dest_se"),
            dest_surl: text("dest_surl").map(|text| shown(&text)),
            limit,
        })
    }

    fn fits(&self, file: &File) -> bool {
        let at = |asked: &Option<String>, url: &Surl| asked.as_ref().is_none_or(|asked| *asked == url.se());
        self.states.contains(&file.state)
            && at(&self.source_se, &file.spec.source)
            && at(&self.dest_se, &file.spec.destination)
            && self
                .dest_surl
                .as_ref()
                .is_none_or(|asked| asked == file.spec.destination.as_str())
    }
}

/// A URL as it is stored: without its query.
fn shown(url: &str) -> String {
    Surl::parse(url).map_or_else(|_| url.to_owned(), |url| url.conceal().0.as_str().to_owned())
}

/// Files that are looked through for one answer, at most: no index knows them by their locations.
const READ_MAX: i64 = 200_000;

type Found = Vec<(Job, Vec<File>)>;

fn find_files(
    store: &dyn Store,
    caller: &Caller,
    (jobs, filter): (&JobFilter, &FileFilter),
) -> Result<Answer<Found>, StoreError> {
    let (mut found, mut n_files, mut left) = (Vec::new(), 0, READ_MAX);
    for job in store.jobs(jobs)? {
        if n_files == filter.limit {
            break;
        }
        if !caller.may_see(&job) {
            continue;
        }
        // The first job is searched whatever its size.
        if left < job.counts.files && left < READ_MAX {
            return Ok(Err(ApiError::bad_request(format!(
                "More than {READ_MAX} files would have to be looked through; ask for a shorter time_window, or for the job"
            ))));
        }
        left -= job.counts.files;
        let mut files = store.files(job.spec.id)?;
        files.retain(|file| filter.fits(file));
        files.truncate(filter.limit - n_files);
        n_files += files.len();
        if caller.owns(&job) {
            store.reveal(&mut files)?;
        }
        found.push((job, files));
    }
    Ok(Ok(found))
}

/// `GET /files`: files of the caller's jobs; administrators see all files.
async fn files(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let filter = FileFilter::read(&query)?;
    // These filters select files here, not jobs: storage elements and states.
    let of_jobs = ["vo_name", "time_window", "user_dn", "dlg_id"];
    let of_jobs = query
        .into_iter()
        .filter(|(key, _)| of_jobs.contains(&key.as_str()))
        .collect();
    let Some(mut jobs) = list::filter(&of_jobs, &caller)? else {
        return Ok(ok(&Vec::<()>::new()));
    };
    if filter.states.iter().any(|state| state.is_terminal()) {
        jobs.states = weir_executor::job::JOB_STATES.to_vec();
    }
    jobs.limit = Some(FILES_MAX);
    let found = service
        .read(move |store| find_files(store, &caller, (&jobs, &filter)))
        .await??;
    let objects = found.iter().flat_map(|(job, files)| {
        files.iter().map(|file| FileObject {
            file,
            job,
            host: service.one_host(),
            keys: None,
        })
    });
    Ok(ok(&objects.collect::<Vec<_>>()))
}
