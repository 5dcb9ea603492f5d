//! `weir sim compare`: every policy beside an estimate of the optimum, on one page.

mod text;

use anyhow::anyhow;
use serde::Serialize;
use weir_sim::SimPlan;
use weir_sim::compare::{Comparison, Contender, SiteCause, compare};

use super::progress::Watching;
use crate::cli::SimCompareArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;

/// The version of the contract with the front end.
const SCHEMA: &str = "weir-comparison/1";

/// The data of the front end's page, and of `--json`.
#[derive(Serialize)]
struct Data<'a> {
    schema: &'static str,
    /// Command line that compares the same again.
    command: String,
    /// The asked and possible rates, and the result, each in a sentence or two.
    situation: String,
    result: Option<String>,
    causes: Vec<CauseCount>,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// At how many sites a cause held each policy back.
#[derive(Serialize)]
struct CauseCount {
    cause: SiteCause,
    /// Its meaning, in words that follow "so many sites".
    sentence: String,
    /// One per policy.
    sites: Vec<usize>,
}

impl<'a> Data<'a> {
    fn of(comparison: &'a Comparison, command: String) -> Self {
        let policies = 0..comparison.policies.len();
        let count = |cause: SiteCause| CauseCount {
            cause,
            sentence: text::sentence(cause),
            sites: policies
                .clone()
                .map(|policy| text::count(comparison, policy, cause))
                .collect(),
        };
        Self {
            schema: SCHEMA,
            command,
            situation: text::situation(comparison),
            result: text::result(comparison),
            causes: text::found(comparison).into_iter().map(count).collect(),
            comparison,
        }
    }
}

/// Runs every policy on the challenge of a file and prints them side by side.
pub(super) fn run(arguments: &SimCompareArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = super::plan(&arguments.file, &arguments.overrides)?;
    let watching = Watching::begin(plan.phases.end() + plan.phases.drain);
    let mut number = 0;
    let all = Contender::all(&plan).len();
    let comparison = compare(&plan, |contender| {
        number += 1;
        watching.next(format!("{contender}, {number} of {all}"))
    });
    drop(watching);
    let data = Data::of(&comparison, command(arguments, &plan));
    let lines = text::text(&comparison);
    lines.iter().for_each(|line| output.line(line));
    if let Some(file) = &arguments.html {
        let page = weir_challenge::render_data(&data, &lines).map_err(Failure::could_not_run)?;
        weir_challenge::write_atomically(file, |to| to.write_all(page.as_bytes())).map_err(|error| {
            Failure::could_not_run(anyhow!(error).context(format!("could not write {}", file.display())))
        })?;
        output.line(format!("\nwrote {}", file.display()));
    }
    output.done(&data);
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

#[cfg(test)]
mod tests;
