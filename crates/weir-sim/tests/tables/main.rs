//! The tables of a challenge file about the simulated world: valid ones are accepted, and everything else is refused.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod groups;
mod keys;
mod mutations;
mod worlds;

use std::path::Path;

use weir_model::file::Problem;
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;

const GRID: &str =
    "[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n[[grid.rse]]\nname = \"C\"\n";

/// A valid challenge to which faults are added; `[[workload]]` is on line 10.
fn with(workload: &str) -> String {
    format!("name = \"c\"\n{GRID}[[workload]]\n{workload}")
}

const RATES: &str = "kind = \"rates\"\nrates = [{ source = \"A\", destination = \"B\", rate = \"1 Gb/s\" }]\n";

fn read(text: &str) -> Result<SimPlan, Vec<Problem>> {
    let challenge = Challenge::parse(text, Path::new("c.toml"))?;
    SimPlan::of(challenge.resolve(&Overrides::default())?)
}

fn told(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn problems(text: &str) -> String {
    told(&read(text).expect_err(text))
}

fn valid(text: &str) -> SimPlan {
    read(text).unwrap_or_else(|problems| panic!("{}\nfor\n{text}", told(&problems)))
}

/// A fault in a file of its own would be told without its name, or at the line of the challenge.
#[test]
fn a_file_of_its_own_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let challenge = folder.path().join("c.toml");
    std::fs::write(&challenge, format!("sim = \"world.toml\"\n{}", with(RATES))).unwrap();
    let load = |world: &str| {
        std::fs::write(folder.path().join("world.toml"), world).unwrap();
        let challenge = Challenge::load(&challenge)?;
        SimPlan::of(challenge.resolve(&Overrides::default())?)
    };
    let plan = load("# a comment\nstore = { latency = \"7 ms\" }\n").unwrap();
    assert_eq!(plan.sim.store.latency, std::time::Duration::from_millis(7));
    let world = folder.path().join("world.toml");
    for (text, expected) in [
        ("\ntikc = \"1 s\"\n", ":2: tikc: unknown key; did you mean \"tick\"?"),
        ("\n\ntick = \"1\"\n", ":3: tick: "),
        ("tick = \n", ":1: "),
    ] {
        let told = told(&load(text).unwrap_err());
        assert!(told.starts_with(&format!("{}{expected}", world.display())), "{told}");
    }
    // A kept run folder does not need that file.
    assert_eq!(valid(&plan.resolved).sim, plan.sim);
}
