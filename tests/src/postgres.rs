//! A PostgreSQL server of a test's own, reached through a socket in its directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Daemon, free_port, run, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// Ends when it goes, with its data.
#[derive(Debug)]
pub struct Postgres {
    server: Option<Daemon>,
    programs: PathBuf,
    directory: tempfile::TempDir,
    /// Whether what is written must outlive the machine; tests kill processes only.
    durable: bool,
    /// A port of 127.0.0.1, with passwords; else only the socket leads to it, without.
    port: Option<u16>,
}

/// The server refuses to run as root.
fn as_its_user(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
        .arg(program);
    command
}

impl Postgres {
    /// Makes a server with a database `weir` of a user `weir`.
    pub fn start() -> Result<Self> {
        Self::with_user(Self::bare()?)
    }

    /// As [`Self::start`], and waits for the disk as a server does that an operator runs: for measurements.
    pub fn durable() -> Result<Self> {
        Self::with_user(Self::make(true, None)?)
    }

    fn with_user(this: Self) -> Result<Self> {
        run(this.tool("createuser").arg("weir"))?.expect_ok()?;
        run(this.tool("createdb").args(["-O", "weir", "weir"]))?.expect_ok()?;
        Ok(this)
    }

    /// Makes a server with nothing in it but its administrator, `postgres`.
    pub fn bare() -> Result<Self> {
        Self::make(false, None)
    }

    /// As [`Self::bare`], on a port of 127.0.0.1 as a distribution's package has it: a client there needs a password.
    pub fn listening() -> Result<Self> {
        Self::make(false, Some(free_port()?))
    }

    fn make(durable: bool, port: Option<u16>) -> Result<Self> {
        let versions =
            fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is needed: apt-get install postgresql")?;
        let programs = versions
            .filter_map(Result::ok)
            .map(|version| version.path().join("bin"));
        let programs = programs.filter(|bin| bin.join("initdb").exists()).max();
        let directory = tempfile::Builder::new().prefix("weir-pg-").tempdir()?;
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").arg("postgres").arg(directory.path()))?.expect_ok()?;
        }
        let mut this = Self {
            server: None,
            programs: programs.context("PostgreSQL is needed: apt-get install postgresql")?,
            directory,
            durable,
            port,
        };
        let data = this.directory.path().join("data");
        let mut make = as_its_user(&this.programs.join("initdb"));
        make.args([
            "-U",
            "postgres",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ])
        .arg(data)
        .current_dir("/");
        run(&mut make)?.expect_ok()?;
        this.serve()?;
        Ok(this)
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.args(["-U", "postgres", "-h"]).arg(self.directory.path());
        if let Some(port) = self.port {
            command.args(["-p", &port.to_string()]);
        }
        command
    }

    /// The table of a service's configuration; `role`: of the node.
    pub fn table(&self, role: &str) -> String {
        Self::table_by(self.socket(), role)
    }

    /// As [`Self::table`], for a node that reaches the server by the socket in this directory.
    pub fn table_by(socket: &Path, role: &str) -> String {
        format!(
            "[postgres]\nhost = \"{}\"\ndatabase = \"weir\"\nuser = \"weir\"\nrole = \"{role}\"\n",
            socket.display()
        )
    }

    /// The rows of a query on the database `weir`, columns separated by `|`.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn query(&self, text: &str) -> Result<String> {
        Ok(run(self.tool("psql").args(["-d", "weir", "-At", "-c", text]))?
            .expect_ok()?
            .stdout)
    }

    /// The directory of its socket.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    /// Its port, if it has one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Serves again what is there.
    pub fn serve(&mut self) -> Result<()> {
        let mut command = as_its_user(&self.programs.join("postgres"));
        let fsync = format!("fsync={}", if self.durable { "on" } else { "off" });
        command
            .arg("-D")
            .arg(self.directory.path().join("data"))
            .arg("-k")
            .arg(self.directory.path())
            .args(["-c", &fsync, "-c", "max_connections=200"])
            .current_dir("/");
        match self.port {
            Some(port) => command.args(["-c", "listen_addresses=localhost", "-p", &port.to_string()]),
            None => command.args(["-c", "listen_addresses="]),
        };
        let log = self.directory.path().join("server.log");
        self.server = Some(Daemon::start(command, &log)?);
        wait_for(PATIENCE, || {
            let ready = run(self.tool("pg_isready").arg("-q"))?;
            Ok(ready.ok().then_some(()))
        })
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())
    }

    /// SIGKILL of the server and all of its processes.
    pub fn kill(&mut self) -> Result<()> {
        let children = self.processes();
        self.server.as_mut().context("it does not run")?.kill()?;
        for child in &children {
            let _gone = kill_process(*child, Signal::KILL);
        }
        let gone = || {
            children
                .iter()
                .all(|child| rustix::process::test_kill_process(*child).is_err())
        };
        wait_for(PATIENCE, || Ok(gone().then_some(())))
    }

    /// Sends a signal to all of its processes.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        for process in self.processes() {
            let _gone = kill_process(process, signal);
        }
        Ok(())
    }

    /// Its processes, the first one last.
    pub fn processes(&self) -> Vec<Pid> {
        let Some(first) = self.server.as_ref().map(Daemon::pid) else {
            return Vec::new();
        };
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
        let numbers = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        numbers
            .chain([i32::try_from(first).unwrap_or_default()])
            .filter_map(Pid::from_raw)
            .collect()
    }

    /// The content of a backup of the database.
    pub fn dump(&self) -> Result<String> {
        let dump = run(self.tool("pg_dump").arg("weir"))?;
        ensure!(dump.ok(), "{}", dump.stderr);
        Ok(dump.stdout)
    }

    /// Asks the database: one row a line.
    pub fn ask(&self, query: &str) -> Result<String> {
        let answer = run(self.tool("psql").args(["-XAtc", query, "weir"]))?;
        ensure!(answer.ok(), "{answer:?}");
        Ok(answer.stdout.trim().to_owned())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _running = self.signal(Signal::CONT);
        // SIGQUIT: at once, and its processes with it.
        if let Some(server) = &mut self.server {
            let _gone = server.signal(Signal::QUIT);
            let _ended = wait_for(Duration::from_secs(5), || server.ended());
        }
    }
}
