//! A file of JSON lines: `{"type":"complete","vo":"atlas","data":{…}}`. A log rotation may rename it: it is reopened
//! for each batch.

use std::{io, path::PathBuf};

use super::Undelivered;
use crate::config::FileSinkConfig;
use crate::lines::Message;

pub(super) struct File {
    path: PathBuf,
}

impl File {
    pub(super) fn new(config: &FileSinkConfig) -> Self {
        Self {
            path: config.path.clone(),
        }
    }

    pub(super) async fn deliver(&mut self, batch: &[Message<'_>]) -> Result<(), Undelivered> {
        let (path, lines) = (self.path.clone(), envelopes(batch, b"\n"));
        let written = tokio::task::spawn_blocking(move || append(&path, &lines)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|error| Undelivered::Later(format!("{} cannot be written: {error}", self.path.display())))
    }
}

pub(super) fn append(path: &std::path::Path, lines: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = weir_auth::files::open_log(path)?;
    let before = file.metadata()?.len();
    let written = file.write_all(lines);
    if written.is_err() {
        // Half a line would spoil the next one.
        file.set_len(before)?;
    }
    written
}

/// Messages in their envelopes, each followed by `end`.
pub(super) fn envelopes(batch: &[Message<'_>], end: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.iter().map(|message| message.json.len() + 64).sum());
    for message in batch {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(message.kind.as_str().as_bytes());
        out.extend_from_slice(b"\",\"vo\":");
        // A text is always written.
        out.extend(serde_json::to_vec(message.vo).unwrap_or_default());
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(message.json);
        out.push(b'}');
        out.extend_from_slice(end);
    }
    out
}
