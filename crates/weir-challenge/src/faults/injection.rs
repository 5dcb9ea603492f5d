//! Faults of workloads, as the injectors see them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use weir_plan::Plan;
use weir_plan::fault::{Course, Fault, FaultPlace, WorkloadCondition, level_at};
use weir_units::Timestamp;

/// The faults of a run with their courses: those of its file, then those that were added by hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Broken(Arc<RwLock<Vec<(Fault, Course)>>>);

impl Broken {
    /// The faults of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let end = plan.phases.end() + plan.phases.drain;
        let faults = plan
            .faults
            .iter()
            .map(|fault| (fault.clone(), fault.course(plan.seed, end)));
        Self(Arc::new(RwLock::new(faults.collect())))
    }

    /// All of them, now.
    pub(super) fn all(&self) -> Vec<(Fault, Course)> {
        self.0.read().clone()
    }

    pub(super) fn add(&self, fault: Fault, course: Course) {
        self.0.write().push((fault, course));
    }

    /// Ends a fault at a moment; says whether there is one of this name that had not ended.
    pub(super) fn end(&self, name: &str, at: Duration) -> bool {
        let mut faults = self.0.write();
        let Some((_, course)) = faults.iter_mut().find(|(fault, _)| fault.name == name) else {
            return false;
        };
        let lasts = level_at(course, at) > 0.0 || course.iter().any(|(moment, _)| *moment > at);
        course.retain(|(moment, _)| *moment <= at);
        if level_at(course, at) > 0.0 {
            course.push((at, 0.0));
        }
        lasts
    }

    /// The condition of a workload at a moment.
    pub(crate) fn workload(&self, name: &str, now: Duration) -> WorkloadCondition {
        let mut condition = WorkloadCondition::default();
        for (fault, course) in self.0.read().iter() {
            let is_meant = matches!(&fault.place, FaultPlace::Workload(pattern) if pattern.fits(name));
            let level = level_at(course, now);
            if is_meant && level > 0.0 {
                condition.add(fault, level);
            }
        }
        condition
    }
}

/// The memory of an injector about its faults.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    /// Another controller has stopped it until then.
    stopped_until: Timestamp,
    /// The part of a file by which a wrong volume is behind.
    owed: f64,
    /// The same of files that are not at their sources.
    lost: f64,
    /// Files that it counts and that never came to be.
    pub(crate) skipped: u64,
}

impl Condition {
    /// Whether nothing is injected now.
    pub(crate) fn is_stopped(&mut self, broken: &WorkloadCondition, active: usize, now: Timestamp) -> bool {
        if let Some(until) = broken.stops(|| active, now) {
            self.stopped_until = until;
        }
        broken.is_paused || self.stopped_until > now
    }

    /// Whether the next file comes to be.
    pub(crate) fn injects(&mut self, broken: &WorkloadCondition) -> bool {
        self.owed += broken.volume.unwrap_or(1.0).min(1.0);
        let comes = self.owed >= 1.0 - 1e-9;
        if comes {
            self.owed -= 1.0;
        } else {
            self.skipped += 1;
        }
        comes
    }

    /// Whether the next file is not at its source.
    pub(crate) fn misses(&mut self, broken: &WorkloadCondition) -> bool {
        self.lost += broken.missing;
        let is_missing = self.lost >= 1.0 - 1e-9;
        if is_missing {
            self.lost -= 1.0;
        }
        is_missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_volume_is_exact() {
        let (mut of, broken) = (
            Condition::default(),
            WorkloadCondition {
                volume: Some(0.3),
                ..WorkloadCondition::default()
            },
        );
        let came = (0..1_000).filter(|_| of.injects(&broken)).count();
        assert_eq!((came, of.skipped), (300, 700));
        let whole = (0..50).filter(|_| of.injects(&WorkloadCondition::default())).count();
        assert_eq!(whole, 50);
        let broken = WorkloadCondition {
            missing: 0.7,
            ..WorkloadCondition::default()
        };
        assert_eq!((0..1_000).filter(|_| of.misses(&broken)).count(), 700);
    }
}
