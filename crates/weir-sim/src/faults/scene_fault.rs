//! A fault among the things of a scene.

use std::time::Duration;

use weir_plan::fault::{Fault, FaultKind, FaultPlace, Level, Service};

use crate::spec::Interval;

/// A fault with the things that it acts on, by their indices in the scene.
#[derive(Debug, Clone)]
pub struct SceneFault {
    /// The fault.
    pub fault: Fault,
    /// When its level changes.
    pub course: Vec<(Duration, Level)>,
    pub(crate) storages: Vec<usize>,
    pub(crate) sites: Vec<usize>,
    pub(crate) links: Vec<usize>,
    pub(crate) segments: Vec<usize>,
    pub(crate) workloads: Vec<usize>,
    pub(crate) level: Level,
}

impl SceneFault {
    pub(crate) fn is_on(&self) -> bool {
        self.level > 0.0
    }

    /// The times in which it is on at all.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = Interval> {
        let ends = self.course.iter().skip(1).map(|(at, _)| *at).chain([Duration::MAX / 4]);
        let on = self.course.iter().zip(ends).filter(|((_, level), _)| *level > 0.0);
        on.map(|((at, _), end)| Interval {
            at: *at,
            length: end.saturating_sub(*at),
        })
    }

    pub(crate) fn is_at(&self, kind: FaultKind, service: Service) -> bool {
        self.fault.kind == kind && self.fault.place == FaultPlace::Service(service)
    }
}
