//! Append-only files of a run, which hold only whole rows whenever the run ends, and however it does.
//!
//! A row is written to the file within a turn of the run's loop, so that a killed process loses at most the rows of its
//! last turn. It is on the disk within a second, so that a power failure loses that second. A disk that is full for a
//! while loses nothing: rows wait in memory, up to [`WAITING_MAX`] for each file.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// Bytes that wait for a disk that takes nothing; further rows are lost, and counted.
const WAITING_MAX: usize = 16 * 1024 * 1024;

/// How often files are put on the disk: twice in the second in which they must be.
const SYNC: Duration = Duration::from_millis(500);

/// A file of rows.
#[derive(Debug)]
pub(crate) struct AppendFile {
    path: PathBuf,
    file: File,
    /// Length of the file: whole rows alone.
    length: u64,
    /// Whole rows that are not in the file yet.
    waiting: Vec<u8>,
    /// Rows that were lost.
    lost: u64,
    /// The current error of the file, while rows wait for it.
    failure: Option<io::Error>,
    /// Whether a failure has been told.
    told: bool,
}

impl AppendFile {
    /// Makes the file; it must not be there.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create_new(true).write(true).mode(0o644).open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            length: 0,
            waiting: Vec::new(),
            lost: 0,
            failure: None,
            told: false,
        })
    }

    /// Adds a row, which [`Self::flush`] writes.
    pub(crate) fn row(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let before = self.waiting.len();
        if before >= WAITING_MAX {
            self.lost += 1;
            return;
        }
        if write(&mut self.waiting).is_err() {
            self.waiting.truncate(before);
            self.lost += 1;
        }
    }

    /// Writes the waiting rows. If the file takes only a part of them, that part is removed, and all rows wait for the
    /// next time.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        // At a place of its own: bytes of a row that was written in part are written over.
        match self.file.write_all_at(&self.waiting, self.length) {
            Ok(()) => {
                self.length += self.waiting.len() as u64;
                self.waiting.clear();
                self.waiting.shrink_to(64 * 1024);
                self.failure = None;
            }
            Err(error) => {
                let taken_back = self.file.set_len(self.length);
                self.failure = Some(taken_back.err().unwrap_or(error));
            }
        }
    }

    /// Returns the first error, once.
    pub(crate) fn trouble(&mut self) -> Option<String> {
        let error = self.failure.as_ref().filter(|_| !self.told)?;
        self.told = true;
        Some(format!(
            "{} takes no rows: {error}; they wait in memory",
            self.path.display()
        ))
    }

    /// Writes the waiting rows to the disk; describes lost rows, if there are any.
    pub(crate) fn close(mut self) -> Option<String> {
        self.end()
    }

    /// The same of a file that others know too.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.flush();
        let synced = self.file.sync_all();
        let path = self.path.display();
        match (&self.failure, synced) {
            (Some(error), _) => Some(format!("{path} does not hold the last rows of the run: {error}")),
            _ if self.lost > 0 => Some(format!("{path} lacks {} rows that the disk did not take", self.lost)),
            (None, Err(error)) => Some(format!("{path} could not be put on the disk: {error}")),
            (None, Ok(())) => None,
        }
    }
}

/// Puts files on the disk, twice a second, until it is dropped.
#[derive(Debug)]
pub(crate) struct Syncing {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Syncing {
    /// Begins with these files.
    pub(crate) fn of(files: &[&AppendFile]) -> io::Result<Self> {
        let files: Vec<File> = files
            .iter()
            .map(|file| file.file.try_clone())
            .collect::<io::Result<_>>()?;
        let (stop, stopped) = mpsc::channel();
        let failure = Arc::new(Mutex::new(None));
        let failed = failure.clone();
        let thread = std::thread::Builder::new()
            .name("weir-sync".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(SYNC) == Err(RecvTimeoutError::Timeout) {
                    for file in &files {
                        if let Err(error) = file.sync_data() {
                            failed.lock().get_or_insert(error);
                        }
                    }
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            failure,
        })
    }

    /// Returns the error, once.
    pub(crate) fn trouble(&self) -> Option<String> {
        let error = self.failure.lock().take()?;
        Some(format!("rows of the run could not be put on the disk: {error}"))
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    /// A handle that cannot write stands for a full disk; tests/run_survives.rs has a real one.
    #[test]
    fn rows_that_the_disk_does_not_take_wait_and_are_whole() {
        // Wrong: a disk that is full for a moment leaves half a row, and every row after it is read wrongly.
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("rows.csv");
        let mut file = AppendFile::create(&path).unwrap();
        file.row(|to| to.write_all(b"first\n"));
        file.flush();
        // Half of a row, as a write that stopped in the middle leaves it.
        let whole = std::mem::replace(&mut file.file, File::options().read(true).open(&path).unwrap());
        whole.write_all_at(b"sec", file.length).unwrap();
        file.row(|to| to.write_all(b"second\n"));
        file.flush();
        assert!(file.trouble().unwrap().contains("rows.csv takes no rows"));
        assert!(file.trouble().is_none());
        file.file = whole;
        file.row(|to| to.write_all(b"third\n"));
        assert_eq!(file.close(), None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
    }

    #[test]
    fn waiting_messages_are_bounded_and_lost_ones_are_counted() {
        // Wrong: a run of days on a full disk fills the memory, or ends without a word about missing rows.
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("rows.csv");
        let mut file = AppendFile::create(&path).unwrap();
        let row = vec![b'x'; 1024 * 1024];
        for _ in 0..20 {
            file.row(|to| to.write_all(&row));
        }
        assert_eq!(file.waiting.len(), WAITING_MAX);
        assert!(file.close().unwrap().contains("lacks 4 rows"));
    }
}
