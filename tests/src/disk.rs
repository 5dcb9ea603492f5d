//! A small disk of a service's own, which can be filled to the last byte: in a mount namespace, without a privilege.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{Daemon, wait_for};

/// Kept in memory; goes with the value. Only who is [within](Self::within) sees it.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Daemon,
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// One of so many MiB.
    ///
    /// # Errors
    /// If the kernel lets nobody but the administrator make name spaces.
    pub fn new(mebibytes: u32) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("weir-disk-").tempdir()?;
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size={mebibytes}m small \"$0\" && echo mounted && exec sleep 100000");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .arg(directory.path().join("disk"));
        fs::create_dir(directory.path().join("disk"))?;
        let holder = Daemon::start(command, &directory.path().join("log"))?;
        let disk = Self { holder, directory };
        let mounted = || Ok(disk.holder.said().contains("mounted").then_some(()));
        wait_for(Duration::from_secs(20), mounted).with_context(|| format!("no small disk: {}", disk.holder.said()))?;
        Ok(disk)
    }

    /// Where it is, for who is within.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    /// The program that runs others where the disk is seen, with its arguments.
    pub fn within(&self) -> Vec<String> {
        let words = ["nsenter", "--preserve-credentials", "--user", "--mount", "--target"];
        let pid = self.holder.pid().to_string();
        words.into_iter().map(str::to_owned).chain([pid]).collect()
    }

    /// The process below whose root, in `/proc`, others see it.
    pub fn holder(&self) -> u32 {
        self.holder.pid()
    }

    /// Takes all the room that is left.
    ///
    /// # Errors
    /// If it cannot be written to for another reason.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        let mut piece = vec![0; 65_536];
        while !piece.is_empty() {
            match ballast.write(&piece) {
                Ok(_) => {}
                // Smaller and smaller ones, to the last byte.
                Err(error) if error.kind() == ErrorKind::StorageFull => piece.truncate(piece.len() / 2),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives back what [`Self::fill`] has taken.
    ///
    /// # Errors
    /// If that was nothing.
    pub fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.pid());
        PathBuf::from(root + &self.path().to_string_lossy()).join("ballast")
    }
}
