//! Faults of workloads, as the injectors see them.

use std::time::Duration;

use weir_plan::Plan;
use weir_plan::fault::{Course, Fault, FaultPlace, WorkloadCondition, level_at};
use weir_units::Timestamp;

/// The faults of each workload, with their courses.
#[derive(Debug, Default)]
pub(crate) struct InjectionFaults {
    workloads: Vec<Vec<(Fault, Course)>>,
}

impl InjectionFaults {
    pub(crate) fn of(plan: &Plan) -> Self {
        let end = plan.phases.end() + plan.phases.drain;
        let of = |name: &str| {
            let is_meant = |fault: &&Fault| matches!(&fault.place, FaultPlace::Workload(pattern) if pattern.fits(name));
            let faults = plan.faults.iter().filter(is_meant);
            faults
                .map(|fault| (fault.clone(), fault.course(plan.seed, end)))
                .collect()
        };
        Self {
            workloads: plan.workloads.iter().map(|workload| of(workload.name())).collect(),
        }
    }

    /// The condition of a workload at a moment.
    pub(crate) fn at(&self, workload: usize, now: Duration) -> WorkloadCondition {
        let mut condition = WorkloadCondition::default();
        for (fault, course) in self.workloads.get(workload).into_iter().flatten() {
            let level = level_at(course, now);
            if level > 0.0 {
                condition.add(fault, level);
            }
        }
        condition
    }
}

/// What an injector remembers of its faults.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    /// Another controller has stopped it until then.
    stopped_until: Timestamp,
    /// The part of a file by which a wrong volume is behind.
    owed: f64,
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
    }
}
