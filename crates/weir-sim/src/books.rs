//! From a scene and its rows to the figures of a report.

use std::time::Duration;

use weir_measure::accounting::{AskedCurve, Failure, State, WindowSpec};
use weir_measure::report::{Subject, WorkloadKind};
use weir_measure::threshold::{Limit, Metric, Threshold};
use weir_measure::{LinkSpec, Spec, Transfer, WorkloadSpec};
use weir_plan::{Comparison, Phases, Plan, Workload};
use weir_sched::{Priority, Settled, Terms, VoId};
use weir_units::{BitRate, Timestamp};

use crate::scene::{Ask, Scene};
use crate::world::Row;

/// Bins of a series at most; whole seconds each.
const BINS_MAX: u64 = 600;

/// The windows of a run.
pub(crate) fn windows(phases: &Phases) -> WindowSpec {
    WindowSpec {
        ramp_end: phases.ramp,
        hold_end: phases.end(),
        drain_end: phases.end() + phases.drain,
    }
}

/// What is known before the first row.
pub(crate) fn spec(plan: &Plan, scene: &Scene) -> Spec {
    let windows = windows(&plan.phases);
    Spec {
        sites: scene.sites.iter().map(|site| site.name.clone()).collect(),
        links: (0..scene.links.len()).map(|link| link_spec(scene, link)).collect(),
        workloads: plan
            .workloads
            .iter()
            .map(|workload| workload_spec(workload, &plan.phases))
            .collect(),
        bin: bin(&windows),
        windows,
    }
}

/// The width of the bins of a series.
pub(crate) fn bin(windows: &WindowSpec) -> Duration {
    let seconds = windows.drain_end.as_secs() + 1;
    Duration::from_secs(seconds.div_ceil(BINS_MAX).max(1))
}

/// What is asked of a link in the hold: the mean of what its workloads ask, each for its own time.
fn link_spec(scene: &Scene, link: usize) -> LinkSpec {
    let asks = || scene.asks.iter().filter(|ask| ask.link == link);
    let asked: BitRate = asks().map(|ask| ask.mean_rate).sum();
    let rated = asks().filter(|ask| ask.rate > BitRate::ZERO);
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
        curves: rated.map(curve).collect(),
        file_bytes: size,
    }
}

/// When which rate is asked of a link by a workload.
fn curve(ask: &Ask) -> AskedCurve {
    AskedCurve {
        rate: ask.rate.0,
        from: ask.from,
        full: ask.full,
        until: ask.until,
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
            let bytes = cells.map(|cell| cell.size.0.saturating_mul(u64::from(cell.transfers)));
            bytes.fold(0, u64::saturating_add)
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
        mode: Some(row.mode.to_string()).filter(|_| row.state == Settled::Finished),
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

/// Says a plan's threshold in the words of the measuring room.
pub fn threshold(asked: &weir_plan::Threshold) -> Threshold {
    let mut subject = Subject::default();
    match &asked.subject {
        weir_plan::Subject::Total => subject.total = true,
        weir_plan::Subject::Site(site) => subject.site = Some(site.to_string()),
        weir_plan::Subject::Link(link) => subject.link = Some(link.to_string()),
        weir_plan::Subject::Workload(name) => subject.workload = Some(name.clone()),
    }
    let metric = match asked.metric {
        weir_plan::Metric::Ratio => Metric::Ratio,
        weir_plan::Metric::EgressRatio => Metric::EgressRatio,
        weir_plan::Metric::Achieved => Metric::Achieved,
        weir_plan::Metric::FailedRatio => Metric::FailedRatio,
        weir_plan::Metric::Failed => Metric::Failed,
        weir_plan::Metric::Efficiency => Metric::Efficiency,
        weir_plan::Metric::LatenessP95 => Metric::LatenessP95,
        weir_plan::Metric::LatenessMax => Metric::LatenessMax,
        weir_plan::Metric::CrosscheckDifference => Metric::CrosscheckDifference,
    };
    let limit = match asked.comparison {
        Comparison::AtLeast => Limit::Min(asked.asked),
        Comparison::AtMost => Limit::Max(asked.asked),
    };
    Threshold {
        name: asked.name.clone(),
        subject,
        metric,
        limit,
    }
}
