//! Progress of a run.

use std::path::PathBuf;

use weir_measure::diagnosis::{Change, Statement};
use weir_units::BitRate;

use serde::Serialize;

use crate::sites::SitesReport;

/// An observer of a run.
///
/// Called from the run's own tasks, several times a second at most; must return soon.
pub trait Progress: Send + Sync + 'static {
    /// Shows one update.
    fn show(&self, update: &Update);
}

/// Ignores all updates.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn show(&self, _update: &Update) {}
}

/// Something to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Update {
    /// The needs of the run and the resources of the machine; the first update, before anything is started.
    Preflight(Preflight),
    /// The run folder is there, and its log.
    Folder {
        /// Its path.
        folder: PathBuf,
    },
    /// The next step of the run, in one sentence.
    Step {
        /// The sentence, without full stop.
        text: String,
    },
    /// The checks of external storage.
    Sites(SitesReport),
    /// Source files on their way.
    Seeding(Seeding),
    /// Figures of the running challenge, about twice a second.
    Live(Live),
    /// The causes that hold links back, after each look.
    Why(Why),
    /// Something that a person should know now.
    Note {
        /// The sentence, without full stop.
        text: String,
    },
}

impl Update {
    /// Returns its name as an event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Preflight(_) => "preflight",
            Self::Folder { .. } => "folder",
            Self::Step { .. } => "step",
            Self::Sites(_) => "sites",
            Self::Seeding(_) => "seeding",
            Self::Live(_) => "progress",
            Self::Why(_) => "why",
            Self::Note { .. } => "note",
        }
    }
}

/// The needs of the run and the resources of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preflight {
    /// Name of the challenge.
    pub challenge: String,
    /// The parts to be started, in one sentence.
    pub starts: String,
    /// Asked rate, if one is asked.
    pub asked_bps: Option<BitRate>,
    /// Seconds of ramp and hold, if a rate is asked.
    pub planned_s: Option<f64>,
    /// Bytes that will pass through.
    pub volume_bytes: u64,
    /// Processors.
    pub cores: u32,
    /// Free space where the data areas are.
    pub free_bytes: Option<u64>,
    /// Space that the run needs there at most.
    pub needed_bytes: u64,
    /// Open files allowed; `None` for no limit.
    pub open_files: Option<u64>,
    /// Warnings; may be empty.
    pub warnings: Vec<String>,
}

/// Source files on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Seeding {
    /// Source files in all.
    pub files: u64,
    /// The present ones.
    pub files_done: u64,
    /// Their bytes in all.
    pub bytes: u64,
    /// The present ones.
    pub bytes_done: u64,
}

/// Figures of the running challenge.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Live {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// `ramp`, `hold`, `drain`; `run` where no rate is asked.
    pub phase: &'static str,
    /// Seconds until the phase ends, where known.
    pub phase_left_s: Option<f64>,
    /// Seconds until the drain at the latest ends, where known.
    pub left_s: Option<f64>,
    /// Rate asked for in the last ten seconds, the mean.
    pub asked_bps: Option<BitRate>,
    /// Bytes delivered in the last ten seconds, as a rate.
    pub achieved_bps: BitRate,
    /// The same for the traffic into each site, in the order of the grid.
    pub sites: Vec<LiveSite>,
    /// The same for the links that are furthest behind their asked rates; for all, in the order of the challenge, if
    /// there are few.
    pub links: Vec<LiveLink>,
    /// How many links there are.
    pub n_links: u64,
    /// Transfers under way at this moment.
    pub active: u64,
    /// Mean number of transfers under way in the last ten seconds, including those shorter than the interval of looks.
    pub active_mean: f64,
    /// Transfers submitted and waiting.
    pub queued: u64,
    /// Transfers that finished.
    pub finished: u64,
    /// Transfers that failed.
    pub failed: u64,
    /// Sizes of all transfers submitted.
    pub injected_bytes: u64,
    /// Sizes of the finished ones.
    pub verified_bytes: u64,
}

/// The causes that hold links back, as far as it shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Why {
    /// The moment of the look, seconds since the start.
    pub at_s: f64,
    /// The statements that hold, the surest first.
    pub statements: Vec<Statement>,
    /// The statements that are new, and those that are withdrawn.
    pub changes: Vec<Change>,
}

/// Figures of one link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LiveLink {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Rate asked for in the last ten seconds, the mean.
    pub asked_bps: Option<BitRate>,
    /// Bytes delivered in the last ten seconds, as a rate.
    pub achieved_bps: BitRate,
}

/// Figures of one site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LiveSite {
    /// Its name.
    pub site: String,
    /// Rate asked for in the last ten seconds, the mean.
    pub asked_bps: Option<BitRate>,
    /// Bytes delivered in the last ten seconds, as a rate.
    pub achieved_bps: BitRate,
}
