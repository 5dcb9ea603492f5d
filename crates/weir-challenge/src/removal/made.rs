//! `files.csv`: every file that the run creates at a storage, recorded before it is created, and every one that it has
//! deleted.
//!
//! Files that are recorded and not deleted are the leftovers of a killed run.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_measure::files::{self, FileRow, Happened};

use crate::output::append::AppendFile;

/// Notes the files of a run; its clones note into the same file.
#[derive(Debug, Clone)]
pub(crate) struct MadeFiles(Arc<Mutex<AppendFile>>);

impl MadeFiles {
    /// Notes into a file without rows.
    pub(crate) fn new(mut file: AppendFile) -> Self {
        file.row(|to| files::begin(to));
        Self(Arc::new(Mutex::new(file)))
    }

    /// Does something with the file.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut AppendFile) -> T) -> T {
        work(&mut self.0.lock())
    }

    /// Records files that are about to be created, or whose checksum is known now. They are in the file when this
    /// returns.
    pub(crate) fn make<'r>(&self, rows: impl IntoIterator<Item = FileRow<'r>>) {
        self.with(|file| {
            for row in rows {
                file.row(|to| files::write(to, &row));
            }
            file.flush();
        });
    }

    /// Notes a file that is not there any more.
    pub(crate) fn deleted(&self, rse: &str, path: &str) {
        let row = FileRow {
            happened: Happened::Deleted,
            rse,
            path,
            size: 0,
            checksum: None,
        };
        self.with(|file| file.row(|to| files::write(to, &row)));
    }
}
