//! `weir storage rm`.

use anyhow::anyhow;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use serde_json::json;
use weir_http::body;

use super::door::{StorageClient, expect};
use crate::cli::StorageRmArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Requests at one time, each on a connection that is kept.
const AT_ONCE: usize = 8;

pub(super) async fn run(arguments: &StorageRmArguments, output: &Output) -> Result<Exit, Failure> {
    let door = StorageClient::open(&arguments.access)?;
    let door = &door;
    let work = stream::iter(&arguments.urls).map(|url| async move { (url, remove(door, url, arguments).await) });
    let mut work = work.buffered(AT_ONCE);
    let (mut removed, mut failed) = (Vec::new(), None);
    while let Some((url, outcome)) = work.next().await {
        match outcome {
            Ok(true) => {
                output.line(format!("removed {url}"));
                removed.push(url);
            }
            Ok(false) => {}
            // The others are removed all the same; the last failure tells how the command ends.
            Err(failure) => {
                if let Some(failure) = failed.replace(failure) {
                    output.note(failure.to_string().trim_end());
                }
            }
        }
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    output.done(&json!({ "removed": removed }));
    Ok(Exit::Done)
}

/// Whether there was anything to remove.
async fn remove(door: &StorageClient, url: &str, arguments: &StorageRmArguments) -> Result<bool, Failure> {
    if !arguments.recursive {
        let found = door.look(url).await?;
        if found.is_none() && arguments.force {
            return Ok(false);
        }
        if found.is_some_and(|itself| itself.directory) {
            let error = anyhow!("{url} is a directory");
            return Err(Failure::bad_input(error).with_remedy("remove it and all that is in it with --recursive"));
        }
    }
    let answer = door.send(url, door.request("DELETE", url), body::empty()).await?;
    if answer.status() == StatusCode::NOT_FOUND && arguments.force {
        return Ok(false);
    }
    expect(url, answer).await?;
    Ok(true)
}
