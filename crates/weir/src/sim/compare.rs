//! `weir sim compare`: every policy beside the optimum, on one page.

use anyhow::anyhow;
use weir_sim::SimPlan;
use weir_sim::compare::{compare, html, text};

use crate::cli::SimCompareArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;

/// Runs every policy on the challenge of a file and prints them side by side.
pub(super) fn run(arguments: &SimCompareArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = super::plan(&arguments.file, &arguments.overrides)?;
    let comparison = compare(&plan, |_| {});
    text(&comparison).iter().for_each(|line| output.line(line));
    if let Some(file) = &arguments.html {
        let page = html(&comparison, &command(arguments, &plan));
        weir_challenge::write_atomically(file, |to| to.write_all(page.as_bytes())).map_err(|error| {
            Failure::could_not_run(anyhow!(error).context(format!("could not write {}", file.display())))
        })?;
        output.line(format!("\nwrote {}", file.display()));
    }
    output.done(&comparison);
    let sound = comparison.policies.iter().all(|policy| policy.violations.is_empty());
    Ok(if sound { Exit::Done } else { Exit::VerdictFail })
}

/// Writes the command line that compares the same again, seed and scale spelled out.
fn command(arguments: &SimCompareArguments, plan: &SimPlan) -> String {
    let file = quoted(&arguments.file.display().to_string());
    let mut words = vec![format!("weir sim compare {file} --scale {}", plan.scale)];
    if let Some(duration) = arguments.overrides.duration {
        let duration = weir_units::duration::format(duration);
        words.push(format!("--duration {}", quoted(&duration)));
    }
    words.push(format!("--seed {}", plan.seed));
    words.join(" ")
}
