//! A wall clock that steps while programs run, by `libfaketime`, which stands between a process and its clock; their monotonic clock
//! stays true, as the kernel's does.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

/// The wall clock of whoever is started with its [environment](Self::environment).
#[derive(Debug)]
pub struct SteppingClock {
    library: PathBuf,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl SteppingClock {
    /// A clock that is right.
    ///
    /// # Errors
    /// If the library that Debian's package leaves is not there.
    pub fn new() -> Result<Self> {
        let machines = fs::read_dir("/usr/lib")?.filter_map(Result::ok);
        let mut libraries = machines.map(|machine| machine.path().join("faketime/libfaketimeMT.so.1"));
        let library = libraries
            .find(|library| library.exists())
            .context("libfaketime is needed: apt-get install libfaketime")?;
        let folder = tempfile::tempdir()?;
        let clock = Self {
            library,
            file: folder.path().join("clock"),
            _folder: folder,
        };
        clock.step(0)?;
        Ok(clock)
    }

    /// Sets it so many seconds off the true time. It is looked at once a second.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn step(&self, seconds: i64) -> Result<()> {
        // Whole at once: it is read at any moment.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{seconds:+}\n"))?;
        Ok(fs::rename(next, &self.file)?)
    }

    /// Variables for a program that is to have this clock.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}
