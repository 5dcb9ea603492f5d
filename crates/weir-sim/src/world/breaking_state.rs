//! The state of a world's faults.

use weir_units::Timestamp;

use crate::faults::conditions::Conditions;
use crate::faults::state::Counts;
use crate::scene::Scene;

/// Faults of a world, beside those of its scene.
#[derive(Debug, Default)]
pub(super) struct Breaking {
    /// The scene without any fault; `None` if there is none.
    pub(super) base: Option<Box<Scene>>,
    /// Services and workloads with the faults that are on.
    pub(super) conditions: Conditions,
    /// Links on which nothing moves, with the moment from which on.
    pub(super) dark: Vec<Option<Timestamp>>,
    /// Bytes of files that the run brought, in each storage element.
    pub(super) stored: Vec<u64>,
    /// Files at each storage element that were gone, or changed, after their transfers had succeeded.
    pub(super) spoilt: Vec<u64>,
    /// The bytes that each storage element says it has received.
    pub(super) counters: Vec<Counter>,
}

/// The counter of a storage element.
#[derive(Debug, Clone, Default)]
pub(super) struct Counter {
    bytes: f64,
    /// Whether it did not count for a while.
    is_missing: bool,
    /// Bytes that it will count at a moment.
    late: Vec<(Timestamp, u64)>,
}

impl Counter {
    pub(super) fn add(&mut self, bytes: u64, how: Counts, now: Timestamp) {
        match how {
            Counts::Times(factor) => self.bytes += bytes as f64 * factor,
            Counts::Late(delay) => self.late.push((now + delay, bytes)),
            Counts::Nothing => self.is_missing = true,
        }
    }

    /// Its value at a moment; or the reason for which there is none.
    pub(super) fn read(&self, now: Timestamp) -> Result<u64, String> {
        let late = self
            .late
            .iter()
            .filter(|(at, _)| *at <= now)
            .map(|(_, bytes)| *bytes)
            .sum::<u64>();
        let bytes = self.bytes + late as f64;
        if self.is_missing {
            return Err("the storage did not count all of the time".to_owned());
        }
        if bytes < 0.0 {
            return Err(format!("the storage says {bytes:.0} B: less than nothing"));
        }
        Ok(bytes as u64)
    }
}

impl Breaking {
    pub(super) fn new(scene: &Scene, n_workloads: usize) -> Self {
        Self {
            base: (!scene.faults.is_empty()).then(|| Box::new(scene.clone())),
            conditions: Conditions::of(&[], n_workloads),
            dark: vec![None; scene.links.len()],
            stored: vec![0; scene.storages.len()],
            spoilt: vec![0; scene.storages.len()],
            counters: vec![Counter::default(); scene.storages.len()],
        }
    }
}
