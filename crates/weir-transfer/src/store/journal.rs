//! The executor's journal, written as changes of the store.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use weir_executor::orders::{Journal, Note};

use super::{Change, Writer};

/// The executor's notes go to this writer.
#[derive(Clone)]
pub(crate) struct Notes(pub(crate) Arc<Writer>);

impl Journal for Notes {
    fn note(&self, note: Note) {
        self.0.note(note.into());
    }

    fn make_durable(&self, note: Note) -> BoxFuture<'_, bool> {
        Box::pin(self.0.make_durable(note.into()))
    }
}

impl From<Note> for Change {
    fn from(note: Note) -> Self {
        match note {
            Note::Claim { file, claim } => Self::Claim { file, claim },
            Note::Requested { files, request } => Self::Requested { files, request },
            Note::Unpinned { files } => Self::Unpinned { files },
            Note::Metadata { file, metadata } => Self::Metadata { file, metadata },
        }
    }
}
