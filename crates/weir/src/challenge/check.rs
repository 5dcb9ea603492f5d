//! `weir challenge check`: validates a challenge without starting anything, and looks at its storage if asked to.

use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;
use weir_challenge::sites::SitesReport;
use weir_challenge::{Options, Silent, Stop};
use weir_plan::Plan;

use super::{failure, resolve, resolve_simulated, sites};
use crate::cli::{ChallengeCheckArguments, ChallengeFileArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct ChallengeChecked<'a> {
    challenge: &'a str,
    sites: usize,
    rses: usize,
    links: usize,
    workloads: usize,
    thresholds: usize,
    notes: &'a [String],
    /// The findings at storage, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<&'a SitesReport>,
}

/// Says that the file is good, or every fault in it.
pub(super) fn run(arguments: &ChallengeCheckArguments, output: &Output) -> Result<Exit, Failure> {
    let file: &ChallengeFileArguments = &arguments.challenge;
    // The tables about the simulated world are checked too; the plan is that of a real run, whose thresholds are more.
    resolve_simulated(&file.file, &file.overrides)?;
    let plan = resolve(&file.file, &file.overrides)?;
    let links: std::collections::BTreeSet<_> = plan.workloads.iter().flat_map(weir_plan::Workload::links).collect();
    let summary = plan.summary();
    let mut checked = ChallengeChecked {
        challenge: &plan.name,
        sites: plan.grid.sites.len(),
        rses: plan.grid.rses.len(),
        links: links.len(),
        workloads: plan.workloads.len(),
        thresholds: plan.thresholds.len(),
        notes: &summary.notes,
        storage: None,
    };
    output.line(format!(
        "{} is a valid challenge: {} sites, {} RSEs, {} links, {} workloads, {} thresholds",
        file.file.display(),
        checked.sites,
        checked.rses,
        checked.links,
        checked.workloads,
        checked.thresholds
    ));
    for note in checked.notes {
        output.line(format!("  ! {note}"));
    }
    let report = if arguments.sites { look(&plan, arguments)? } else { None };
    if let Some(report) = &report {
        sites::lines(report, true).iter().for_each(|line| output.line(line));
    } else if arguments.sites {
        output.line("there was nothing to look at: every storage starts with the grid");
    }
    checked.storage = report.as_ref();
    output.done(&checked);
    let failures = report.as_ref().map_or(0, SitesReport::failures);
    if failures > 0 {
        output.line(format!("failed checks: {failures}; a run would not begin"));
        return Ok(Exit::CouldNotRun);
    }
    Ok(Exit::Done)
}

/// Looks at the storage of a plan, with a grid in a private folder that goes again.
fn look(plan: &Plan, arguments: &ChallengeCheckArguments) -> Result<Option<SitesReport>, Failure> {
    // An unpredictable name.
    let moment = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let name = format!("weir-check-{}-{:x}", std::process::id(), moment.as_nanos());
    let out = std::env::temp_dir().join(name);
    let options = Options {
        out: out.clone(),
        preflight: Some(arguments.limit),
        command: "weir challenge check --sites".to_owned(),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let stop = Stop::default();
    let report = runtime.block_on(async {
        let interrupted = stop.clone();
        let listening = tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.soft.cancel();
            }
        });
        let report = weir_challenge::check_sites(plan.clone(), options, Arc::new(Silent), stop).await;
        listening.abort();
        report
    });
    // Empty, unless a file could not be deleted: then its folder has the reason.
    let _not_empty = std::fs::remove_dir(&out);
    report.map_err(failure)
}
