//! Puts the report together and writes it.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use weir_measure::chain_report::DeletionReport;
use weir_measure::diagnosis::Told;
use weir_measure::report::{Audit, Build, CrossCheck, Event, Host, Report};
use weir_measure::{Ending, Measurement};

use crate::execute::clock::Clock;
use crate::execute::drive::Driven;
use crate::execute::engine::Sums;
use crate::output::folder::{RunFolder, write_atomically};
use crate::{RunError, output::html};

/// The findings of a run beside its measurement.
pub(crate) struct Found<'a> {
    pub(crate) command: &'a str,
    pub(crate) host: Host,
    pub(crate) clock: Clock,
    pub(crate) sums: Sums,
    pub(crate) deletions: Option<DeletionReport>,
    pub(crate) driven: Driven,
    /// The diagnosis while the run went on.
    pub(crate) told: Told,
    pub(crate) crosschecks: Vec<CrossCheck>,
    pub(crate) audit: Option<Audit>,
    /// The state of whatever made each fault, by its name.
    pub(crate) acted: BTreeMap<String, String>,
    /// RSEs that tell no checksum.
    pub(crate) verified_by_size: Vec<String>,
}

/// Where a report goes that its run folder cannot take, after the system's folder for temporary files. The second outlives a restart of
/// the machine, the third is memory, and is there when every disk is full.
const ELSEWHERE: [&str; 2] = ["/var/tmp", "/dev/shm"];

/// Writes a report into a run folder, as data and as a page, and its verdict into the log; returns the page.
///
/// # Errors
/// They cannot be written.
pub fn write_report(report: &Report, folder: &RunFolder) -> Result<PathBuf, RunError> {
    let page = write_report_into(report, folder.path())?;
    folder.log(&format!(
        "verdict {}: {}",
        report.verdict.as_str(),
        report.verdict_reasons.join("; ")
    ));
    Ok(page)
}

/// Writes a report into a folder, as data and as a page; returns the page.
///
/// # Errors
/// They cannot be written.
pub fn write_report_into(report: &Report, folder: &Path) -> Result<PathBuf, RunError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RunError::Folder { path, source }
    };
    let (data, page) = (folder.join("report.json"), folder.join("report.html"));
    write_atomically(&data, |to| to.write_all(report.to_json().as_bytes())).map_err(failed(&data))?;
    let html = html::render(report)
        .map_err(std::io::Error::other)
        .map_err(failed(&page))?;
    write_atomically(&page, |to| to.write_all(html.as_bytes())).map_err(failed(&page))?;
    Ok(page)
}

/// Writes a report into the run folder or, if that cannot take it, into a new folder in the first of [`ELSEWHERE`] that can. Returns the
/// folder that holds it.
///
/// # Errors
/// No place takes it; the error is that of the run folder.
pub(crate) fn write_report_somewhere(report: &Report, folder: &RunFolder) -> Result<PathBuf, RunError> {
    let Err(failure) = write_report(report, folder) else {
        return Ok(folder.path().to_owned());
    };
    folder.log(&weir_auth::error_chain(&failure));
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
    let places = std::iter::once(std::env::temp_dir()).chain(ELSEWHERE.iter().map(PathBuf::from));
    for place in places {
        let path = place.join(format!("weir-{name}-{:08x}", uuid::Uuid::new_v4().as_fields().0));
        // An unpredictable name, and a folder that only its owner can read.
        if DirBuilder::new().mode(0o700).create(&path).is_err() {
            continue;
        }
        match write_report_into(report, &path) {
            Ok(_page) => return Ok(path),
            Err(error) => {
                folder.log(&weir_auth::error_chain(&error));
                let _gone = std::fs::remove_dir_all(&path);
            }
        }
    }
    Err(failure)
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
    let mut report = measurement.finish().report(Ending {
        command: found.command.to_owned(),
        started_at: moment(found.clock.started_at()),
        ended_at: moment(jiff::Timestamp::now()),
        weir: build(),
        host: found.driven.load.of(found.host),
        interrupted: found.driven.interrupted,
        incomplete: None,
        crosschecks: found.crosschecks,
        audit: found.audit,
        deleted_files: found.sums.deleted_files,
        deletions: found.deletions,
        parameters: BTreeMap::new(),
        acted: found.acted,
        violations: Vec::new(),
    });
    found.told.stamp(&mut report.statements);
    Report {
        verified_by_size: found.verified_by_size,
        withdrawn: found.told.withdrawn().to_vec(),
        ..report
    }
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

pub(crate) fn moment(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}
