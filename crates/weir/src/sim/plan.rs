//! Reads a challenge that the simulated world can run.

use std::path::Path;

use anyhow::anyhow;
use weir_sim::SimPlan;

use crate::challenge::resolve_simulated;
use crate::cli::OverrideArguments;
use crate::failure::Failure;

/// Ten times the largest challenge held so far; beyond it, a slip in a file's size is likelier than a plan.
const TRANSFERS_MAX: u64 = 300_000_000;

/// Of a plan without rates the span of every finished transfer is remembered until its last step has ended: 300 MB for these.
const STEPS_MAX: u64 = 5_000_000;

/// Reads a challenge that the simulated world can run.
pub(super) fn plan(file: &Path, overrides: &OverrideArguments) -> Result<SimPlan, Failure> {
    let plan = resolve_simulated(file, overrides)?;
    let transfers = plan.summary().transfers;
    let (most, remedy) = if plan.rates().next().is_some() {
        (TRANSFERS_MAX, "raise file_size_min, or lower --scale or --duration")
    } else {
        (
            STEPS_MAX,
            "name fewer links, sizes or parallel transfers, or lower repeat",
        )
    };
    if transfers > most {
        let error = anyhow!(
            "the challenge {} has {transfers} transfers; at most {most} are simulated",
            file.display()
        );
        return Err(Failure::bad_input(error).with_remedy(remedy));
    }
    Ok(plan)
}
