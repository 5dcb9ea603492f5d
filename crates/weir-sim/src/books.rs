//! From a scene and its rows to the figures of a report.

use weir_measure::Transfer;
use weir_measure::accounting::{Failure, State};
use weir_plan::Plan;
use weir_sched::{Priority, Settled, Terms, VoId};
use weir_units::Timestamp;

use crate::scene::Scene;
use crate::world::Row;

/// A row in the words of the measuring room.
pub(crate) fn transfer(scene: &Scene, row: &Row) -> Transfer {
    let ask = &scene.asks[row.ask];
    let since = |at: Timestamp| at.since(Timestamp(0));
    let failure = row.failure.as_ref().filter(|_| row.state == Settled::Failed);
    Transfer {
        workload: ask.workload,
        link: ask.link,
        size: row.size,
        state: match row.state {
            Settled::Finished => State::Finished,
            Settled::Failed => State::Failed,
            Settled::Cancelled => State::Cancelled,
        },
        mode: Some(row.mode.to_string()).filter(|_| row.state == Settled::Finished),
        late: row.injected.since(row.wanted),
        started: row.started.map(since),
        ended: since(row.ended),
        bytes_moved: row.moved,
        retries: row.attempts.saturating_sub(1),
        failure: failure.map(|failure| Failure {
            class: failure.class,
            message: failure.message.clone(),
            party: Some(failure.party),
            phase: Some(failure.phase),
            remedy: Some(failure.remedy.clone()).filter(|remedy| !remedy.is_empty()),
        }),
    }
}

/// What every policy is told of an activity's jobs.
pub(crate) fn terms(plan: &Plan, activity: &str) -> Terms {
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

/// The number of an activity: its place among those of the plan.
pub(crate) fn activity(plan: &Plan, name: &str) -> u32 {
    let known = plan.workloads.iter().position(|workload| workload.activity() == name);
    known.unwrap_or(0) as u32
}
