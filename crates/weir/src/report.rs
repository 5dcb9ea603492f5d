//! `weir report`: renders the report of a run again, or builds it from the rows of a run that never wrote one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::Serialize;
use weir_measure::Report;

use crate::cli::ReportArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct Rendered<'a> {
    page: &'a Path,
    verdict: weir_measure::Verdict,
    /// Whether the report was built from the rows of a run that did not come to its end.
    incomplete: bool,
}

/// Renders `report.html` beside the `report.json` of a run folder, or of the file itself. A run folder without a
/// complete report gets one that is built from its rows.
pub(crate) fn run(arguments: &ReportArguments, output: &Output) -> Result<Exit, Failure> {
    let path = &arguments.dir;
    let data = data_of(path);
    let written = (path.is_file() || data.exists()).then(|| read(&data)).transpose()?;
    let (report, page) = match written {
        // A report built from rows is built again: the run may have gone on since.
        Some(report) if path.is_file() || !report.incomplete => {
            let page = render(&report, &data)?;
            (report, page)
        }
        _ => rebuild(path)?,
    };
    let incomplete = if report.incomplete { " (incomplete)" } else { "" };
    output.line(format!("{}: {}{incomplete}", report.challenge, report.verdict.as_str()));
    if report.incomplete {
        report
            .verdict_reasons
            .iter()
            .for_each(|reason| output.line(format!("  {reason}")));
    }
    output.line(format!("wrote {}", page.display()));
    output.done(&Rendered {
        page: &page,
        verdict: report.verdict,
        incomplete: report.incomplete,
    });
    Ok(Exit::Done)
}

/// A run folder stands for the report in it.
fn data_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join("report.json")
    } else {
        path.to_owned()
    }
}

/// The report of a run folder, or of its `report.json`. A run under way has none: its report is built from its rows, and not
/// written.
pub(crate) fn read_run(run: &Path) -> Result<Report, Failure> {
    let data = data_of(run);
    if run.is_dir() && !data.exists() {
        return weir_challenge::rebuild(run).map_err(|error| Failure::bad_input(error).with_remedy(NAME_A_RUN));
    }
    read(&data)
}

fn read(data: &Path) -> Result<Report, Failure> {
    let text = fs::read_to_string(data)
        .with_context(|| format!("could not read {}", data.display()))
        .map_err(|error| Failure::bad_input(error).with_remedy(NAME_A_RUN))?;
    Report::from_json(&text)
        .with_context(|| format!("{} is no report of this kind", data.display()))
        .map_err(Failure::bad_input)
}

/// Writes the page beside the data.
fn render(report: &Report, data: &Path) -> Result<PathBuf, Failure> {
    let page = data.with_file_name("report.html");
    let html = weir_challenge::render(report).map_err(Failure::could_not_run)?;
    weir_challenge::write_atomically(&page, |to| to.write_all(html.as_bytes())).map_err(|error| {
        Failure::could_not_run(anyhow!(error).context(format!("could not write {}", page.display())))
    })?;
    Ok(page)
}

/// Builds the report from the rows of a run, and writes it into the run folder.
fn rebuild(folder: &Path) -> Result<(Report, PathBuf), Failure> {
    let report = weir_challenge::rebuild(folder).map_err(|error| Failure::bad_input(error).with_remedy(NAME_A_RUN))?;
    let page = weir_challenge::write_report_into(&report, folder).map_err(crate::challenge::failure)?;
    Ok((report, page))
}

const NAME_A_RUN: &str = "name a run folder, or its report.json";
