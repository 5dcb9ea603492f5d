//! From a scene and its rows to the figures of a report.

use std::time::Duration;

use weir_measure::accounting::{Failure, State, WindowSpec};
use weir_measure::report::WorkloadKind;
use weir_measure::{LinkSpec, Spec, Transfer, WorkloadSpec};
use weir_plan::{Phases, Plan, Workload};
use weir_sched::{Priority, Settled, Terms, VoId};
use weir_units::{BitRate, Timestamp};

use crate::scene::Scene;
use crate::world::Row;

/// Bins of a series at most; whole seconds each.
const BINS_MAX: u64 = 600;

/// The windows of a run.
pub(crate) fn windows(phases: &Phases) -> WindowSpec {
    WindowSpec {
        ramp_full: phases.full().min(phases.ramp),
        ramp_end: phases.ramp,
        hold_end: phases.end(),
        drain_end: phases.end() + phases.drain,
    }
}

/// What is known before the first row.
pub(crate) fn spec(plan: &Plan, scene: &Scene) -> Spec {
    let windows = windows(&plan.phases);
    let seconds = windows.drain_end.as_secs() + 1;
    Spec {
        sites: scene.sites.iter().map(|site| site.name.clone()).collect(),
        links: (0..scene.links.len()).map(|link| link_spec(scene, link)).collect(),
        workloads: plan
            .workloads
            .iter()
            .map(|workload| workload_spec(workload, &plan.phases))
            .collect(),
        bin: Duration::from_secs(seconds.div_ceil(BINS_MAX).max(1)),
        windows,
    }
}

/// What is asked of a link in the hold: the mean of what its workloads ask, each for its own time.
fn link_spec(scene: &Scene, link: usize) -> LinkSpec {
    let asks = || scene.asks.iter().filter(|ask| ask.link == link);
    let asked: BitRate = asks().map(|ask| ask.mean_rate).sum();
    let mut sizes = asks().map(|ask| ask.file_size.0);
    let size = sizes
        .next()
        .filter(|first| *first > 0 && sizes.all(|size| size == *first));
    let ends = &scene.links[link];
    LinkSpec {
        source: ends.link.source.to_string(),
        destination: ends.link.destination.to_string(),
        source_site: scene.storages[ends.source].site,
        destination_site: scene.storages[ends.destination].site,
        asked: (asked > BitRate::ZERO).then_some(asked.0),
        file_bytes: size,
    }
}

fn workload_spec(workload: &Workload, phases: &Phases) -> WorkloadSpec {
    let kind = match workload {
        Workload::Rates(rates) => WorkloadKind::Rates {
            asked_bps: rates.links.iter().map(|rated| rated.rate).sum::<BitRate>().0,
            achieved_bps: None,
            ratio: None,
            lateness_p95_s: None,
            lateness_max_s: None,
        },
        Workload::Matrix(_) => WorkloadKind::Matrix { cells: Vec::new() },
        Workload::Ramp(_) => WorkloadKind::Ramp { steps: Vec::new() },
    };
    let planned_bytes = match workload {
        Workload::Rates(_) => 0,
        Workload::Matrix(steps) | Workload::Ramp(steps) => {
            let cells = steps.steps.iter().flat_map(|step| &step.cells);
            cells.map(|cell| cell.size.0 * u64::from(cell.transfers)).sum()
        }
    };
    WorkloadSpec {
        name: workload.name().to_owned(),
        kind,
        planned_bytes,
        hold: match workload {
            Workload::Rates(rates) => rates.own_hold(phases),
            Workload::Matrix(_) | Workload::Ramp(_) => None,
        },
    }
}

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
        mode: Some("pull".to_owned()).filter(|_| row.state == Settled::Finished),
        late: row.injected.since(row.wanted),
        started: row.started.map(since),
        ended: since(row.ended),
        bytes_moved: row.moved,
        retries: row.attempts.saturating_sub(1),
        failure: failure.map(|failure| Failure {
            class: failure.class.as_str().to_owned(),
            message: failure.message.clone(),
            party: Some(failure.party.as_str().to_owned()),
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
