//! A workload under its faults.

use std::time::Duration;

use weir_units::Timestamp;

use super::course::Level;
use super::kind::FaultKind;
use super::spec::{Amount, Fault};

/// A workload with the faults that are on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkloadCondition {
    /// Nothing is injected.
    pub is_paused: bool,
    /// Injected as a share of asked, if not whole.
    pub volume: Option<f64>,
    /// Pause between two injections.
    pub comb: Option<Duration>,
    /// Size of files.
    pub size: Option<u64>,
    /// Share of files that is not at its source.
    pub missing: f64,
    /// Another controller: so many transfers, and the pause that it makes when there are more.
    pub controller: Option<(u32, Duration)>,
}

impl WorkloadCondition {
    /// Adds a fault that is on at this level.
    pub fn add(&mut self, fault: &Fault, level: Level) {
        match (fault.kind, fault.amount) {
            (FaultKind::Pause, _) => self.is_paused = true,
            (FaultKind::Volume, Amount::Factor(factor)) => self.volume = Some(1.0 + (factor - 1.0) * level),
            (FaultKind::Comb, Amount::Delay(delay)) => self.comb = Some(delay.mul_f64(level)),
            (FaultKind::SmallFiles, Amount::Size(size)) => self.size = Some(size.0),
            (FaultKind::MissingSource, Amount::Share(share)) => self.missing = share * level,
            (FaultKind::Controller, Amount::Limit(limit)) => {
                self.controller = fault.details.delay.map(|delay| (limit, delay));
            }
            _ => {}
        }
    }

    /// Until when another controller stops the workload, if it does so now.
    pub fn stops(&self, active: impl Fn() -> usize, now: Timestamp) -> Option<Timestamp> {
        let (limit, pause) = self.controller?;
        (active() > limit as usize).then(|| now + pause)
    }
}
