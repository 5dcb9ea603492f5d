//! Builds the report of a run that never wrote it, from the rows that the run wrote while it went on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use weir_measure::files::{self, Happened};
use weir_measure::replay::{Recorded, Replayed, replay};
use weir_measure::report::Event;
use weir_measure::{Ending, Report, WindowSpec, chain, events, gauges, rows, samples, signals};
use weir_plan::{Challenge, Overrides, Plan};

use crate::faults;
use crate::output::description::{self, RunDescription};
use crate::output::folder::RunFolder;

/// Why there is no report of a run.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The folder does not belong to a run, or its run ended before it wrote anything.
    #[error("{path} could not be read: the folder holds no run that began")]
    NoRun {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The challenge that the run kept is none any more.
    #[error("{path} is no valid challenge: {problem}")]
    Challenge {
        /// The file.
        path: PathBuf,
        /// The first problem.
        problem: String,
    },
    /// A file of the run is none of its kind.
    #[error("could not read the rows of the run")]
    Rows(#[from] weir_measure::ReadError),
    /// The run ended before its challenge began.
    #[error("the run in {path} ended before its first transfer: there is nothing to report")]
    NotBegun {
        /// The run folder.
        path: PathBuf,
    },
}

/// Reads the challenge that a run kept.
pub(crate) fn plan_of(folder: &Path) -> Result<Plan, RebuildError> {
    let path = folder.join("challenge.toml");
    let text = std::fs::read_to_string(&path).map_err(|source| RebuildError::NoRun {
        path: path.clone(),
        source,
    })?;
    let plan = Challenge::parse(&text, &path).and_then(|challenge| challenge.resolve(&Overrides::default()));
    plan.map_err(|problems| RebuildError::Challenge {
        path,
        problem: problems.first().map(ToString::to_string).unwrap_or_default(),
    })
}

/// Builds the report of the run in a folder, up to the last row that it wrote. It is marked as incomplete, and says whether the run
/// still goes on.
///
/// # Errors
/// [`RebuildError`].
pub fn rebuild(folder: &Path) -> Result<Report, RebuildError> {
    let plan = plan_of(folder)?;
    let no_run = |name: &str| {
        let path = folder.join(name);
        move |source| RebuildError::NoRun { path, source }
    };
    let run = RunDescription::read(folder).map_err(no_run(description::FILE))?;
    let Some(started_at) = run.started_at.clone() else {
        return Err(RebuildError::NotBegun {
            path: folder.to_owned(),
        });
    };
    let open = |name: &str| File::open(folder.join(name)).map(BufReader::new).map_err(no_run(name));
    let mut replayed = replay(
        &plan,
        Recorded {
            transfers: open(rows::FILE)?,
            series: open(samples::FILE)?,
            events: open(events::FILE)?,
            rules: open(chain::FILE).ok(),
            signals: open(signals::rows::FILE).ok(),
            gauges: open(gauges::rows::FILE).ok(),
        },
    )?;
    let reason = reason(&plan, &replayed, RunFolder::is_running(folder));
    let reached = replayed.reached;
    let unread = faults::replay(folder, &plan.resolved, &mut replayed.measurement);
    let cut = std::mem::take(&mut replayed.cut);
    for cut in cut.iter().map(ToString::to_string).chain(unread) {
        let text = format!("the rest of a file is not in this report: {cut}");
        let t_s = reached.as_secs_f64();
        replayed.measurement.event(Event { t_s, text });
    }
    let sources = format!("{}/src/", run.directory);
    let mut deleted_files = 0;
    files::read(open(files::FILE)?, |row| {
        let delivered = row.happened == Happened::Deleted && !row.path.starts_with(&sources);
        deleted_files += u64::from(delivered);
    })?;
    let ended_at = started_at.parse::<jiff::Timestamp>().ok();
    let ended_at = ended_at.and_then(|start| start.checked_add(reached).ok());
    let verified_by_size = run.verified_by_size;
    let report = replayed.measurement.finish().report(Ending {
        command: run.command,
        started_at,
        ended_at: ended_at.map_or_else(String::new, |at| format!("{at:.3}")),
        weir: run.weir,
        host: run.host,
        interrupted: None,
        incomplete: Some(reason),
        crosschecks: Vec::new(),
        audit: None,
        deleted_files,
        deletions: None,
        parameters: BTreeMap::new(),
        acted: std::collections::BTreeMap::new(),
        violations: Vec::new(),
    });
    Ok(Report {
        verified_by_size,
        ..report
    })
}

/// Says how far the run came.
fn reason(plan: &Plan, replayed: &Replayed, is_running: bool) -> String {
    let windows = WindowSpec::planned(&plan.phases);
    let ended = if is_running {
        "still goes on"
    } else {
        "ended without a report"
    };
    let mut text = if replayed.is_over {
        format!("the run {ended}: its transfers have ended, its counters were not compared")
    } else {
        let place = windows.place(replayed.reached, replayed.drain);
        format!("the run {ended}: its rows reach {place}")
    };
    let unfinished = replayed.standing.active + replayed.standing.queued;
    if unfinished > 0 && !replayed.is_over {
        text = format!("{text}; about {unfinished} transfers had not ended and are in no figure");
    }
    text
}
