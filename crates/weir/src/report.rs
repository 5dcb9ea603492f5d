//! `weir report DIR`: renders the report of a run again.

use crate::cli::ReportArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Renders `report.html` again from `report.json`.
pub(crate) fn run(_arguments: &ReportArguments, _output: &Output) -> Result<Exit, Failure> {
    Err(Failure::could_not_run(anyhow::anyhow!(
        "this build cannot render reports yet"
    )))
}
