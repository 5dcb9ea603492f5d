//! A grid brought up by `weir grid up` for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{Run, run, weir, weir_binary};

/// Two sites with one RSE each, ALPHA and BETA.
pub const TWO_SITES: &str = r#"
name = "two-sites"
vo = "test"

[[site]]
name = "A"
tier = 1

[[site]]
name = "B"
tier = 2

[[rse]]
name = "ALPHA"
site = "A"
quota = "2 GB"

[[rse]]
name = "BETA"
site = "B"
quota = "2 GB"

[storage]
durability = "cache"
"#;

/// How long a grid may take to be ready on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A grid in a directory of its own; stopped, and the directory removed, when dropped.
#[derive(Debug)]
pub struct RunningGrid {
    scratch: tempfile::TempDir,
    process: Child,
    /// Content of `grid.json`.
    pub description: Value,
}

impl RunningGrid {
    /// Writes the grid file, starts it and waits until it is ready.
    ///
    /// # Errors
    /// If it does not get ready; the error holds what it said.
    pub fn up(grid_file: &str) -> anyhow::Result<Self> {
        Self::up_with(grid_file, |_| Ok(()))
    }

    /// As [`RunningGrid::up`], with further files in the folder of the grid file.
    ///
    /// # Errors
    /// As [`RunningGrid::up`], and those of `files`.
    pub fn up_with(grid_file: &str, files: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        fs::write(scratch.path().join("grid.toml"), grid_file)?;
        files(scratch.path())?;
        Self::start(scratch, &[])
    }

