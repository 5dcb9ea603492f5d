//! A far host, by a way whose round trip the kernel measures; in a network namespace of the test's own.

use std::{env, fs::File, net::Ipv4Addr, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{Daemon, leave_out, run, wait_for};

/// Set in the run within the namespace.
const WITHIN: &str = "WEIR_TEST_NETWORK";

/// A host that is far away: connections to [`Far::FAR`] reach a server that listens at [`Far::NEAR`]. It goes with the value.
#[derive(Debug)]
pub struct Far {
    _daemon: Daemon,
}

impl Far {
    /// Where to listen.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    /// Where to connect.
    pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

    /// Runs this test once more, in a network of its own, and fails if it fails there. True in that run: only there is it to go on.
    /// Left out where there is no TUN device.
    ///
    /// # Errors
    /// If it failed there, or the kernel lets nobody but the administrator make name spaces.
    pub fn within(test: &str) -> Result<bool> {
        if env::var_os(WITHIN).is_some() {
            return Ok(true);
        }
        if File::options().read(true).write(true).open("/dev/net/tun").is_err() {
            leave_out("no TUN device that may be opened");
            return Ok(false);
        }
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--net"])
            .arg(env::current_exe()?)
            .args(["--exact", test, "--nocapture"])
            .env(WITHIN, "yes");
        let run = run(&mut command)?.expect_ok()?;
        ensure!(run.stdout.contains("1 passed"), "no test {test}: {}", run.stdout);
        Ok(false)
    }

    /// Starts it, in the network that [`Far::within`] has made.
    ///
    /// # Errors
    /// If there is none, or no `python3`.
    pub fn start(folder: &Path, round_trip: Duration) -> Result<Self> {
        run(Command::new("ip").args(["link", "set", "dev", "lo", "up"]))?.expect_ok()?;
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("network/far.py");
        let mut command = Command::new("/usr/bin/python3");
        command.arg(program).arg(round_trip.as_millis().to_string());
        let mut daemon = Daemon::start(command, &folder.join("far.log"))?;
        let ready = wait_for(Duration::from_secs(20), || {
            ensure!(daemon.ended()?.is_none(), "it ended");
            Ok(daemon.said().contains("ready").then_some(()))
        });
        ready.with_context(|| format!("no far host: {}", daemon.said()))?;
        Ok(Self { _daemon: daemon })
    }
}
