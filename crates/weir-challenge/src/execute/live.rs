//! The measurement of a run while it goes on: the loop feeds it, the presenter reads it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_measure::{LinkSpec, Measurement, RateNow, Snapshot, Spec};

use crate::execute::progress::{Live, LiveLink, LiveSite};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct SharedMeasurement(Arc<Mutex<Measurement>>);

impl SharedMeasurement {
    pub(crate) fn new(measurement: Measurement) -> Self {
        Self(Arc::new(Mutex::new(measurement)))
    }

    /// Does something with it, which must be short.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Measurement) -> T) -> T {
        work(&mut self.0.lock())
    }

    /// Returns the figures of a moment.
    pub(crate) fn live(&self, now: Duration) -> Live {
        self.with(|measurement| live(&measurement.snapshot(now), measurement.spec()))
    }

    /// Takes the measurement out, once there are no other references.
    pub(crate) fn into_inner(self) -> Option<Measurement> {
        let mutex = Arc::into_inner(self.0)?;
        Some(mutex.into_inner())
    }
}

/// Links that are shown at most.
const LINKS_SHOWN: usize = 12;

/// The links that are furthest behind their asked rates, or all if there are few.
fn links(snapshot: &Snapshot, spec: &Spec) -> Vec<LiveLink> {
    let mut links: Vec<(&LinkSpec, &RateNow)> = spec.links.iter().zip(&snapshot.links).collect();
    if links.len() > LINKS_SHOWN {
        let behind = |now: &RateNow| now.asked_bps.unwrap_or_default() - now.achieved_bps;
        links.sort_by_key(|(_, now)| std::cmp::Reverse(behind(now)));
        links.truncate(LINKS_SHOWN);
    }
    let shown = |(link, now): (&LinkSpec, &RateNow)| LiveLink {
        source: link.source.clone(),
        destination: link.destination.clone(),
        asked_bps: now.asked_bps,
        achieved_bps: now.achieved_bps,
    };
    links.into_iter().map(shown).collect()
}

fn live(snapshot: &Snapshot, spec: &Spec) -> Live {
    let sites = spec.sites.iter().zip(&snapshot.sites).map(|(name, now)| LiveSite {
        site: name.clone(),
        asked_bps: now.asked_bps,
        achieved_bps: now.achieved_bps,
    });
    let (standing, totals) = (snapshot.standing, &snapshot.totals);
    Live {
        elapsed_s: snapshot.elapsed.as_secs_f64(),
        phase: snapshot.phase.as_str(),
        phase_left_s: snapshot.phase_left.map(|left| left.as_secs_f64()),
        left_s: snapshot.left.map(|left| left.as_secs_f64()),
        asked_bps: snapshot.asked_bps,
        achieved_bps: snapshot.achieved_bps,
        sites: sites.collect(),
        links: links(snapshot, spec),
        n_links: spec.links.len() as u64,
        active: standing.active,
        active_mean: snapshot.active_mean,
        queued: standing.queued,
        finished: totals.finished,
        failed: totals.failed,
        injected_bytes: standing.injected_bytes,
        verified_bytes: totals.verified_bytes,
    }
}
