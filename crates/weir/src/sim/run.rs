//! `weir sim run`: a challenge in virtual time.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use weir_challenge::{PartFile, RunError, RunFolder, RunOutcome, build, write_report};
use weir_measure::chain;
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::report::{Rows, RunOutputs, report, run_into};
use weir_sim::spec::CatalogKind;
use weir_sim::world::Probe;

use super::progress::Watching;
use crate::challenge::{exit, failure, print, ran};
use crate::cli::{SimCatalog, SimPolicy, SimRows, SimRunArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;

/// Simulates the challenge of a file.
pub(super) fn run(arguments: &SimRunArguments, output: &Output) -> Result<Exit, Failure> {
    let mut plan = super::plan(&arguments.file, &arguments.overrides)?;
    if let Some(catalog) = arguments.catalog {
        if !plan.makes_rules() {
            let error = anyhow!(
                "the challenge {} makes no rules: no catalogue takes part",
                arguments.file.display()
            );
            let remedy = "add a table [catalog] to its grid, or write inject = \"rules\" into a workload";
            return Err(Failure::bad_input(error).with_remedy(remedy));
        }
        plan.sim.catalog = match catalog {
            SimCatalog::Weir => CatalogKind::Weir,
            SimCatalog::Rucio => CatalogKind::Rucio,
        };
    }
    let policy = policy(arguments.policy);
    let rows = match arguments.rows {
        SimRows::All => Rows::All,
        SimRows::Sample => Rows::Sample,
        SimRows::None => Rows::None,
    };
    let command = command(arguments, policy, &plan);
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
    let mut rules = if plan.makes_rules() {
        Some(folder.begin(chain::FILE)?)
    } else {
        None
    };
    let mut outcome = None;
    transfers.write(|transfers| {
        ledger.write(|ledger| {
            let mut run = |rules: &mut dyn Write| {
                let files = RunOutputs {
                    transfers: &mut *transfers,
                    rules: &mut *rules,
                    ledger: &mut *ledger,
                };
                outcome = Some(run_into(plan, policy, rows, files, probe)?);
                Ok(())
            };
            match &mut rules {
                None => run(&mut io::sink())?,
                Some(file) => file.write(run),
            }
            Ok(())
        });
        Ok(())
    });
    rules.map(PartFile::finish).transpose()?;
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
fn command(arguments: &SimRunArguments, policy: Policy, plan: &SimPlan) -> String {
    let file = quoted(&arguments.file.display().to_string());
    let mut words = vec![format!("weir sim run {file} --policy {policy}")];
    if arguments.catalog.is_some() {
        words.push(format!("--catalog {}", plan.sim.catalog));
    }
    words.push(format!("--scale {}", plan.scale));
    if let Some(duration) = arguments.overrides.duration {
        let duration = weir_units::duration::format(duration);
        words.push(format!("--duration {}", quoted(&duration)));
    }
    words.push(format!("--seed {}", plan.seed));
    words.join(" ")
}
