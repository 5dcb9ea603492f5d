//! The purpose of a run, and what it ends with.

use std::path::PathBuf;

use weir_measure::report::Report;

use crate::sites::SitesReport;

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The report.
    pub report: Report,
    /// The run folder.
    pub folder: PathBuf,
    /// The folder with the report: the run folder, or another if that did not take it.
    pub report_folder: PathBuf,
}

impl RunOutcome {
    /// Returns the exit code: 0 pass or no verdict, 1 fail or unstable, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match (self.report.interrupted, self.report.verdict) {
            (true, _) => 130,
            (false, weir_measure::Verdict::Pass | weir_measure::Verdict::None) => 0,
            (false, _) => 1,
        }
    }
}

/// The purpose for which a grid is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Run,
    Sites,
}

/// The result of a [`Purpose`].
pub(super) enum Done {
    Run(Box<RunOutcome>),
    Sites(Option<SitesReport>),
}
