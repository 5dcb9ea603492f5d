//! Dead letters: messages that a sink refuses for good go into `NAME.refused.jsonl` beside the spool. They are one to a
//! line as in a file sink, for a person to look at and send again.

use std::{fs, io, path::PathBuf};

use super::file::{append, envelopes};
use crate::lines::Message;

/// A file that has grown beyond this becomes `NAME.refused.old.jsonl`, in place of the one before: a sink that refuses everything
/// must not fill the disk.
const SIZE_MAX: u64 = 64 << 20;

#[derive(Debug, Clone)]
pub(super) struct Refused {
    path: PathBuf,
}

impl Refused {
    pub(super) fn of(spool: &std::path::Path, sink: &str) -> Self {
        Self {
            path: spool.join(format!("{sink}.refused.jsonl")),
        }
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(super) async fn keep(&self, message: &Message<'_>) -> io::Result<()> {
        let (path, line) = (self.path.clone(), envelopes(&[*message], b"\n"));
        let kept = tokio::task::spawn_blocking(move || {
            if fs::metadata(&path).is_ok_and(|file| file.len() > SIZE_MAX) {
                fs::rename(&path, path.with_extension("old.jsonl"))?;
            }
            append(&path, &line)
        });
        kept.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}
