//! What an attempt has set going, and what was heard of it: read when it is stopped or fails.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::Request;
use weir_http::{Body, Handed};
use weir_units::Bytes;
use weir_world::{ErrorClass, Failure};

use super::{attempt::Attempt, stat::Stat};
use crate::{
    events::{Span, Timeline},
    model::{Claim, SIZE_MAX},
    time,
};

/// What has moved is told this often, at most: a storage may send markers without a pause, and each takes the scheduler's time.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Survives the attempt's own future, which is dropped when it is stopped.
#[derive(Debug, Default)]
pub(crate) struct State {
    moved: AtomicU64,
    told: Mutex<Option<Instant>>,
    trace: Mutex<Trace>,
}

impl State {
    /// Whether it is time to tell what has moved.
    fn is_due(&self, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|told| now - told >= TELL_EVERY);
        if due {
            *told = Some(now);
        }
        due
    }

    /// Begins with what an earlier attempt claimed, and the size that the user told, if they did.
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
pub(super) struct Trace {
    /// Of this attempt, once it has looked; of an earlier one before.
    pub(super) claim: Option<Claim>,
    /// As the store has it.
    pub(super) stored: Option<Claim>,
    /// This attempt has seen whether the destination is free.
    pub(super) looked: bool,
    /// What was at the destination before.
    pub(super) before: Option<Stat>,
    /// Where that was, in the words of the Tape REST API, if it matters.
    pub(super) locality: Option<String>,
    /// What was there when a storage had said that the copy succeeded.
    pub(super) confirmed: Option<Stat>,
    /// The source's size, once known.
    pub(super) source_size: Option<u64>,
    /// The order that has not been answered.
    pub(super) order: Option<Handed>,
    /// A storage has taken an order, or may have.
    pub(super) begun: bool,
    /// A storage has said how the newest order ended, and what it said.
    pub(super) verdict: Option<bool>,
    /// A storage has said that the destination was taken.
    pub(super) exists: bool,
    /// Bytes that this service saw moving in the copy that succeeded, if it saw a final count.
    pub(super) counted: Option<u64>,
    /// When its steps began and ended.
    pub(super) times: Timeline,
}

impl Trace {
    /// Whether an order of this attempt may have written to the destination: it was handed to a connection, and not refused.
    pub(super) fn has_begun(&self) -> bool {
        self.begun || self.order.as_ref().is_some_and(Handed::is_over)
    }

    /// The claim, if orders were given under it.
    pub(super) fn claim_in_use(&self) -> Option<Claim> {
        self.claim.filter(|_| self.has_begun() || !self.looked)
    }

    /// Everything was cleared away: as before the first order.
    pub(super) fn start_over(&mut self) {
        (self.order, self.begun, self.verdict, self.confirmed) = (None, false, None, None);
    }
}

impl Attempt<'_> {
    pub(super) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.state.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An order to write is about to be sent.
    pub(super) fn order_goes_out(&self, request: &mut Request<Body>) {
        let order = Handed::watch(request);
        let mut trace = self.trace();
        (trace.order, trace.verdict) = (Some(order), None);
    }

    /// An order was answered, or will not be. `taken`: it may have had an effect.
    pub(super) fn order_came_back(&self, taken: bool) {
        let mut trace = self.trace();
        trace.order = None;
        trace.begun |= taken;
    }

    /// A storage has said how an order ended.
    pub(super) fn order_is_over(&self, success: bool) {
        self.trace().verdict = Some(success);
    }

    /// A mode failed.
    pub(super) fn note_failure(&self, failure: &Failure) {
        self.trace().exists |= failure.class == ErrorClass::Exists;
    }

    /// How the attempt's time went; what is still under way ends now.
    pub(super) fn timeline(&self) -> Timeline {
        let (times, now) = (self.trace().times, time::now());
        let close = |span: Option<Span>| {
            span.map(|span| Span {
                to: if span.to == 0 { now } else { span.to },
                ..span
            })
        };
        Timeline {
            source_checksum: close(times.source_checksum),
            copy: close(times.copy),
            destination_checksum: close(times.destination_checksum),
            ended: now,
            ..times
        }
    }

    /// Times a step.
    pub(super) async fn timed<T>(
        &self,
        step: fn(&mut Timeline) -> &mut Option<Span>,
        work: impl Future<Output = T>,
    ) -> T {
        let from = time::now();
        *step(&mut self.trace().times) = Some(Span { from, to: 0 });
        let done = work.await;
        *step(&mut self.trace().times) = Some(Span { from, to: time::now() });
        done
    }

    /// Bytes that have moved so far, in all. No storage is believed to have moved more than there is. The end tells what was not told.
    pub(crate) fn moved(&self, bytes: u64) {
        let bytes = bytes.min(self.trace().source_size.unwrap_or(SIZE_MAX)).min(SIZE_MAX);
        if self.state.moved.fetch_max(bytes, Ordering::Relaxed) < bytes && self.state.is_due(Instant::now()) {
            (self.progress)(bytes);
        }
    }

    /// A copy has succeeded, and so many bytes were seen moving: not bounded by the source's size, with which it is compared.
    pub(super) fn counted(&self, bytes: Option<u64>) {
        self.trace().counted = bytes.map(|bytes| bytes.min(SIZE_MAX));
    }

    pub(crate) fn bytes_moved(&self) -> Bytes {
        Bytes(self.state.moved.load(Ordering::Relaxed))
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
