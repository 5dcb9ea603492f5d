//! Challenge files: valid ones are accepted and planned, everything else is refused.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod breakage;
mod faults;
mod files;
mod incidents;
mod keys;
mod plans;

use std::path::Path;

use weir_plan::{Challenge, Overrides, Plan, RatesPlan, Workload};

const GRID: &str =
    "[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n[[grid.rse]]\nname = \"C\"\n";

/// A valid challenge to which faults are added; `[[workload]]` is on line 10.
fn with(workload: &str) -> String {
    format!("name = \"c\"\n{GRID}[[workload]]\n{workload}")
}

const RATES: &str = "kind = \"rates\"\nrates = [{ source = \"A\", destination = \"B\", rate = \"1 Gb/s\" }]\n";

fn problems(text: &str) -> String {
    let list = Challenge::parse(text, Path::new("c.toml")).expect_err(text);
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn valid(text: &str) -> Challenge {
    Challenge::parse(text, Path::new("c.toml")).unwrap_or_else(|problems| {
        panic!(
            "{}\nfor\n{text}",
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        )
    })
}

fn plan(text: &str, overrides: &Overrides) -> Plan {
    valid(text).resolve(overrides).unwrap()
}

fn rates(plan: &Plan) -> &RatesPlan {
    let Workload::Rates(rates) = &plan.workloads[0] else {
        panic!("the first workload is of rates")
    };
    rates
}
