//! The capacity of the wide-area network that is left to the run, over time.

use std::ops::Range;
use std::time::Duration;

use weir_units::BitRate;

use crate::background::Background;
use crate::scene::{Scene, Site};
use crate::sim_plan::SimPlan;
use crate::spec::Segment;

/// The capacity left to the run, from each moment on.
type CapacityCurve = Vec<(Duration, BitRate)>;

/// The capacity left of each site's connection, in and out, and of each segment.
pub(super) struct Wide {
    pub(super) sites: Vec<[Option<CapacityCurve>; 2]>,
    pub(super) segments: Vec<CapacityCurve>,
}

impl Wide {
    /// Computes the capacities until `end`.
    pub(super) fn new(plan: &SimPlan, scene: &Scene, end: Duration) -> Wide {
        let seed = plan.seed;
        // Rates follow a loss of capacity within the tick after it.
        let late = |left| drops_later(left, 2 * scene.tick);
        let site = |site: &Site| {
            let model = &site.model;
            let variation = model.background_variation.unwrap_or(0.0);
            let ends = [
                ("in", model.inward, model.background_in),
                ("out", model.outward, model.background_out),
            ];
            ends.map(|(way, capacity, taken)| {
                let name = format!("{} {way}", site.name);
                let background = Background::new(&name, taken.unwrap_or_default(), variation, seed);
                capacity.map(|capacity| late(background.left_over_time(capacity, &[], end)))
            })
        };
        let segment = |segment: &Segment| {
            let (mean, variation) = (segment.background, segment.background_variation);
            let background = Background::new(&segment.name, mean, variation, seed);
            late(background.left_over_time(segment.capacity, &segment.changes, end))
        };
        Wide {
            sites: scene.sites.iter().map(site).collect(),
            segments: scene.segments.iter().map(segment).collect(),
        }
    }

    /// The most that is ever left, for times that are not known beforehand: foreign traffic at its least, and the
    /// largest of changing capacities.
    pub(super) fn at_best(scene: &Scene) -> Wide {
        let left = |capacity: BitRate, background: BitRate, variation: f64| {
            let taken = background.scale(1.0 - variation);
            vec![(Duration::ZERO, BitRate(capacity.0.saturating_sub(taken.0)))]
        };
        let site = |site: &Site| {
            let model = &site.model;
            let variation = model.background_variation.unwrap_or(0.0);
            let ends = [
                (model.inward, model.background_in),
                (model.outward, model.background_out),
            ];
            ends.map(|(capacity, taken)| Some(left(capacity?, taken.unwrap_or_default(), variation)))
        };
        let segment = |segment: &Segment| {
            let later = segment.changes.iter().map(|change| change.1);
            let most = later.fold(segment.capacity, BitRate::max);
            left(most, segment.background, segment.background_variation)
        };
        Wide {
            sites: scene.sites.iter().map(site).collect(),
            segments: scene.segments.iter().map(segment).collect(),
        }
    }
}

/// Delays each decrease by this duration.
fn drops_later(left: CapacityCurve, late: Duration) -> CapacityCurve {
    let mut list: CapacityCurve = Vec::with_capacity(left.len());
    for (at, rate) in left {
        let before = list.last().copied().unwrap_or_default();
        let at = if rate < before.1 { at + late } else { at };
        list.push((at.max(before.0), rate));
    }
    list
}

/// The mean capacity within a span.
pub(super) fn mean_left(left: &[(Duration, BitRate)], span: &Range<Duration>) -> BitRate {
    let ends = left.iter().skip(1).map(|next| next.0).chain([Duration::MAX]);
    let part = |(from, rate): &(Duration, BitRate), until: Duration| {
        let time = until.min(span.end).saturating_sub((*from).max(span.start));
        rate.as_f64() * time.as_secs_f64()
    };
    let all: f64 = left.iter().zip(ends).map(|(left, until)| part(left, until)).sum();
    BitRate((all / span.end.saturating_sub(span.start).as_secs_f64()) as u64)
}
