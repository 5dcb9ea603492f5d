//! Programs in the background that cannot outlive their test.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Asks until there is an answer or the limit is over.
pub fn wait_for<T>(limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        ensure!(Instant::now() < deadline, "nothing came of it within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a file that only its owner can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// A program in the background; killed by its own id when the value goes.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it with both outputs in a log file.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("could not create {}", log.display()))?;
        let errors = out.try_clone()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its exit code if it has ended by itself.
    pub fn ended(&mut self) -> Result<Option<Option<i32>>> {
        Ok(self.child.try_wait()?.map(|status| status.code()))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends a signal without waiting.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        Ok(kill_process(pid, signal)?)
    }

    /// Asks it to end, waits, and gives its exit code.
    pub fn terminate(&mut self, limit: Duration) -> Result<Option<i32>> {
        self.signal(Signal::TERM)?;
        let child = &mut self.child;
        Ok(wait_for(limit, || Ok(child.try_wait()?))
            .with_context(|| "it did not end after SIGTERM")?
            .code())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            // Its id may be somebody else's by now.
            return;
        }
        // Asked first, so that a server with workers can end them too.
        if self.terminate(Duration::from_secs(5)).is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
