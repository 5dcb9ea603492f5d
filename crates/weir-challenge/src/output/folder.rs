//! The run folder: `weir-runs/<challenge>-<YYYYMMDD-HHMMSS>/`.

use parking_lot::Mutex;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use weir_auth::files;

use crate::RunError;

/// The folder of one run. Its files appear whole or not at all, except log and rows, which grow.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    log: Mutex<File>,
}

impl RunFolder {
    /// Makes a new folder below `parent`, with this moment in its name; see [`Self::create`].
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create_now(parent: &Path, challenge: &str) -> Result<Self, RunError> {
        Self::create(parent, challenge, jiff::Timestamp::now())
    }

    /// Makes a new folder below `parent`, with the moment in its name and a number behind it if there is one already.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(parent: &Path, challenge: &str, moment: jiff::Timestamp) -> Result<Self, RunError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| RunError::Folder { path, source }
        };
        fs::create_dir_all(parent).map_err(failed(parent))?;
        files::shared_folder(parent).map_err(failed(parent))?;
        let stem = format!("{challenge}-{}", moment.strftime("%Y%m%d-%H%M%S"));
        for number in 1.. {
            let name = if number == 1 {
                stem.clone()
            } else {
                format!("{stem}-{number}")
            };
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    let file = path.join("run.log");
                    let log = File::options()
                        .create_new(true)
                        .append(true)
                        .open(&file)
                        .map_err(failed(&file))?;
                    // Held until this process ends, however it does.
                    log.try_lock().map_err(io::Error::from).map_err(failed(&file))?;
                    return Ok(Self {
                        path,
                        log: Mutex::new(log),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path)(error)),
            }
        }
        unreachable!("some number is free")
    }

    /// Says whether the process that made a run folder still runs.
    pub fn is_running(path: &Path) -> bool {
        let log = File::open(path.join("run.log"));
        log.is_ok_and(|log| matches!(log.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line to the log, with the time and without secrets. A log that cannot be written does not stop a run.
    pub fn log(&self, text: &str) {
        let line = format!(
            "{:.3} {}\n",
            jiff::Timestamp::now(),
            weir_auth::redact(text).replace('\n', " ")
        );
        let mut log = self.log.lock();
        if let Err(error) = log.write_all(line.as_bytes()) {
            tracing::warn!(%error, "could not write the run's log");
        }
    }

    /// Writes a file so that it appears whole or not at all.
    ///
    /// # Errors
    /// The error of the writer or of the disk.
    pub fn write(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<PathBuf, RunError> {
        let mut file = self.begin(name)?;
        file.write(write);
        file.finish()
    }

    /// Begins a file that is written bit by bit, and appears when it is whole.
    ///
    /// # Errors
    /// The disk does not take it.
    pub fn begin(&self, name: &str) -> Result<PartFile, RunError> {
        let path = self.path.join(name);
        PartFile::begin(&path).map_err(|source| RunError::Folder { path, source })
    }
}

/// Writes a file under another name beside it, then renames it.
///
/// # Errors
/// The error of the writer or of the disk.
pub fn write_atomically(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = PartFile::begin(path)?;
    file.write(write);
    file.close()
}

/// A file that is written under another name until it is whole. If it never is, nothing stays of it.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    temporary: PathBuf,
    to: Option<BufWriter<File>>,
    /// The first failure. Nothing was written after it.
    failure: Option<io::Error>,
}

impl PartFile {
    fn begin(path: &Path) -> io::Result<Self> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        Ok(Self {
            path: path.to_owned(),
            to: Some(BufWriter::new(File::create(&temporary)?)),
            temporary,
            failure: None,
        })
    }

    /// Writes more of it. A failure is told in the end; nothing is written after it.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if let (None, Some(to)) = (&self.failure, &mut self.to) {
            self.failure = write(to).err();
        }
    }

    /// Makes it appear; returns its path.
    ///
    /// # Errors
    /// The first failure of all.
    pub fn finish(self) -> Result<PathBuf, RunError> {
        let path = self.path.clone();
        let outcome = self.close();
        outcome.map_err(|source| RunError::Folder {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    fn close(mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(to) = self.to.take() {
            to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        }
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        let _not_there = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    #[test]
    fn two_runs_of_one_second_have_two_folders() {
        // Wrong: a run writes into the folder of another.
        let parent = tempfile::tempdir().unwrap();
        let moment = jiff::Timestamp::UNIX_EPOCH;
        let first = RunFolder::create(parent.path(), "c", moment).unwrap();
        let second = RunFolder::create(parent.path(), "c", moment).unwrap();
        assert_eq!(first.path().file_name().unwrap(), "c-19700101-000000");
        assert_eq!(second.path().file_name().unwrap(), "c-19700101-000000-2");
    }

    #[test]
    fn a_file_that_fails_half_way_leaves_nothing() {
        // Wrong: a report that could not be written whole is taken for one.
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("report.json");
        write_atomically(&path, |to| to.write_all(b"whole")).unwrap();
        let failed = write_atomically(&path, |to| {
            to.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
