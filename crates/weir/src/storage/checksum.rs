//! `weir storage checksum`.

use anyhow::anyhow;
use serde_json::json;
use weir_http::body;

use super::door::{StorageClient, expect, told};
use crate::cli::StorageChecksumArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &StorageChecksumArguments, output: &Output) -> Result<Exit, Failure> {
    let door = StorageClient::open(&arguments.access)?;
    let (name, mut found) = (arguments.algorithm.digest_name(), Vec::new());
    for url in &arguments.urls {
        let request = door.request("HEAD", url).header("Want-Digest", name);
        let answer = expect(url, door.send(url, request, body::empty()).await?).await?;
        let checksum = told(&answer, arguments.algorithm).ok_or_else(|| {
            let error = anyhow!("{url}: the storage reports no {name} of it");
            Failure::could_not_run(error).with_remedy("ask for another one with --algorithm")
        })?;
        output.line(format!("{checksum}  {url}"));
        found.push(json!({ "url": url, "checksum": checksum.to_string() }));
    }
    output.done(&json!({ "checksums": found }));
    Ok(Exit::Done)
}
