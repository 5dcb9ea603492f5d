//! `POST /jobs`: from clients' requests to rows of the store.
//!
//! Unknown keys are ignored and an explicit `null` is the default, as the field's clients expect. Unsupported requests
//! are refused here with a sentence, so that nothing waits in a queue for ever.

mod files;
mod params;
mod refusal;
mod submitter;
mod values;

use serde_json::Value;

pub(crate) use files::place;
pub(crate) use refusal::Refusal;
pub(crate) use submitter::{BASE_ID, SubmissionLimits, Submitter};
use weir_service::time::Millis;
use weir_transfer::draft::Draft;

/// Reads a submission.
///
/// # Errors
/// [`Refusal`], with the texts of FTS3 where it has one.
pub(crate) fn read(body: &Value, user: &Submitter, limits: &SubmissionLimits, now: Millis) -> Result<Draft, Refusal> {
    let Value::Object(body) = body else {
        return Err(Refusal::malformed("the body is not a JSON object"));
    };
    if body.get("delete").is_some_and(|delete| !values::is_empty(delete)) {
        return Err(Refusal::Deletion);
    }
    let empty = serde_json::Map::new();
    let params = match body.get("params") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(params)) => params,
        Some(_) => return Err(Refusal::malformed("'params' is not an object")),
    };
    let files = match body.get("files").or_else(|| body.get("Files")) {
        Some(Value::Array(files)) if !files.is_empty() => files,
        None | Some(Value::Null | Value::Array(_)) => return Err(Refusal::bad("No transfers specified")),
        Some(_) => return Err(Refusal::malformed("'files' is not an array")),
    };
    let too_many = |n: usize| {
        let most = limits.files;
        (n > most).then(|| {
            Refusal::bad(format!(
                "Too many files in one job: {n}, at most {most} are taken; split the job"
            ))
        })
    };
    if let Some(refusal) = too_many(files.len()) {
        return Err(refusal);
    }
    let (mut job, deterministic) = params::job(params, user, limits, now)?;
    let (files, tokens) = files::files(files, user, limits)?;
    if let Some(refusal) = too_many(files.len()) {
        return Err(refusal);
    }
    params::settle_checksum_mode(params, &files, &mut job)?;
    params::settle_kind(&files, &mut job)?;
    let files = files.into_iter().map(files::FileEntry::into_file).collect::<Vec<_>>();
    params::check_same(&files, &job)?;
    params::settle_storages(&files, &mut job)?;
    let storages = files::storages(&files)?;
    let links = files::links(&files, limits.links)?;
    params::settle_strategy(&files, &mut job);
    params::check_overwrite(&files, &job)?;
    Ok(Draft {
        job,
        files,
        tokens,
        storages,
        links,
        deterministic,
    })
}

#[cfg(test)]
mod tests;
