//! Ports of services that are stopped and started again at one address.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
};

use anyhow::{Context, Result};
use parking_lot::Mutex;

/// Below the range from which Linux takes ports for connections and for listeners that name none (32768 to 60999 unless
/// `ip_local_port_range` says otherwise), so that only tests take ports here.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The lock files of the ports this process has taken: the kernel releases them when it ends, however it ends.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A TCP port that nobody listens on, and that no other test is given until this process ends.
///
/// # Errors
/// If no lock file can be made, or every port is taken.
pub fn free_port() -> Result<u16> {
    let folder = std::env::temp_dir().join("weir-test-ports");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let n_ports = u32::from(PORTS.end - PORTS.start);
    // Processes begin at different places, so that each finds a port at its first attempt.
    let begin = std::process::id().wrapping_mul(97);
    for step in 0..n_ports {
        let port = PORTS.start + u16::try_from(begin.wrapping_add(step) % n_ports)?;
        let path = folder.join(port.to_string());
        let lock = File::create(&path).with_context(|| format!("could not create {}", path.display()))?;
        // Linux refuses all addresses if somebody listens on one of them.
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            TAKEN.lock().push(lock);
            return Ok(port);
        }
    }
    anyhow::bail!("all of {n_ports} ports are taken")
}
