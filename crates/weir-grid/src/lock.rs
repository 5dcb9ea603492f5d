//! One process per directory, and a way to find and stop it that cannot hit another one.
//!
//! The process that runs a grid holds an exclusive lock on `grid.lock` until it ends, however it ends, and keeps its
//! pid inside. A pid alone may have been reused; a pid read from a locked file *after* its process was pinned by a
//! pidfd has not.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use weir_auth::files::open_own;

use crate::GridError;

/// Name of the lock in the grid's directory.
pub(crate) const FILE_NAME: &str = "grid.lock";

/// Folder of the locks by which the processes of sites are found, below the grid's directory.
const SITES: &str = "sites";

/// Where the process of a site keeps its lock.
pub(crate) fn site_folder(dir: &Path, site: &str) -> PathBuf {
    dir.join(SITES).join(site)
}

/// The sites that have, or had, a process of their own on this grid's directory.
pub(crate) fn sites_with_locks(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join(SITES)).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The right to run a grid on a directory; given back when dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the directory for this process.
    pub(crate) fn take(dir: &Path) -> Result<Self, GridError> {
        let path = dir.join(FILE_NAME);
        let access = |source| GridError::Access {
            path: path.clone(),
            source,
        };
        let mut file = open(&path).map_err(access)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(GridError::Taken {
                    dir: dir.to_owned(),
                    pid: read_pid(&mut file),
                });
            }
            Err(error) => return Err(access(error.into())),
        }
        file.set_len(0).map_err(access)?;
        writeln!(file, "{}", std::process::id()).map_err(access)?;
        Ok(Self { _file: file })
    }
}

/// The process that runs the grid of a directory.
#[derive(Debug)]
pub struct GridProcess {
    pid: u32,
    descriptor: OwnedFd,
    lock: PathBuf,
}

impl GridProcess {
    /// Finds the process that runs the grid of this directory; none if no grid runs there.
    ///
    /// # Errors
    /// [`GridError::Access`] if the directory cannot be read.
    pub fn find(dir: &Path) -> Result<Option<Self>, GridError> {
        let lock = dir.join(FILE_NAME);
        let access = |source| GridError::Access {
            path: lock.clone(),
            source,
        };
        let mut file = match open_own(&lock, File::options().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(access(error)),
        };
        let Some(pid) = read_pid(&mut file) else {
            return Ok(None);
        };
        let Some(wanted) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let Ok(descriptor) = pidfd_open(wanted, PidfdFlags::empty()) else {
            return Ok(None);
        };
        // Only now: while the lock is held, the pid in the file is that of its holder.
        if is_held(&file).map_err(access)? && read_pid(&mut file) == Some(pid) {
            Ok(Some(Self { pid, descriptor, lock }))
        } else {
            Ok(None)
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks it to stop (SIGTERM) and waits until it has, at most `patience`; true if it has.
    ///
    /// # Errors
    /// [`GridError::Access`] if it may not be signalled.
    pub fn stop(&self, patience: Duration) -> Result<bool, GridError> {
        self.ask_to_stop()?;
        self.wait(patience)
    }

    /// Asks it to stop (SIGTERM), and wakes it in case it is stopped (SIGCONT).
    pub(crate) fn ask_to_stop(&self) -> Result<(), GridError> {
        for signal in [Signal::TERM, Signal::CONT] {
            match pidfd_send_signal(&self.descriptor, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(self.access(error)),
            }
        }
        Ok(())
    }

    /// Waits until it has ended, at most `patience`; true if it has.
    pub(crate) fn wait(&self, patience: Duration) -> Result<bool, GridError> {
        let patience = Timespec::try_from(patience).ok();
        let mut ended = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut ended, patience.as_ref())
            .map(|n_ready| n_ready > 0)
            .map_err(|error| self.access(error))
    }

    fn access(&self, error: rustix::io::Errno) -> GridError {
        GridError::Access {
            path: self.lock.clone(),
            source: error.into(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    open_own(path, &mut options)
}

fn is_held(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            flock(file, FlockOperation::Unlock)?;
            Ok(false)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_grid() {
        // Two grids would share one database and one set of ports.
        let dir = tempfile::tempdir().unwrap();
        assert!(GridProcess::find(dir.path()).unwrap().is_none());
        let lock = DirectoryLock::take(dir.path()).unwrap();
        let second = DirectoryLock::take(dir.path()).unwrap_err();
        assert!(
            matches!(second, GridError::Taken { pid: Some(pid), .. } if pid == std::process::id()),
            "{second}"
        );
        assert_eq!(
            GridProcess::find(dir.path()).unwrap().unwrap().pid(),
            std::process::id()
        );
        drop(lock);
        // The pid in the file lives (it is ours), but it no longer runs a grid.
        assert!(GridProcess::find(dir.path()).unwrap().is_none());
        DirectoryLock::take(dir.path()).unwrap();
    }
}
