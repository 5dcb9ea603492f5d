//! The system calls that programs make, in their order over all threads and processes. By strace.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{Daemon, wait_for};

/// Programs whose calls are written down. Dropped, it lets them go.
#[derive(Debug)]
pub struct Recording {
    daemon: Daemon,
    log: PathBuf,
}

/// A call that has ended. Times are lines of the log, which strace writes in the order in which things happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call: `fsync`.
    pub name: String,
    /// Its arguments as strace writes them: descriptors with paths or addresses, file names whole, contents left out.
    pub arguments: String,
    /// When it was entered.
    pub began: usize,
    /// When it returned; `usize::MAX` if that was after the end of the recording.
    pub ended: usize,
    /// Whether it succeeded, as far as is known.
    pub good: bool,
}

impl Recording {
    /// Writes down these calls (`fsync,write`) of programs that run, and of those that they start.
    ///
    /// # Errors
    /// If there is no strace, or the kernel does not let it.
    pub fn attach(pids: &[u32], calls: &str, folder: &Path) -> Result<Self> {
        let log = folder.join("strace.recording");
        let mut command = Command::new("strace");
        command.args([
            "-f",
            "-yy",
            "-s",
            "0",
            "-e",
            "signal=none",
            "-e",
            &format!("trace={calls}"),
            "-o",
        ]);
        command.arg(&log);
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let daemon = Daemon::start(command, &folder.join("strace.recording.log"))
            .context("strace is needed: apt-get install strace")?;
        let attached = || Ok((daemon.said().matches(" attached").count() >= pids.len()).then_some(()));
        wait_for(Duration::from_secs(20), attached).with_context(|| format!("strace: {}", daemon.said()))?;
        Ok(Self { daemon, log })
    }

    /// Lets the programs go; gives their calls in the order in which they returned.
    ///
    /// # Errors
    /// If strace does not end, or its log cannot be read.
    pub fn end(mut self) -> Result<Vec<Call>> {
        self.daemon.terminate(Duration::from_secs(10))?;
        Ok(calls(&std::fs::read_to_string(&self.log)?))
    }
}

/// Reads strace's log. A call that another thread's interrupts stands in two lines, the second one with its result.
fn calls(log: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut all = Vec::new();
    for (at, line) in log.lines().enumerate() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        // The second one where strace lets go of a thread within a call.
        let open = rest
            .strip_suffix("<unfinished ...>")
            .or_else(|| rest.strip_suffix("<detached ...>"));
        if let Some(first) = open {
            begun.insert(pid, (at, first.trim_end()));
            continue;
        }
        let resumed = rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"));
        let (began, whole) = match resumed {
            Some((_, second)) => match begun.remove(pid) {
                Some((began, first)) => (began, format!("{first}{second}")),
                None => continue,
            },
            None => (at, rest.to_owned()),
        };
        all.extend(call(&whole, began, at));
    }
    // The recording ended before strace saw them return.
    let open = begun.into_values();
    all.extend(open.filter_map(|(began, first)| call(&format!("{first}) = 0"), began, usize::MAX)));
    all
}

/// `name(arguments) = result`.
fn call(text: &str, began: usize, ended: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    Some(Call {
        name: name.to_owned(),
        arguments: arguments.trim_end().trim_end_matches(')').to_owned(),
        began,
        ended,
        good: !result.starts_with(['-', '?']),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_threads_are_told_apart() {
        // Else a call of one thread would be taken for the end of another's.
        let log = "7     fsync(4</a/b> <unfinished ...>\n\
                   8     write(5<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"\"..., 9) = 9\n\
                   7     <... fsync resumed>)            = 0\n\
                   8     renameat2(AT_FDCWD</>, \"/x\", 3</a>, \"y\", 0) = -1 EEXIST (File exists)\n\
                   7     +++ exited with 0 +++\n\
                   9     fsync(4</c> <detached ...>\n";
        let told: Vec<_> = calls(log)
            .into_iter()
            .map(|one| (one.name, one.began, one.ended, one.good))
            .collect();
        let end = usize::MAX;
        let due = [
            ("write", 1, 1, true),
            ("fsync", 0, 2, true),
            ("renameat2", 3, 3, false),
            ("fsync", 5, end, true),
        ];
        assert_eq!(
            told,
            due.map(|(name, began, ended, good)| (name.to_owned(), began, ended, good))
        );
        assert_eq!(calls(log)[1].arguments, "4</a/b>");
    }
}
