//! Runs programs and keeps what they say.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::weir_binary;

/// The outcome of a program.
#[derive(Debug, Clone)]
pub struct Run {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// True if it exited with 0.
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }

    /// Standard output as JSON: the last line, which is the envelope of `--json`.
    ///
    /// # Errors
    /// If that line is not JSON.
    pub fn envelope(&self) -> anyhow::Result<serde_json::Value> {
        let last = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("not an envelope: {self:?}"))
    }

    /// Itself, if it exited with 0.
    ///
    /// # Errors
    /// If it did not; the error shows everything.
    pub fn expect_ok(self) -> anyhow::Result<Self> {
        anyhow::ensure!(
            self.ok(),
            "exit {:?}\nstdout: {}\nstderr: {}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }
}

/// Runs a command to its end, without standard input.
///
/// # Errors
/// If it cannot be started.
pub fn run(command: &mut Command) -> anyhow::Result<Run> {
    let output = command.stdin(Stdio::null()).output().with_context(|| {
        format!(
            "could not start {}; `scripts/peers.sh tests` installs it",
            command.get_program().display()
        )
    })?;
    Ok(Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs `weir` with these arguments.
///
/// # Errors
/// If it cannot be started.
pub fn weir<A: AsRef<OsStr>>(arguments: &[A]) -> anyhow::Result<Run> {
    run(Command::new(weir_binary()).args(arguments).env_remove("WEIR_LOG"))
}

/// False if `PEERS=no` asks to leave out what needs other people's programs; says so.
pub fn peers() -> bool {
    let wanted = std::env::var("PEERS").is_ok_and(|peers| peers == "no");
    if wanted {
        leave_out("PEERS=no");
    }
    !wanted
}

/// Says that a test, or a part of it, is not run for want of something: on standard error, past the harness, and in the list
/// that `make test` counts. It fails for a reason that `tests/left-out.txt` does not list.
pub fn leave_out(reason: &str) {
    use std::io::Write;
    let _gone = writeln!(std::io::stderr(), "left out: {reason}");
    if let Some(list) = std::env::var_os("WEIR_LEFT_OUT") {
        let list = std::fs::OpenOptions::new().create(true).append(true).open(list);
        let written = list.and_then(|mut list| writeln!(list, "{reason}"));
        assert!(written.is_ok(), "WEIR_LEFT_OUT cannot be written: {written:?}");
    }
}

/// Runs a challenge until its measurement is steady, at most three times: a machine whose disk stands still for seconds is no fault of what is
/// tested.
///
/// # Errors
/// If it cannot be run.
pub fn steadily(mut challenge: impl FnMut() -> anyhow::Result<Run>) -> anyhow::Result<Run> {
    for _ in 0..2 {
        let ran = challenge()?;
        let is_steady = !ran.stdout.contains(": UNSTABLE") && !ran.stdout.contains(r#""verdict":"unstable""#);
        if is_steady {
            return Ok(ran);
        }
    }
    challenge()
}

/// Share of the asked bits that a link missed between two moments of a run, in seconds.
///
/// # Panics
/// If the report has no series of the link.
pub fn missed(report: &serde_json::Value, link: &str, from: f64, until: f64) -> f64 {
    let bin = report["series"]["bin_s"].as_f64().expect("the report has a series");
    let sum = |key: &str| -> f64 {
        let values = report["series"]["links"][link][key]
            .as_array()
            .expect("the report has a series of the link");
        let within = |at: usize| ((at as f64 + 0.5) * bin >= from) && ((at as f64 + 0.5) * bin < until);
        values
            .iter()
            .enumerate()
            .filter(|(at, _)| within(*at))
            .filter_map(|(_, value)| value.as_f64())
            .sum()
    };
    1.0 - sum("achieved_bps") / sum("asked_bps")
}
