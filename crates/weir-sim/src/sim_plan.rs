//! A plan with its simulated world.

use weir_model::file::Problem;
use weir_plan::Plan;

use crate::faults::check;
use crate::spec::SimSpec;

/// A plan with the simulated world that it is to run in.
#[derive(Debug, Clone, PartialEq)]
pub struct SimPlan {
    /// The plan.
    pub plan: Plan,
    /// The world.
    pub sim: SimSpec,
}

impl SimPlan {
    /// Reads the world of a plan.
    ///
    /// # Errors
    /// Those of [`SimSpec::of`], and faults that this world cannot make.
    pub fn of(plan: Plan) -> Result<Self, Vec<Problem>> {
        let sim = SimSpec::of(&plan)?;
        let problems = check::check(&plan, &sim);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { plan, sim })
    }
}

impl std::ops::Deref for SimPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}
