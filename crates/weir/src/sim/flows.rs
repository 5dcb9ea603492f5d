//! `weir sim flows`: the network model alone.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use weir_sim::flows::{Model, Problem, Scenario};

use crate::cli::{FlowModel, SimFlowsArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Longest file: 1 GiB, some five million flows.
const LENGTH_MAX: u64 = 1 << 30;

/// Prints when each flow of the file ends, as JSON also for people: the output is made to be compared.
pub(super) fn run(arguments: &SimFlowsArguments, output: &Output) -> Result<Exit, Failure> {
    let file = &arguments.file;
    let text = read(file)
        .with_context(|| format!("could not read {}", file.display()))
        .map_err(|error| {
            Failure::bad_input(error).with_remedy("name a JSON file that you may read, of at most 1 GiB")
        })?;
    let scenario = Scenario::parse(&text).map_err(|problems| faulty(file, &problems))?;
    let model = match arguments.model {
        FlowModel::Maxmin => Model::MaxMin,
        FlowModel::Rtt => Model::Rtt {
            window: arguments.window,
        },
    };
    let outcome = scenario
        .run(model)
        .map_err(|problem| faulty(file, &[problem.locate(&text)]))?;
    if !output.json() {
        output.line(serde_json::to_string(&outcome).map_err(anyhow::Error::new)?);
    }
    output.done(&outcome);
    Ok(Exit::Done)
}

/// Reads a text, unless it is too long or has no end.
fn read(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let length = File::open(file)?.take(LENGTH_MAX + 1).read_to_string(&mut text)?;
    if length as u64 > LENGTH_MAX {
        return Err(std::io::Error::other("it is longer than 1 GiB"));
    }
    Ok(text)
}

fn faulty(file: &Path, problems: &[Problem]) -> Failure {
    let place = |problem: &Problem| {
        let gap = if problem.line.is_some() { "" } else { " " };
        format!("{}:{gap}{problem}", file.display())
    };
    let problems: Vec<String> = problems.iter().map(place).collect();
    Failure::problems(&format!("the flows file {}", file.display()), &problems)
}
