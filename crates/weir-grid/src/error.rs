//! Why a grid does not start, or is not there.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why a grid does not start, or is not there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GridError {
    /// A file or directory of the grid could not be read or written.
    #[error("could not access {path}")]
    Access {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process runs a grid on this directory.
    #[error("a grid already runs on {dir}{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Taken {
        /// The grid's directory.
        dir: PathBuf,
        /// The process, if it has said.
        pid: Option<u32>,
    },
    /// No grid runs on this directory.
    #[error("no grid runs on {dir}")]
    NotRunning {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory holds something that is no grid.
    #[error("{dir} holds other things than a grid")]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// A state file of the grid is invalid.
    #[error("could not understand {path}: {message}")]
    Description {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        message: String,
    },
    /// A door could not get its address.
    #[error("could not listen on {address} for {door}")]
    Bind {
        /// The service or RSE.
        door: String,
        /// The address wanted.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The grid asks for more than an embedded grid can have.
    #[error("the grid has {n_rses} RSEs, more than the {max} an embedded grid can have")]
    TooManyRses {
        /// How many there are.
        n_rses: usize,
        /// How many there may be.
        max: usize,
    },
    /// No RSE of the grid is embedded at this site.
    #[error("the grid runs no storage at a site {site}; it does at {known}")]
    NoSite {
        /// The site asked for.
        site: String,
        /// The sites there are.
        known: String,
    },
    /// The grid on this directory has given a door no address.
    #[error("the grid on {dir} has no address for {door}")]
    NoAddress {
        /// The grid's directory.
        dir: PathBuf,
        /// The service or RSE.
        door: String,
    },
    /// The process of a site has ended.
    #[error("the process of site {site} has ended ({status}); its last words in {log}: {said}")]
    SiteEnded {
        /// The site.
        site: String,
        /// How it ended.
        status: String,
        /// Its last line of output.
        said: String,
        /// All that it said.
        log: PathBuf,
    },
    /// The process of a site does not end.
    #[error("the process of site {site} (process {pid}) does not stop")]
    SiteRuns {
        /// The site.
        site: String,
        /// The process.
        pid: u32,
    },
    /// The process of a site was not started with the grid, so that only the user who started it may stop it.
    #[error("the process of site {site} (process {pid}) was not started with the grid")]
    SiteForeign {
        /// The site.
        site: String,
        /// The process.
        pid: u32,
    },
    /// A service did not start, or does not answer.
    #[error("could not start {door}")]
    Start {
        /// The service or RSE.
        door: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl GridError {
    /// The remedy for the user, where there is an obvious one.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Taken { .. } => Some("stop it with `weir grid down DIR`, or choose another directory"),
            Self::NotRunning { .. } => Some("start one with `weir grid up GRID --dir DIR`"),
            Self::Foreign { .. } => Some("name a directory that is new or empty, or that a grid has used"),
            Self::Description { .. } => Some("choose another directory, or remove the file"),
            Self::Bind { .. } => Some("every address 127.x.y.z must be usable on the loopback interface"),
            Self::TooManyRses { .. } => Some("split the grid"),
            Self::Access { .. } => Some("name a directory of your own, below your home, on a disk with space"),
            Self::NoSite { .. } => Some("name one of these sites, or add an [[rse]] without url to the grid file"),
            Self::NoAddress { .. } => Some("start the grid of the same file with `weir grid up --processes` first"),
            Self::SiteRuns { .. } => Some("look at its log below log/; then end it with `kill -9`"),
            Self::SiteForeign { .. } => Some("end it: the grid starts another within 30 s"),
            Self::Start { .. } | Self::SiteEnded { .. } => None,
        }
    }
}
