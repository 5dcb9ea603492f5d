//! The clock of the waits of one lane.

use weir_units::Timestamp;
use weir_world::Wait;

use super::constants::HALL;

/// State and gate of waiting transfers. The gate is the hall where no resource is concerned.
pub(super) type Reason = (Wait, u32);

/// The account of one lane: the time that its transfers have waited until a moment, by reason.
#[derive(Clone, Debug)]
pub(super) struct WaitClock {
    /// Until when the time is accounted for.
    pub(super) until: Timestamp,
    /// The reason since then.
    pub(super) reason: Reason,
    /// The reason is to be read again at the end of the step.
    pub(super) is_stale: bool,
    /// Transfers that wait for their next attempt.
    pub(super) delayed: u32,
    /// Transfers that hold slots and wait for the record of their start.
    pub(super) starting: u32,
    /// Sums over transfers, in nanoseconds; few entries.
    pub(super) waited: Vec<(Reason, u128)>,
    /// Slot time, in nanoseconds.
    pub(super) held: u128,
}

impl WaitClock {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            until: now,
            reason: (Wait::Turn, HALL),
            is_stale: false,
            delayed: 0,
            starting: 0,
            waited: Vec::new(),
            held: 0,
        }
    }

    /// The waits of so many queued and active transfers up to a moment, which changes nothing.
    pub(super) fn since(&self, now: Timestamp, queued: u64, active: u32) -> ([(Reason, u128); 3], u128) {
        // A clock that is set back adds nothing, and the time that it repeats is not added twice: `until` never goes back.
        let passed = now.since(self.until).as_nanos();
        let times = |number: u64| passed * u128::from(number);
        let waits = [
            (self.reason, times(queued)),
            ((Wait::Retry, HALL), times(self.delayed.into())),
            ((Wait::Store, HALL), times(self.starting.into())),
        ];
        (waits, times(active.into()))
    }

    pub(super) fn add(&mut self, reason: Reason, nanos: u128) {
        if nanos == 0 {
            return;
        }
        match self.waited.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += nanos,
            None => self.waited.push((reason, nanos)),
        }
    }
}
