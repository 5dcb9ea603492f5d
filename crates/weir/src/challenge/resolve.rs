//! Reads a challenge file with the overrides of the command line.

use std::path::Path;

use weir_plan::{Challenge, Overrides, Plan};
use weir_sim::SimPlan;

use crate::cli::OverrideArguments;
use crate::failure::Failure;

/// Reads a challenge file and resolves it with the overrides of the command line.
pub(crate) fn resolve(file: &Path, overrides: &OverrideArguments) -> Result<Plan, Failure> {
    let overrides = Overrides {
        scale: overrides.scale,
        duration: overrides.duration,
        seed: overrides.seed,
    };
    let what = format!("the challenge {}", file.display());
    let challenge = Challenge::load(file).map_err(|problems| Failure::problems(&what, &problems))?;
    challenge
        .resolve(&overrides)
        .map_err(|problems| Failure::problems(&what, &problems))
}

/// The same with the simulated world, which a real run passes over.
pub(crate) fn resolve_simulated(file: &Path, overrides: &OverrideArguments) -> Result<SimPlan, Failure> {
    let plan = resolve(file, overrides)?;
    let what = format!("the challenge {}", file.display());
    SimPlan::of(plan).map_err(|problems| Failure::problems(&what, &problems))
}
