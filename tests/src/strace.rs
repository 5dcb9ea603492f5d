//! Trouble at a chosen system call of a program that runs: an error in place of the call, or the program's end before it. By strace,
//! which stands between the program and the kernel.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{Daemon, wait_for};

/// The effect at a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It is not done, and fails with this error: `ENOSPC`.
    Error(&'static str),
    /// The program is killed before it is done, as by `kill -9`.
    Killed,
}

/// A program with trouble ahead. Dropped, it lets the program go.
#[derive(Debug)]
pub struct Strace {
    daemon: Daemon,
    log: PathBuf,
    pid: u32,
    trouble: Trouble,
}

impl Strace {
    /// Prepares the trouble for the n-th of these calls (from 1) that a thread of the program makes from now on.
    ///
    /// # Errors
    /// If there is no strace, or the kernel does not let it.
    pub fn attach(pid: u32, call: &str, number: u32, trouble: Trouble, folder: &Path) -> Result<Self> {
        let what = match trouble {
            Trouble::Error(error) => format!("error={error}"),
            Trouble::Killed => "signal=KILL".to_owned(),
        };
        let log = folder.join("strace.calls");
        let mut command = Command::new("strace");
        command
            .args([
                "-f",
                "-e",
                &format!("trace={call}"),
                "-e",
                &format!("inject={call}:{what}:when={number}"),
            ])
            .args(["-p", &pid.to_string(), "-o"])
            .arg(&log);
        let daemon =
            Daemon::start(command, &folder.join("strace.log")).context("strace is needed: apt-get install strace")?;
        let attached = || Ok(daemon.said().contains(" attached").then_some(()));
        wait_for(Duration::from_secs(20), attached).with_context(|| format!("strace: {}", daemon.said()))?;
        Ok(Self {
            daemon,
            log,
            pid,
            trouble,
        })
    }

    /// Lets the program go, and tells whether there was trouble.
    ///
    /// # Errors
    /// If strace does not end.
    pub fn detach(mut self) -> Result<bool> {
        // Where its program has been killed it may wait for what never comes.
        if self.daemon.ended()?.is_none() && self.daemon.terminate(Duration::from_secs(2)).is_err() {
            self.daemon.kill()?;
        }
        let log = std::fs::read_to_string(&self.log)?;
        let struck = log.contains("(INJECTED)") || log.contains("killed by SIGKILL");
        if self.trouble == Trouble::Killed {
            // A program of many threads takes a moment to die.
            let limit = Duration::from_secs(if struck { 20 } else { 0 });
            let _lives_on = wait_for(limit, || Ok((!lives(self.pid)).then_some(())));
            return Ok(!lives(self.pid));
        }
        Ok(struck)
    }
}

/// Whether a program is more than a name that waits for its parent.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
