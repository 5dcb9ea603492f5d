//! `weir transfer status`.

use serde_json::{Value, json};

use super::{door::TransferClient, show};
use crate::cli::TransferStatusArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

/// Keys of a file that people look at.
pub(super) const FILE_KEYS: &str =
    "file_id,file_index,file_state,source_surl,dest_surl,filesize,user_filesize,transferred,reason,weir";

/// A job and its files.
pub(super) async fn job(door: &TransferClient, id: &str) -> Result<(Value, Vec<Value>), Failure> {
    let mut job = door.get(&format!("/jobs/{}?files={FILE_KEYS}", encoded(id))).await?;
    let files = job.as_object_mut().and_then(|job| job.remove("files"));
    let files = files.and_then(|files| files.as_array().cloned()).unwrap_or_default();
    Ok((job, files))
}

pub(super) async fn run(arguments: &TransferStatusArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let mut found = Vec::new();
    for id in &arguments.jobs {
        let (job, files) = job(&door, id).await?;
        show::job(&job, &files, arguments.files, output);
        found.push(json!({ "job": job, "files": files }));
    }
    output.done(&json!({ "jobs": found }));
    Ok(Exit::Done)
}
