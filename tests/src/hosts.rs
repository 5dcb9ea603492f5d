//! Two hosts that share nothing but a wire: network namespaces of the test's own, with a pair of Ethernet devices between.

use std::{env, net::Ipv4Addr, path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};

use crate::{Daemon, run, wait_for};

/// Set in the run within the namespaces.
const WITHIN: &str = "WEIR_TEST_HOSTS";

/// The wire, and the host at its other end. Both go with the value.
#[derive(Debug)]
pub struct TwoHosts {
    holder: Daemon,
}

impl TwoHosts {
    /// The address of the host on which the test runs.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 1);
    /// The address of the other.
    pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 2);

    /// Runs this test once more, on a host of its own, and fails if it fails there. True in that run: only there is it to go on.
    ///
    /// # Errors
    /// If it failed there, or the kernel lets nobody but the administrator make name spaces.
    pub fn within(test: &str) -> Result<bool> {
        if env::var_os(WITHIN).is_some() {
            return Ok(true);
        }
        let mut command = Command::new("unshare");
        // The administrator needs no user namespace, in which XRootD could not become another user.
        if run(Command::new("unshare").args(["--net", "true"])).is_ok_and(|run| run.ok()) {
            command.arg("--net");
        } else {
            command.args(["--user", "--map-current-user", "--keep-caps", "--net"]);
        }
        command
            .arg(env::current_exe()?)
            .args(["--exact", test, "--nocapture"])
            .env(WITHIN, "yes");
        let run = run(&mut command)?.expect_ok()?;
        ensure!(run.stdout.contains("1 passed"), "no test {test}: {}", run.stdout);
        Ok(false)
    }

    /// Makes the other host and lays the wire, in the network that [`TwoHosts::within`] has made.
    ///
    /// # Errors
    /// If one of the commands for it fails.
    pub fn start(folder: &Path) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo ready && exec sleep 100000"]);
        let holder = Daemon::start(command, &folder.join("far-host.log"))?;
        wait_for(Duration::from_secs(20), || {
            Ok(holder.said().contains("ready").then_some(()))
        })?;
        let hosts = Self { holder };
        let pid = hosts.holder.pid().to_string();
        let ip = |arguments: &[&str]| run(Command::new("ip").args(arguments))?.expect_ok();
        ip(&["link", "set", "lo", "up"])?;
        ip(&[
            "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", &pid,
        ])?;
        ip(&["address", "add", &format!("{}/24", Self::NEAR), "dev", "wire"])?;
        ip(&["link", "set", "wire", "up"])?;
        for words in [
            &["link", "set", "lo", "up"][..],
            &["address", "add", &format!("{}/24", Self::FAR), "dev", "wire"],
            &["link", "set", "wire", "up"],
        ] {
            run(hosts.far("ip").args(words))?.expect_ok()?;
        }
        Ok(hosts)
    }

    /// A command on the other host.
    pub fn far(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--net", "--target"])
            .arg(self.holder.pid().to_string())
            .arg(program);
        command
    }
}
