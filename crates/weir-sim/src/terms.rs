//! Terms of an activity's jobs, the same for every policy.

use weir_sched::{Priority, Terms, VoId};
use weir_units::Timestamp;

use crate::sim_plan::SimPlan;

/// The terms of an activity's jobs.
pub(crate) fn terms(plan: &SimPlan, activity: &str) -> Terms {
    let limits = &plan.grid.transfer;
    Terms {
        priority: Priority::new(i64::from(plan.sim.activity(activity).priority)),
        vo: VoId(0),
        // In FTS's reading, which is ours, zero leaves it to the server and a negative number means never.
        retries: if limits.retries == 0 { -1 } else { limits.retries as i32 },
        retry_delay: limits.retry_delay,
        deadline: Timestamp(0),
    }
}

/// The number of an activity: its position in the plan.
pub(crate) fn activity(plan: &SimPlan, name: &str) -> u32 {
    let known = plan.workloads.iter().position(|workload| workload.activity() == name);
    known.unwrap_or(0) as u32
}
