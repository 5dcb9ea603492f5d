//! `weir sim run`: a challenge in virtual time.

use std::path::Path;

use weir_challenge::{RunError, RunFolder, RunOutcome, build, write_report};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::report::{Files, Rows, report, run_into};
use weir_sim::world::Probe;

use super::progress::Watching;
use crate::challenge::{exit, failure, print, ran};
use crate::cli::{SimPolicy, SimRows, SimRunArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;

/// Simulates the challenge of a file.
pub(super) fn run(arguments: &SimRunArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = super::plan(&arguments.file, &arguments.overrides)?;
    let policy = policy(arguments.policy);
    let rows = match arguments.rows {
        SimRows::All => Rows::All,
        SimRows::Sample => Rows::Sample,
        SimRows::None => Rows::None,
    };
    let command = command(arguments, policy, plan.seed, plan.scale);
    let watching = Watching::begin(plan.phases.end() + plan.phases.drain);
    let probe = watching.next(policy.to_string());
    let outcome = simulate(&plan, (policy, rows), &arguments.out, (&command, &probe)).map_err(failure)?;
    drop(watching);
    print(&outcome, output);
    output.done(&ran(&outcome));
    Ok(exit(&outcome))
}

/// Runs a plan in virtual time and writes its run folder below `out`.
fn simulate(
    plan: &SimPlan,
    (policy, rows): (Policy, Rows),
    out: &Path,
    (command, probe): (&str, &Probe),
) -> Result<RunOutcome, RunError> {
    let folder = RunFolder::create_now(out, &plan.name)?;
    folder.write("challenge.toml", |to| to.write_all(plan.resolved.as_bytes()))?;
    folder.log(&format!("simulates {} under the policy {policy}", plan.name));
    let (mut transfers, mut ledger) = (folder.begin("transfers.csv")?, folder.begin("ledger.csv")?);
    let mut outcome = None;
    transfers.write(|transfers| {
        ledger.write(|ledger| {
            let files = Files { transfers, ledger };
            outcome = Some(run_into(plan, policy, rows, files, probe)?);
            Ok(())
        });
        Ok(())
    });
    ledger.finish()?;
    transfers.finish()?;
    let outcome = outcome.expect("a run whose rows were written has an outcome");
    let report = report(plan, policy, outcome, command, build());
    write_report(&report, &folder)?;
    Ok(RunOutcome {
        report,
        folder: folder.path().to_owned(),
        report_folder: folder.path().to_owned(),
    })
}

fn policy(policy: SimPolicy) -> Policy {
    match policy {
        SimPolicy::Weir => Policy::Weir,
        SimPolicy::WeirTargets => Policy::WeirTargets,
        SimPolicy::Fts => Policy::Fts,
        SimPolicy::Fixed => Policy::Fixed,
    }
}

/// Writes the command line that runs the same again, seed and scale spelled out.
fn command(arguments: &SimRunArguments, policy: Policy, seed: u64, scale: f64) -> String {
    let file = quoted(&arguments.file.display().to_string());
    let mut words = vec![format!("weir sim run {file} --policy {policy} --scale {scale}")];
    if let Some(duration) = arguments.overrides.duration {
        let duration = weir_units::duration::format(duration);
        words.push(format!("--duration {}", quoted(&duration)));
    }
    words.push(format!("--seed {seed}"));
    words.join(" ")
}
