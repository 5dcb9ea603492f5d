//! `POST /jobs`: from clients' requests to rows of the store.
//!
//! Unknown keys are ignored and an explicit `null` is the default, as the field's clients expect. Unsupported requests
//! are refused here with a sentence, so that nothing waits in a queue for ever.

mod files;
mod params;
mod schema;
mod values;

use serde_json::Value;
use uuid::Uuid;
use weir_auth::Secret;

pub(crate) use files::place;
pub(crate) use schema::submit_schema;
use weir_service::time::Millis;
use weir_transfer::draft::Draft;

/// The namespace of deterministic ids, the same in every FTS3.
pub(crate) const BASE_ID: Uuid = Uuid::from_u128(0x0187_4efb_4735_4595_bc9c_591a_ef82_40c9);

/// The submitter.
#[derive(Debug, Clone)]
pub(crate) struct Submitter {
    /// The token's subject.
    pub user_dn: String,
    /// FTS3's delegation id.
    pub cred_id: String,
    /// The VO.
    pub vo: String,
    /// The API token: used for files that bring none of their own. None: the user came with a certificate, and delegates.
    pub token: Option<Secret>,
}

/// Limits of a submission.
#[derive(Debug, Clone)]
pub(crate) struct SubmissionLimits {
    /// Files in one job.
    pub files: usize,
    /// Links that they may use.
    pub links: usize,
    /// Whether `http` and `dav` URLs are taken.
    pub plain_http: bool,
    /// Largest `job_metadata`, in bytes of JSON. FTS3: 2048.
    pub job_metadata: usize,
    /// Largest file `metadata`. FTS3: 4096.
    pub file_metadata: usize,
    /// Largest `staging_metadata` and `archive_metadata`. FTS3: 1024.
    pub other_metadata: usize,
}

impl Default for SubmissionLimits {
    fn default() -> Self {
        Self {
            files: 50_000,
            links: 2_000,
            plain_http: false,
            job_metadata: 2048,
            file_metadata: 4096,
            other_metadata: 1024,
        }
    }
}

/// Why a submission is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 405: FTS3 gave up deletion jobs.
    #[error("Deletion jobs are no longer supported by FTS")]
    Deletion,
}

impl Refusal {
    fn bad(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// FTS3's words for a value that cannot be used.
    fn invalid(message: impl std::fmt::Display) -> Self {
        Self::BadRequest(format!("Invalid value within the request: {message}"))
    }

    fn malformed(message: impl std::fmt::Display) -> Self {
        Self::BadRequest(format!("Malformed request: {message}"))
    }
}

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
