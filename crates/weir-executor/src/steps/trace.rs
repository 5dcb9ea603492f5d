//! The trace of an attempt: its orders and their answers, read when it is stopped or fails.

use std::{
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use weir_http::Handed;

use crate::steps::stat::Stat;
use crate::{job::Claim, timeline::Timeline};

/// Shortest interval between progress reports: a storage may send markers without a pause, and each costs the scheduler
/// time.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Survives the attempt's own future, which is dropped when it is stopped.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) moved: AtomicU64,
    told: Mutex<Option<Instant>>,
    pub(crate) trace: Mutex<Trace>,
}

impl State {
    /// Whether a progress report is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut told = self.told.lock();
        let due = told.is_none_or(|told| now - told >= TELL_EVERY);
        if due {
            *told = Some(now);
        }
        due
    }

    /// Begins with the claim of an earlier attempt, and the size that the user gave, if any.
    pub(crate) fn new(earlier: Option<Claim>, size: Option<u64>, times: Timeline) -> Self {
        let trace = Trace {
            claim: earlier,
            stored: earlier,
            source_size: size,
            times,
            ..Trace::default()
        };
        Self {
            moved: AtomicU64::new(0),
            told: Mutex::default(),
            trace: Mutex::new(trace),
        }
    }
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trace {
    /// Of this attempt, once it has looked; of an earlier one before.
    pub(crate) claim: Option<Claim>,
    /// As the store has it.
    pub(crate) stored: Option<Claim>,
    /// This attempt has seen whether the destination is free.
    pub(crate) looked: bool,
    /// The file at the destination before.
    pub(crate) before: Option<Stat>,
    /// Where that was, in the words of the Tape REST API, if it matters.
    pub(crate) locality: Option<String>,
    /// The file after a storage had reported success.
    pub(crate) confirmed: Option<Stat>,
    /// The source's size, once known.
    pub(crate) source_size: Option<u64>,
    /// The order that has not been answered.
    pub(crate) order: Option<Handed>,
    /// A storage has taken an order, or may have.
    pub(crate) begun: bool,
    /// The storage's verdict on the newest order.
    pub(crate) verdict: Option<bool>,
    /// A storage has said that the destination was taken.
    pub(crate) exists: bool,
    /// Bytes that this service saw moving in the copy that succeeded, if it saw a final count.
    pub(crate) counted: Option<u64>,
    /// From the newest order to its first byte of data, if that is known.
    pub(crate) first_byte: Option<Duration>,
    /// When its steps began and ended.
    pub(crate) times: Timeline,
}

impl Trace {
    /// Whether an order of this attempt may have written to the destination: it was handed to a connection, and not refused.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun || self.order.as_ref().is_some_and(Handed::is_over)
    }

    /// The claim, if orders were given under it.
    pub(crate) fn claim_in_use(&self) -> Option<Claim> {
        self.claim.filter(|_| self.has_begun() || !self.looked)
    }

    /// Everything was cleared away: as before the first order.
    pub(crate) fn start_over(&mut self) {
        (self.order, self.begun, self.verdict, self.confirmed) = (None, false, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_without_a_pause_are_told_once_a_second() {
        let (state, start) = (State::default(), Instant::now());
        let due = |millis| state.is_due(start + Duration::from_millis(millis));
        assert!(due(0));
        assert!(!(1..1000).any(due), "each marker is a message to the scheduler");
        assert!(due(1000) && !due(1999) && due(2001));
    }
}
