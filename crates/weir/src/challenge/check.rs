//! `weir challenge check`: validates a challenge without starting anything.

use serde::Serialize;

use super::resolve_simulated;
use crate::cli::ChallengeFileArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct Checked<'a> {
    challenge: &'a str,
    sites: usize,
    rses: usize,
    links: usize,
    workloads: usize,
    thresholds: usize,
    notes: &'a [String],
}

/// Says that the file is good, or every fault in it.
pub(super) fn run(arguments: &ChallengeFileArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = resolve_simulated(&arguments.file, &arguments.overrides)?;
    let links: std::collections::BTreeSet<_> = plan.workloads.iter().flat_map(weir_plan::Workload::links).collect();
    let summary = plan.summary();
    let checked = Checked {
        challenge: &plan.name,
        sites: plan.grid.sites.len(),
        rses: plan.grid.rses.len(),
        links: links.len(),
        workloads: plan.workloads.len(),
        thresholds: plan.thresholds.len(),
        notes: &summary.notes,
    };
    output.line(format!(
        "{} is a valid challenge: {} sites, {} RSEs, {} links, {} workloads, {} thresholds",
        arguments.file.display(),
        checked.sites,
        checked.rses,
        checked.links,
        checked.workloads,
        checked.thresholds
    ));
    for note in checked.notes {
        output.line(format!("  ! {note}"));
    }
    output.done(&checked);
    Ok(Exit::Done)
}
