//! Puts the report together and writes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_measure::report::{Audit, Build, CrossCheck, Event, Host, Report};
use weir_measure::{Ending, Measurement};

use crate::clock::Clock;
use crate::drive::Driven;
use crate::engine::Sums;
use crate::folder::RunFolder;
use crate::{RunError, html};

/// The findings of a run beside its measurement.
pub(crate) struct Found<'a> {
    pub(crate) command: &'a str,
    pub(crate) host: Host,
    pub(crate) clock: Clock,
    pub(crate) sums: Sums,
    pub(crate) driven: Driven,
    pub(crate) crosschecks: Vec<CrossCheck>,
    pub(crate) audit: Option<Audit>,
}

/// Writes a report into a run folder, as data and as a page.
///
/// # Errors
/// They cannot be written.
pub fn write_report(report: &Report, folder: &RunFolder) -> Result<PathBuf, RunError> {
    folder.write("report.json", |to| to.write_all(report.to_json().as_bytes()))?;
    let page = html::render(report).map_err(|error| RunError::Folder {
        path: folder.path().join("report.html"),
        source: std::io::Error::other(error),
    })?;
    let page = folder.write("report.html", |to| to.write_all(page.as_bytes()))?;
    folder.log(&format!(
        "verdict {}: {}",
        report.verdict.as_str(),
        report.verdict_reasons.join("; ")
    ));
    Ok(page)
}

/// Makes the report.
pub(crate) fn report(mut measurement: Measurement, found: Found<'_>) -> Report {
    let failures = found.sums.deletion_failures;
    if failures > 0 {
        measurement.event(Event {
            t_s: measurement.spec().windows.drain_end.as_secs_f64(),
            text: format!("{failures} delivered files could not be deleted"),
        });
    }
    measurement.finish().report(Ending {
        command: found.command.to_owned(),
        started_at: moment(found.clock.started_at()),
        ended_at: moment(jiff::Timestamp::now()),
        weir: build(),
        host: found.driven.load.of(found.host),
        interrupted: found.driven.interrupted,
        crosschecks: found.crosschecks,
        audit: found.audit,
        deleted_files: found.sums.deleted_files,
        parameters: BTreeMap::new(),
        violations: Vec::new(),
    })
}

/// Returns which build this is.
pub fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: Some(env!("WEIR_COMMIT"))
            .filter(|commit| !commit.is_empty())
            .map(str::to_owned),
    }
}

fn moment(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}