    /// As [`RunningGrid::up`], with the storages of each site in a process of their own.
    ///
    /// # Errors
    /// As [`RunningGrid::up`].
    pub fn up_in_processes(grid_file: &str) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        fs::write(scratch.path().join("grid.toml"), grid_file)?;
        Self::start(scratch, &["--processes"])
    }

    /// Stops the grid (SIGTERM) and starts it again on the same directory.
    ///
    /// # Errors
    /// As [`RunningGrid::up`].
    pub fn restart(mut self) -> anyhow::Result<Self> {
        self.down()?.expect_ok()?;
        self.process.wait()?;
        let scratch = std::mem::replace(&mut self.scratch, tempfile::tempdir()?);
        drop(self);
        Self::start(scratch, &[])
    }

    /// Kills the grid (SIGKILL) and starts it again on the same directory.
    ///
    /// # Errors
    /// As [`RunningGrid::up`].
    pub fn kill_and_restart(self) -> anyhow::Result<Self> {
        self.kill_and_restart_with(&[])
    }

    /// As [`RunningGrid::kill_and_restart`], with further arguments of `grid up`.
    ///
    /// # Errors
    /// As [`RunningGrid::up`].
    pub fn kill_and_restart_with(mut self, arguments: &[&str]) -> anyhow::Result<Self> {
        self.kill()?;
        // Else the description of the killed one would be taken for that of the next.
        fs::remove_file(self.dir().join("grid.json"))?;
        let scratch = std::mem::replace(&mut self.scratch, tempfile::tempdir()?);
        drop(self);
        Self::start(scratch, arguments)
    }

    /// Kills the grid's process (SIGKILL), and returns when it is gone.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    fn start(scratch: tempfile::TempDir, arguments: &[&str]) -> anyhow::Result<Self> {
        let log = scratch.path().join("up.log");
        let output = fs::File::create(&log)?;
        let mut process = Command::new(weir_binary())
            .args(["grid", "up", "grid.toml", "--dir", "grid", "--log-level", "info"])
            .args(arguments)
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let description = scratch.path().join("grid/grid.json");
        let start = Instant::now();
        loop {
            if let Ok(text) = fs::read(&description) {
                let description = serde_json::from_slice(&text).context("grid.json is no JSON")?;
                return Ok(Self {
                    scratch,
                    process,
                    description,
                });
            }
            if let Some(status) = process.try_wait()? {
                bail!("`grid up` ended early ({status}): {}", fs::read_to_string(&log)?);
            }
            if start.elapsed() > PATIENCE {
                process.kill()?;
                bail!("`grid up` did not get ready: {}", fs::read_to_string(&log)?);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The directory the grid keeps its state in.
    pub fn dir(&self) -> PathBuf {
        self.scratch.path().join("grid")
    }

    /// A scratch folder for the test, removed with the grid.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The process that runs it.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its output and log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("up.log")).unwrap_or_default()
    }

    /// URL of an RSE, without a slash at the end.
    ///
    /// # Panics
    /// If the grid has no such RSE.
    pub fn rse_url(&self, name: &str) -> String {
        let rses = self.description["rses"].as_array().expect("grid.json lists the RSEs");
        let rse = rses
            .iter()
            .find(|rse| rse["name"] == name)
            .expect("the test names an RSE of its grid");
        rse["url"].as_str().expect("an RSE has a URL").to_string()
    }

    /// The folder of an embedded RSE's files.
    ///
    /// # Panics
    /// If the grid has no such RSE.
    pub fn area(&self, name: &str) -> PathBuf {
        let rses = self.description["rses"].as_array().expect("grid.json lists the RSEs");
        let rse = rses.iter().find(|rse| rse["name"] == name);
        let area = rse.and_then(|rse| rse["area"].as_str());
        PathBuf::from(area.expect("the test names an embedded RSE of its grid"))
    }

    /// URL of the transfer service, without a slash at the end.
    pub fn transfer_url(&self) -> String {
        self.description["transfer"]["url"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    }

    /// The audiences of the tokens that `weir grid env` gets: every door of the grid.
    pub fn audiences(&self) -> Vec<String> {
        let rses = self.description["rses"].as_array();
        let audiences = rses.into_iter().flatten().filter_map(|rse| rse["audience"].as_str());
        audiences.map(str::to_owned).collect()
    }

    /// The variables that `weir grid env` exports, names and values; with the token itself.
    ///
    /// # Errors
    /// If the command fails.
    pub fn env(&self) -> anyhow::Result<Vec<(String, String)>> {
        let dir = self.dir();
        let answer = weir(&[
            "grid".as_ref(),
            "env".as_ref(),
            dir.as_os_str(),
            "--show-token".as_ref(),
        ])?
        .expect_ok()?;
        let exports = answer.stdout.lines().filter_map(|line| line.strip_prefix("export "));
        let split = exports.filter_map(|line| line.split_once('='));
        Ok(split
            .map(|(name, value)| (name.to_string(), value.trim_matches('\'').to_string()))
            .collect())
    }

    /// A command in the environment that `weir grid env` makes.
    ///
    /// # Errors
    /// If `weir grid env` fails.
    pub fn command(&self, program: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(program);
        command.env_remove("X509_USER_PROXY");
        command.envs(self.env()?).current_dir(self.scratch.path());
        Ok(command)
    }

    /// Runs curl with the grid's token and authority.
    ///
    /// # Errors
    /// If curl cannot be started.
    pub fn curl(&self, arguments: &[&str]) -> anyhow::Result<Run> {
        let env = self.env()?;
        let token = env
            .iter()
            .find(|(name, _)| name == "BEARER_TOKEN")
            .map(|(_, token)| token.as_str());
        let header = format!(
            "Authorization: Bearer {}",
            token.context("no token in the environment")?
        );
        run(self
            .command("curl")?
            .args(["-sS", "--fail-with-body", "-H", &header])
            .args(arguments))
    }

    /// Stops it with `weir grid down`.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn down(&self) -> anyhow::Result<Run> {
        let dir = self.dir();
        weir(&["grid".as_ref(), "down".as_ref(), dir.as_os_str()])
    }
}

impl Drop for RunningGrid {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let stopped = self.down().is_ok_and(|answer| answer.ok());
            if !stopped {
                let _gone = self.process.kill();
            }
            let _reaped = self.process.wait();
        }
    }
}
