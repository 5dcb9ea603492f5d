//! `weir challenge plan`: the injections and needs of a challenge.

use serde::Serialize;
use weir_plan::{Plan, PlanSummary, Workload};
use weir_units::Bytes;

use super::resolve;
use crate::cli::ChallengeFileArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct Planned<'a> {
    plan: &'a Plan,
    summary: &'a PlanSummary,
}

/// Links that are listed one by one; of more, only the sums.
const LINKS_SHOWN: usize = 60;

/// Prints the plan.
pub(super) fn run(arguments: &ChallengeFileArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = resolve(&arguments.file, &arguments.overrides)?;
    let summary = plan.summary();
    let time = weir_units::duration::format;
    output.line(format!("{} at scale {}, seed {}", plan.name, plan.scale, plan.seed));
    let phases = &plan.phases;
    output.line(format!(
        "  phases   ramp {}, hold {}, drain at most {}",
        time(phases.ramp),
        time(phases.hold),
        time(phases.drain)
    ));
    if summary.asked.0 > 0 {
        output.line(format!("  asked    {:.2}", summary.asked));
    }
    output.line(format!(
        "  moves    {:.1} in {} transfers",
        summary.volume, summary.transfers
    ));
    output.line(format!(
        "  sources  {} files, {:.1}; {:.1} of space on this machine at most",
        summary.source_files, summary.source_volume, summary.space
    ));
    output.line(format!(
        "  at once  about {} transfers, {} at most; {:.1} start in a second",
        summary.active_estimate, summary.active_max, summary.starts_per_second
    ));
    for workload in &plan.workloads {
        show_workload(workload, output);
    }
    show_needs(&summary, output);
    for note in &summary.notes {
        output.line(format!("! {note}"));
    }
    output.done(&Planned {
        plan: &plan,
        summary: &summary,
    });
    Ok(Exit::Done)
}

fn show_workload(workload: &Workload, output: &Output) {
    output.line("");
    output.line(format!(
        "{} ({}, activity {})",
        workload.name(),
        workload.kind(),
        workload.activity()
    ));
    match workload {
        Workload::Rates(rates) => {
            for rated in rates.links.iter().take(LINKS_SHOWN) {
                output.line(format!(
                    "  {:<24} {:>12}  {:>7} files of {}",
                    rated.link.to_string(),
                    format!("{:.2}", rated.rate),
                    rated.n_files,
                    rated.file_size
                ));
            }
            if rates.links.len() > LINKS_SHOWN {
                output.line(format!("  … and {} more links", rates.links.len() - LINKS_SHOWN));
            }
        }
        Workload::Matrix(steps) | Workload::Ramp(steps) => {
            for step in steps.steps.iter().take(LINKS_SHOWN) {
                for cell in &step.cells {
                    let mode = cell.mode.map_or_else(|| "any mode".to_owned(), |mode| mode.to_string());
                    output.line(format!(
                        "  step {:>3}  {:<24} {:<8} {:>4} × {}, {} at once",
                        step.index,
                        cell.link.to_string(),
                        mode,
                        cell.transfers,
                        cell.size,
                        cell.parallel
                    ));
                }
            }
            if steps.steps.len() > LINKS_SHOWN {
                output.line(format!("  … and {} more steps", steps.steps.len() - LINKS_SHOWN));
            }
        }
    }
}

fn show_needs(summary: &PlanSummary, output: &Output) {
    output.line("");
    output.line(format!(
        "{:<12} {:>12} {:>12} {:>10} {:>10}",
        "RSE", "in", "out", "space", "of"
    ));
    for need in &summary.rses {
        let quota = need
            .quota
            .map_or_else(|| "unknown".to_owned(), |quota: Bytes| format!("{quota:.1}"));
        let mark = if need.fits { "" } else { "  does not fit" };
        output.line(format!(
            "{:<12} {:>12} {:>12} {:>10} {:>10}{mark}",
            need.rse.to_string(),
            format!("{:.2}", need.ingress),
            format!("{:.2}", need.egress),
            format!("{:.1}", need.space()),
            quota
        ));
    }
}
