//! Shortest duration of steps that run one after the other.
//!
//! A step lasts at least as long as any bound needs for all its bytes. It also lasts as long as any cell needs for its
//! transfers, so many at once and each with its start-up. Rates that stay the same reach that, so it is the least.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_plan::{Cell, Step, StepsPlan, Workload};
use weir_units::{BitRate, Bytes};

use super::bounds::{Held, SizedFlow, bounds, per_transfer};
use super::wide::Wide;
use super::{GIGA, Optimum};
use crate::scene::Scene;
use crate::sim_plan::SimPlan;

/// The steps of one workload.
#[derive(Default)]
struct Course {
    seconds: f64,
    /// Seconds in which something holds it back, by name.
    held: BTreeMap<String, f64>,
}

/// All bytes ÷ the time that the longest workload of steps needs.
pub(super) fn optimum(plan: &SimPlan, scene: &Scene) -> Optimum {
    let steps: Vec<&StepsPlan> = plan.workloads.iter().filter_map(steps_of).collect();
    let longest = steps
        .iter()
        .map(|steps| course(plan, scene, steps))
        .max_by(|one, other| one.seconds.total_cmp(&other.seconds))
        .unwrap_or_default();
    let hold = longest.seconds.max(plan.phases.hold.as_secs_f64()).max(1e-9);
    let mut bytes = vec![Bytes::ZERO; scene.links.len()];
    let links: BTreeMap<_, usize> = scene.links.iter().map(|link| &link.link).zip(0..).collect();
    for cell in steps.iter().flat_map(|steps| &steps.steps).flat_map(|step| &step.cells) {
        bytes[links[&cell.link]] += cell.size * u64::from(cell.transfers);
    }
    let links: Vec<BitRate> = bytes
        .iter()
        .map(|bytes| BitRate((bytes.as_f64() * 8.0 / hold) as u64))
        .collect();
    let shares = longest.held.into_iter().map(|(name, seconds)| (name, seconds / hold));
    Optimum {
        total: links.iter().copied().sum(),
        links,
        full: shares.filter(|(_, share)| *share > 0.5).collect(),
        spans: Vec::new(),
    }
}

fn steps_of(workload: &Workload) -> Option<&StepsPlan> {
    match workload {
        Workload::Matrix(steps) | Workload::Ramp(steps) => Some(steps),
        Workload::Rates(_) => None,
    }
}

fn course(plan: &SimPlan, scene: &Scene, steps: &StepsPlan) -> Course {
    let links: BTreeMap<_, usize> = scene.links.iter().map(|link| &link.link).zip(0..).collect();
    let (wide, mut course) = (Wide::at_best(scene), Course::default());
    for step in &steps.steps {
        let flow = |cell: &Cell| SizedFlow {
            link: links[&cell.link],
            size: cell.size,
        };
        let flows: Vec<SizedFlow> = step.cells.iter().map(flow).collect();
        let (seconds, held) = least(plan, scene, step, &flows, &wide);
        course.seconds += seconds;
        if let Some(held) = held {
            *course.held.entry(held).or_default() += seconds;
        }
    }
    course
}

/// The least time of a step in seconds, and the bound that sets it, if one does.
fn least(plan: &SimPlan, scene: &Scene, step: &Step, flows: &[SizedFlow], wide: &Wide) -> (f64, Option<String>) {
    let alone = flows.iter().zip(&step.cells).map(|(flow, cell)| {
        let gigabits = flow.size.as_f64() * 8.0 / GIGA;
        let one = gigabits / per_transfer(scene, flow, Held::Attempt);
        one * f64::from(cell.transfers.div_ceil(cell.parallel))
    });
    let (mut seconds, mut held) = (alone.fold(0.0, f64::max), None);
    for bound in bounds(plan, scene, flows, wide, &(Duration::ZERO..Duration::MAX)) {
        let part = |(at, by): &(usize, f64)| {
            let cell = &step.cells[*at];
            cell.size.as_f64() * f64::from(cell.transfers) * 8.0 / GIGA * by
        };
        let needed = bound.uses.iter().map(part).sum::<f64>() / bound.most.max(1e-9);
        if needed > seconds {
            (seconds, held) = (needed, Some(bound.name));
        }
    }
    (seconds, held)
}
