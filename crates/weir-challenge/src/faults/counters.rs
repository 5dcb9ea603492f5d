//! Counters of storages that a run reads wrong while faults are on.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_plan::fault::{Amount, Fault, FaultKind, FaultPlace, Level};

use crate::services::storage::{Counters, StorageDoor};

/// Bytes by which the counters of each door differ from what it counted: received and sent, by the number of the door.
#[derive(Debug, Clone, Default)]
pub(crate) struct Miscounted(BTreeMap<usize, [i128; 2]>);

/// The account of the faults that make counters wrong.
pub(super) struct Miscounts {
    doors: Arc<Vec<StorageDoor>>,
    /// Of each fault that is on, by its name: the factor and the counters when it came.
    on: BTreeMap<String, (f64, BTreeMap<usize, Counters>)>,
    /// Bytes that each fault has added.
    added: BTreeMap<String, i128>,
    miscounted: Miscounted,
    /// The last error of each fault.
    unread: BTreeMap<String, String>,
}

impl Miscounted {
    /// The counters of a door as they are read, and not as they are. None is below zero.
    pub(crate) fn of(&self, door: usize, counters: Counters) -> Counters {
        let Some([received, sent]) = self.0.get(&door) else {
            return counters;
        };
        let wrong = |right: u64, by: i128| u64::try_from((i128::from(right) + by).max(0)).unwrap_or(u64::MAX);
        Counters {
            received: wrong(counters.received, *received),
            sent: wrong(counters.sent, *sent),
            ..counters
        }
    }

    /// Adds what a factor makes of the growth of a door's counters; gives the bytes.
    fn add(&mut self, door: usize, factor: f64, grown: &Counters) -> i128 {
        let wrong = |bytes: u64| ((factor - 1.0) * bytes as f64) as i128;
        let [received, sent] = self.0.entry(door).or_default();
        let (more_received, more_sent) = (wrong(grown.received), wrong(grown.sent));
        *received += more_received;
        *sent += more_sent;
        more_received + more_sent
    }
}

impl Miscounts {
    pub(super) fn new(doors: &Arc<Vec<StorageDoor>>) -> Self {
        Self {
            doors: doors.clone(),
            on: BTreeMap::new(),
            added: BTreeMap::new(),
            miscounted: Miscounted::default(),
            unread: BTreeMap::new(),
        }
    }

    /// Settles the bytes counted under a fault's former level, and begins another one.
    pub(super) async fn change(&mut self, fault: &Fault, level: Level) {
        let (Some(factor), FaultPlace::Rse(pattern, _)) = (factor(fault, level), &fault.place) else {
            return;
        };
        let meant = |(_, door): &(usize, &StorageDoor)| pattern.fits(&door.name);
        let mut now = BTreeMap::new();
        for (at, door) in self.doors.iter().enumerate().filter(meant) {
            match door.counters().await {
                Ok(counters) => {
                    now.insert(at, counters);
                }
                Err(error) => {
                    self.unread.insert(fault.name.clone(), weir_auth::error_chain(&error));
                }
            }
        }
        if let Some((former, then)) = self.on.remove(&fault.name) {
            for (door, then) in &then {
                let Some(now) = now.get(door) else { continue };
                let added = self.miscounted.add(*door, former, &now.since(then));
                *self.added.entry(fault.name.clone()).or_default() += added;
            }
        }
        if level > 0.0 {
            self.on.insert(fault.name.clone(), (factor, now));
        }
    }

    /// The bytes by which the counters differ.
    pub(super) fn miscounted(&self) -> &Miscounted {
        &self.miscounted
    }

    /// The effect of a fault, in words.
    pub(super) fn state(&self, fault: &str) -> String {
        let added = self.added.get(fault).copied().unwrap_or_default();
        let bytes = weir_units::Bytes(u64::try_from(added.unsigned_abs()).unwrap_or(u64::MAX));
        let text = format!(
            "counters were read with {bytes} {} than were counted",
            if added < 0 { "less" } else { "more" }
        );
        match self.unread.get(fault) {
            Some(error) => format!("{text}; not all: {error}"),
            None => text,
        }
    }
}

/// Whether a fault makes counters wrong.
pub(super) fn is_of_counters(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::WrongCounters | FaultKind::MissingCounters)
}

/// The bytes that are read for each that is counted.
fn factor(fault: &Fault, level: Level) -> Option<f64> {
    match (fault.kind, fault.amount) {
        (FaultKind::WrongCounters, Amount::Factor(factor)) => Some(1.0 + (factor - 1.0) * level),
        (FaultKind::MissingCounters, _) => Some(1.0 - level),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(received: u64, sent: u64) -> Counters {
        Counters {
            received,
            sent,
            ..Counters::default()
        }
    }

    /// Bytes that came before the fault would be wrong, too, or the counters of another storage.
    #[test]
    fn growth_under_a_fault_is_wrong_alone() {
        let mut miscounted = Miscounted::default();
        assert_eq!(miscounted.add(1, 20.0, &counters(10, 1)), 209);
        let read = miscounted.of(1, counters(110, 1_001));
        assert_eq!((read.received, read.sent), (300, 1_020));
        assert_eq!(miscounted.of(0, counters(5, 5)), counters(5, 5));
        // Counters have no sign.
        miscounted.add(1, -30.0, &counters(10, 0));
        assert_eq!(miscounted.of(1, counters(20, 1)).received, 0);
    }
}
