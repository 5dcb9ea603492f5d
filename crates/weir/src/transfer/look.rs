//! `weir transfer status`.

use anyhow::Context;
use serde::Deserialize as _;
use serde_json::{Value, json};
use weir_fts_api::Job;

use super::{door::TransferClient, show};
use crate::cli::TransferStatusArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

/// Keys of a file that people look at.
pub(super) const FILE_KEYS: &str =
    "file_id,file_index,file_state,source_surl,dest_surl,filesize,user_filesize,transferred,reason,weir";

/// A job with its files.
pub(super) struct JobSeen {
    /// As the service answered, without the files.
    json: Value,
    /// The files as the service answered.
    files: Value,
    pub(super) job: Job<'static>,
}

/// Asks for a job and its files.
pub(super) async fn job(door: &TransferClient, id: &str) -> Result<JobSeen, Failure> {
    let mut json = door.get(&format!("/jobs/{}?files={FILE_KEYS}", encoded(id))).await?;
    let job = Job::deserialize(&json).context("could not understand the job")?;
    let files = json.as_object_mut().and_then(|job| job.remove("files"));
    Ok(JobSeen {
        json,
        files: files.unwrap_or_else(|| json!([])),
        job,
    })
}

pub(super) async fn run(arguments: &TransferStatusArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let mut found = Vec::new();
    for id in &arguments.jobs {
        let seen = job(&door, id).await?;
        show::job(&seen.job, arguments.files, output);
        found.push(json!({ "job": seen.json, "files": seen.files }));
    }
    output.done(&json!({ "jobs": found }));
    Ok(Exit::Done)
}
