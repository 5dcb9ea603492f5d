//! How a run is wanted, and how it is told to stop.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::faults::NetworkGround;

/// How a plan is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where run folders are made.
    pub out: PathBuf,
    /// Where the data areas are, in a directory of their own; in the run folder if absent.
    pub scratch: Option<PathBuf>,
    /// Whether the data areas stay.
    pub keep: bool,
    /// Percentage of delivered files to be read back.
    pub audit: Option<f64>,
    /// Longest time for looking at storage that does not start with the grid; it is not looked at if absent.
    pub preflight: Option<Duration>,
    /// The network that relays make between the storages; none by default.
    pub ground: NetworkGround,
    /// Whether faults can be added by hand that need relays, or disks that can be slow.
    pub breakable: bool,
    /// Whether the storages of each site run in a process of their own; also where a fault of the plan needs it.
    pub processes: bool,
    /// Where the packets of the run go.
    pub network: RunNetwork,
    /// The `weir` binary, which runs the processes of sites; without it there are none.
    pub program: Option<PathBuf>,
    /// Command line that runs the same again.
    pub command: String,
}

/// The network in which a run takes place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunNetwork {
    /// The network of this machine.
    #[default]
    Host,
    /// The namespace that this process has [prepared](crate::namespace::prepare), so that faults can act on packets.
    Namespace,
}

/// How a run is told to stop.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Stop injecting, drain briefly, clean up, report.
    pub soft: CancellationToken,
    /// Wait for nothing any more. Implies `soft`.
    pub hard: CancellationToken,
}
