//! `weir report`: renders the report of a run again.

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
}

/// Renders `report.html` beside the `report.json` of a run folder, or of the file itself.
pub(crate) fn run(arguments: &ReportArguments, output: &Output) -> Result<Exit, Failure> {
    let data = data_of(&arguments.dir);
    let text = fs::read_to_string(&data)
        .with_context(|| format!("could not read {}", data.display()))
        .map_err(|error| Failure::bad_input(error).with_remedy("name a run folder, or its report.json"))?;
    let report = Report::from_json(&text)
        .with_context(|| format!("{} is no report of this kind", data.display()))
        .map_err(Failure::bad_input)?;
    let page = data.with_file_name("report.html");
    let html = weir_challenge::render(&report).map_err(Failure::could_not_run)?;
    weir_challenge::write_atomically(&page, |to| to.write_all(html.as_bytes())).map_err(|error| {
        Failure::could_not_run(anyhow!(error).context(format!("could not write {}", page.display())))
    })?;
    output.line(format!("{}: {}", report.challenge, report.verdict.as_str()));
    output.line(format!("wrote {}", page.display()));
    output.done(&Rendered {
        page: &page,
        verdict: report.verdict,
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
