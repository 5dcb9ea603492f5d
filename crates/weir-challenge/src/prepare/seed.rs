//! Puts source files at their RSEs: known content, uploaded through the storage door, shared by many transfers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use weir_measure::files::{FileRow, Happened};
use weir_units::{Algorithm, Checksum, Checksums};
use weir_world::ErrorClass;

use crate::execute::progress::{Progress, Seeding, Update};
use crate::removal::made::MadeFiles;
use crate::services::storage::StorageDoor;

/// Uploads at once: one makes the bytes while another sends them.
const UPLOADS_AT_ONCE: usize = 4;

/// A source file.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// Index of the door it is at.
    pub(crate) door: usize,
    /// Its path below the door's base; with a catalogue, known after the catalogue was asked.
    pub(crate) path: String,
    /// Its name in the catalogue; `None` if rules are not made over it.
    pub(crate) did: Option<String>,
    pub(crate) size: u64,
    /// Number of its content under the run's seed.
    pub(crate) number: u64,
    /// Adler-32 of its content; set once it is uploaded.
    pub(crate) checksum: Option<Checksum>,
    pub(crate) checksums: Checksums,
}

impl SourceFile {
    /// Its row in the list of files.
    fn row<'r>(&'r self, doors: &'r [StorageDoor], checksum: Option<&Checksum>) -> FileRow<'r> {
        FileRow {
            happened: Happened::Made,
            rse: &doors[self.door].name,
            path: &self.path,
            size: self.size,
            checksum: checksum.cloned(),
        }
    }
}

/// Why a door has no source files.
#[derive(Debug, Clone)]
pub(crate) struct NoSources {
    /// The class of the error when they were written.
    pub(crate) class: ErrorClass,
    /// The same for people.
    pub(crate) reason: String,
}

/// The source files of a run: one per door, size and variant, shared by all links and workloads.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Vec<SourceFile>,
    index: BTreeMap<(usize, u64, u32), usize>,
    /// Doors that would not have their files, with the reason.
    refused: BTreeMap<usize, NoSources>,
}

impl Sources {
    /// Returns the index of the file with this place, size and variant, which is added if need be.
    pub(crate) fn need(&mut self, door: &StorageDoor, door_index: usize, size: u64, variant: u32) -> usize {
        *self.index.entry((door_index, size, variant)).or_insert_with(|| {
            let number = self.files.len() as u64;
            self.files.push(SourceFile {
                door: door_index,
                path: format!("{}/src/{number}", door.directory),
                did: None,
                size,
                number,
                checksum: None,
                checksums: Checksums::default(),
            });
            self.files.len() - 1
        })
    }

    /// Returns the index of a file over which rules are made. There is one of its own for each link, since a rule
    /// cannot ask for a file that is at its destination.
    pub(crate) fn need_did(&mut self, door_index: usize, size: u64, run: &str) -> usize {
        let number = self.files.len() as u64;
        self.files.push(SourceFile {
            door: door_index,
            path: String::new(),
            did: Some(format!("{run}.source.{number}")),
            size,
            number,
            checksum: None,
            checksums: Checksums::default(),
        });
        self.files.len() - 1
    }

    /// Notes the place of a file, below its door's base.
    pub(crate) fn set_path(&mut self, index: usize, path: &str) {
        path.clone_into(&mut self.files[index].path);
    }

    /// Returns the files by index.
    pub(crate) fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns a file.
    pub(crate) fn file(&self, index: usize) -> &SourceFile {
        &self.files[index]
    }

    /// Returns why a door has no source files, if it would not have them: its links cannot be used, the rest goes on.
    pub(crate) fn refused(&self, door: usize) -> Option<&NoSources> {
        self.refused.get(&door)
    }

    /// Returns all of them, by door.
    pub(crate) fn all_refused(&self) -> &BTreeMap<usize, NoSources> {
        &self.refused
    }

    /// Uploads all files and takes their checksums.
    pub(crate) async fn upload(
        &mut self,
        doors: &[StorageDoor],
        seed: u64,
        made: &MadeFiles,
        progress: &Arc<dyn Progress>,
        stop: &CancellationToken,
    ) {
        let all = Seeding {
            files: self.files.len() as u64,
            files_done: 0,
            bytes: self.files.iter().map(|file| file.size).sum(),
            bytes_done: 0,
        };
        made.make(self.files.iter().map(|file| file.row(doors, None)));
        let (files_done, bytes_done) = (AtomicU64::new(0), AtomicU64::new(0));
        let upload = |index: usize| {
            let file = &self.files[index];
            let (door, path, number, size) = (&doors[file.door], file.path.clone(), file.number, file.size);
            let (files_done, bytes_done) = (&files_done, &bytes_done);
            async move {
                if stop.is_cancelled() {
                    return (index, None);
                }
                let outcome = door.of_path(&path).upload(&path, seed, number, size).await;
                if let Ok(checksums) = &outcome {
                    made.make([file.row(doors, checksums.get(Algorithm::Adler32))]);
                }
                let files_done = files_done.fetch_add(1, Ordering::Relaxed) + 1;
                let bytes_done = bytes_done.fetch_add(size, Ordering::Relaxed) + size;
                progress.show(&Update::Seeding(Seeding {
                    files_done,
                    bytes_done,
                    ..all
                }));
                (index, Some(outcome))
            }
        };
        let uploads = futures_util::stream::iter((0..self.files.len()).map(upload));
        let outcomes: Vec<_> = uploads.buffer_unordered(UPLOADS_AT_ONCE).collect().await;
        for (index, outcome) in outcomes {
            let file = &mut self.files[index];
            match outcome {
                None => {}
                Some(Ok(checksums)) => {
                    file.checksum = checksums.get(Algorithm::Adler32).cloned();
                    file.checksums = checksums;
                }
                Some(Err(error)) => {
                    self.refused.entry(file.door).or_insert_with(|| NoSources {
                        class: error.class(),
                        reason: weir_auth::redact(&weir_auth::error_chain(&error)),
                    });
                }
            }
        }
    }
}
