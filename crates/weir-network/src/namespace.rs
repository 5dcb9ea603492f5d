//! A network namespace of its own for a command: a network in which it may drop and queue packets, without root.
//!
//! [`enter`] runs the same command again by `unshare` of util-linux, in a user namespace in which the user has the rights of root
//! over this network alone. Nothing outside of the command can be reached from there, and nothing of the host's network changes.
//! The namespace ends with its last process.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use crate::programs::of_system;

/// Tells the command in the namespace which one it came from.
const CAME_FROM: &str = "WEIR_CAME_FROM_NAMESPACE";
/// The kernel's name of the network of this process.
const OWN: &str = "/proc/self/ns/net";
/// The congestion control of new connections, and the kernel's choice of them.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Bytes of a packet of Ethernet.
const PACKET: u32 = 1_500;

/// Why there is no namespace.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// A program is missing, or cannot be started.
    #[error("could not start {program}")]
    Program {
        /// The program.
        program: &'static str,
        /// The package that has it on Debian.
        package: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The system does not let the user have one.
    #[error("this system allows no network namespace: {0}")]
    NotAllowed(String),
    /// The network cannot be set up as wanted.
    #[error("could not set up the network of the namespace: {0}")]
    SetUp(String),
    /// The kernel has no such congestion control.
    #[error("the kernel has no congestion control {wanted}; it has {available}")]
    Congestion {
        /// The wanted one.
        wanted: String,
        /// The names of the ones that it has, with spaces between.
        available: String,
    },
}

impl NamespaceError {
    /// The remedy, if there is one.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Program { package, .. } => Some(format!("apt-get install {package}")),
            Self::NotAllowed(_) => Some(
                "see user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns, or run without --namespace".to_owned(),
            ),
            Self::SetUp(_) => None,
            Self::Congestion { .. } => Some("load its module (modprobe tcp_bbr), or choose another".to_owned()),
        }
    }
}

/// Whether this process is in a namespace that [`enter`] made.
pub fn is_inside() -> bool {
    let Ok(came_from) = std::env::var(CAME_FROM) else {
        return false;
    };
    let own = own().unwrap_or_default();
    let is_other = came_from.starts_with("net:[") && !own.is_empty() && own != came_from;
    is_other && interfaces().iter().all(|name| name == "lo")
}

/// Runs the command of this process in a network namespace of its own, in place of this process. Comes back only with an error.
pub fn enter() -> NamespaceError {
    match of_system("unshare").args(ARGUMENTS).arg("true").output() {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => {
            let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
            return NamespaceError::NotAllowed(said);
        }
        Err(source) => return program("unshare", "util-linux", source),
    }
    let (program_of_this, came_from) = match (std::env::current_exe(), own()) {
        (Ok(program), Ok(own)) => (program, own),
        (Err(error), _) | (_, Err(error)) => return NamespaceError::SetUp(error.to_string()),
    };
    let mut command = of_system("unshare");
    command
        .args(ARGUMENTS)
        .arg(program_of_this)
        .args(std::env::args_os().skip(1));
    program("unshare", "util-linux", command.env(CAME_FROM, came_from).exec())
}

/// A user namespace in which the user is root, and a network in it.
const ARGUMENTS: [&str; 4] = ["--user", "--map-root-user", "--net", "--"];

/// Lets the network of the namespace carry packets of Ethernet's size, one by one, with this congestion control.
///
/// # Errors
/// [`NamespaceError`]
pub fn prepare(congestion: Option<&str>) -> Result<(), NamespaceError> {
    if !is_inside() {
        return Err(NamespaceError::SetUp("this process is in none".to_owned()));
    }
    let packet = PACKET.to_string();
    // Else the kernel moves up to 64 KiB as one packet, which is lost as one.
    let words = ["link", "set", "dev", "lo", "mtu", &packet, "gso_max_segs", "1", "up"];
    let told = of_system("ip").args(words).output();
    let told = told.map_err(|source| program("ip", "iproute2", source))?;
    if !told.status.success() {
        return Err(NamespaceError::SetUp(
            String::from_utf8_lossy(&told.stderr).trim().to_owned(),
        ));
    }
    for (name, package) in [("nft", "nftables"), ("tc", "iproute2")] {
        let version = if name == "nft" { "--version" } else { "-V" };
        let told = of_system(name).arg(version).output();
        told.map_err(|source| program(name, package, source))?;
    }
    congestion.map_or(Ok(()), set_congestion)
}

fn set_congestion(wanted: &str) -> Result<(), NamespaceError> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let available = read(AVAILABLE);
    if !available.split(' ').any(|name| name == wanted) {
        let wanted = wanted.to_owned();
        return Err(NamespaceError::Congestion { wanted, available });
    }
    std::fs::write(Path::new(CONGESTION), wanted)
        .map_err(|error| NamespaceError::SetUp(format!("{CONGESTION}: {error}")))
}

fn own() -> io::Result<String> {
    Ok(std::fs::read_link(OWN)?.to_string_lossy().into_owned())
}

/// The interfaces of this process's network.
fn interfaces() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let name = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
    text.lines().filter_map(name).collect()
}

fn program(program: &'static str, package: &'static str, source: io::Error) -> NamespaceError {
    NamespaceError::Program {
        program,
        package,
        source,
    }
}
