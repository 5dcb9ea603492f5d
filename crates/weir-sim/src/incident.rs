//! Runs an incident in the simulated world: with its faults, and with its remedy.

use std::io;

use weir_measure::expectation::{Signs, of_incident, of_remedy};
use weir_measure::report::{Build, Report};
use weir_model::file::Problem;
use weir_plan::{Challenge, Incident, Overrides};

use crate::policies::Policy;
use crate::report::{Rows, RunOutputs, report, run_into};
use crate::sim_plan::SimPlan;
use crate::world::Probe;

/// The two runs of an incident.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The run with the incident.
    pub with: Signs,
    /// The run with the remedy.
    pub mended: Signs,
    /// The reports of both.
    pub reports: [Report; 2],
}

impl Verified {
    /// Expected signs that are not there, in both runs.
    pub fn wrong(&self) -> impl Iterator<Item = &str> {
        self.with.wrong.iter().chain(&self.mended.wrong).map(String::as_str)
    }
}

/// Runs an incident and its remedy.
///
/// # Errors
/// Faults that the simulated world of the file cannot make.
pub fn verify(incident: &Incident) -> Result<Verified, Vec<Problem>> {
    let (with, mended) = (simulate(&incident.challenge)?, simulate(&incident.mended)?);
    let mut signs = [
        of_incident(&incident.expect, &with.0),
        of_remedy(&incident.expect, &mended.0),
    ];
    for (signs, violations) in signs.iter_mut().zip([with.1, mended.1]) {
        signs.wrong.extend(violations);
    }
    let [of_with, of_mended] = signs;
    Ok(Verified {
        with: of_with,
        mended: of_mended,
        reports: [with.0, mended.0],
    })
}

/// The report of a challenge, and the rules that its world broke.
pub(crate) fn simulate(challenge: &Challenge) -> Result<(Report, Vec<String>), Vec<Problem>> {
    let plan = SimPlan::of(challenge.resolve(&Overrides::default())?)?;
    let sink = || io::sink();
    let files = RunOutputs {
        transfers: &mut sink(),
        rules: &mut sink(),
        ledger: &mut sink(),
    };
    let policy = Policy::Weir;
    let outcome = run_into(&plan, policy, Rows::None, files, &Probe::default()).expect("a sink takes everything");
    let violations = outcome.checks.violations().to_vec();
    let build = Build {
        version: String::new(),
        commit: None,
    };
    Ok((report(&plan, policy, outcome, "", build), violations))
}
