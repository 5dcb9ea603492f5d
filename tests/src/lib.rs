//! Black-box tests: the real binary, spoken to by curl and other people's clients.
//!
//! This library holds what the tests share; the tests are in `tests/`. They see nothing of Weir but its binary, its files
//! and its doors. Programs of other people are needed unless `PEERS=no` says to leave those tests out; `scripts/peers.sh`
//! installs them.
//!
//! ```no_run
//! # fn example() -> anyhow::Result<()> {
//! use weir_tests::{RunningGrid, TWO_SITES};
//! let grid = RunningGrid::up(TWO_SITES)?;
//! let url = grid.rse_url("ALPHA");
//! let answer = grid.curl(&[&format!("{url}/")])?;
//! assert_eq!(answer.code, Some(0));
//! # Ok(()) }
//! ```

mod binary;
mod broken;
mod certificates;
mod channel;
mod clock;
mod crowd;
mod daemon;
mod disk;
mod draw;
mod far;
mod grid;
mod headers;
mod hosts;
mod load;
mod nodes;
mod peer;
mod ports;
mod postgres;
mod relay;
mod rucio;
mod run;
mod secrets;
mod services;
mod strace;
mod syscalls;
mod tape;
mod web_server;
mod xrootd;

pub use binary::{find_weir, weir_binary};
pub use broken::{BROKEN, broken_report};
pub use certificates::{GridSecurity, VO};
pub use channel::Channel;
pub use clock::SteppingClock;
pub use crowd::{Crowd, Habit};
pub use daemon::{Daemon, wait_for, write_private};
pub use disk::SmallDisk;
pub use draw::{Draw, adler32};
pub use far::Far;
pub use grid::{RunningGrid, TWO_SITES};
pub use headers::with_header;
pub use hosts::TwoHosts;
pub use load::{FILES_PER_JOB, JOBS, Load, STORAGES, seeds};
pub use nodes::{
    LIMIT, all_known, attempts, node_settings, running, silent, silent_at, start_nodes, submit_to, waiting_job,
};
pub use peer::Peer;
pub use ports::free_port;
pub use postgres::Postgres;
pub use relay::{Path, Relay};
pub use rucio::RucioHome;
pub use run::{Run, leave_out, missed, peers, run, steadily, weir};
pub use secrets::{Secrets, files_below, holds, holds_jwt, process_words};
pub use services::{Answer, NodeSettings, Service, Services, StorageSettings, drafts, has_ended, visible_files};
pub use strace::{Strace, Trouble};
pub use syscalls::{Call, Recording};
pub use tape::{Tape, TapeState};
pub use web_server::{WebServer, WebServerKind};
pub use xrootd::{Cluster, Elsewhere, Xrootd, XrootdSettings};
