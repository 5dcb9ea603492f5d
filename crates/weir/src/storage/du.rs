//! `weir storage du`.

use serde_json::json;
use weir_units::Bytes;

use super::{
    door::StorageClient,
    ls::{beneath, children},
};
use crate::cli::StorageDuArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &StorageDuArguments, output: &Output) -> Result<Exit, Failure> {
    let door = StorageClient::open(&arguments.access)?;
    let mut found = Vec::new();
    for url in &arguments.urls {
        let (mut files, mut size) = (0_u64, 0_u64);
        let mut room = (None, None);
        let mut waiting = vec![url.clone()];
        while let Some(directory) = waiting.pop() {
            let entries = door.list(&directory).await?;
            if directory == *url {
                room = entries
                    .first()
                    .map_or((None, None), |itself| (itself.used, itself.available));
            }
            for entry in children(entries) {
                if entry.directory {
                    waiting.push(beneath(&directory, entry.name()));
                } else {
                    files += 1;
                    size = size.saturating_add(entry.size.unwrap_or_default());
                }
            }
        }
        let left = room
            .1
            .map_or_else(String::new, |left| format!("; {} left there", Bytes(left)));
        output.line(format!("{:>10}  {files} files  {url}{left}", Bytes(size).to_string()));
        found.push(json!({ "url": url, "size": size, "files": files, "area_used": room.0, "available": room.1 }));
    }
    output.done(&json!({ "usage": found }));
    Ok(Exit::Done)
}
