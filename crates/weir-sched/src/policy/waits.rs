//! Accounting of the time that transfers wait for.
//!
//! A lane waits at one gate at a time ([`super::Lane::place`]), so its queued transfers are in one state at a time. The
//! state is read once at the end of each step, when every turn of the step is over, and holds until the lane or its gate
//! changes. Time is added when the numbers of a lane change, and when somebody reads.

use std::time::Duration;

use weir_units::Timestamp;
use weir_world::Wait;

use super::wait_clock::{Reason, WaitClock};
use super::{HALL, Policy};
use crate::waits::{LinkWaits, QueueWait};
use crate::{Cause, Resource};

impl Policy {
    /// Accounts for the time since the last call. To be called before the queue, the slots or the place of a lane change.
    pub(super) fn account(&mut self, number: u32, now: Timestamp) {
        let lane = &mut self.lanes[number as usize];
        let (waits, held) = lane.clock.since(now, lane.queues.len(), lane.active);
        for (reason, nanos) in waits {
            lane.clock.add(reason, nanos);
        }
        lane.clock.held += held;
        lane.clock.until = lane.clock.until.max(now);
        if !std::mem::replace(&mut lane.clock.is_stale, true) {
            self.stale.push(number);
        }
    }

    /// Transfers of a lane begin (`+1`) or cease (`-1`) to wait for their next attempt.
    pub(crate) fn delay(&mut self, number: u32, change: i32, now: Timestamp) {
        self.account(number, now);
        let clock = &mut self.lanes[number as usize].clock;
        clock.delayed = clock.delayed.saturating_add_signed(change);
    }

    /// Transfers of a lane begin (`+1`) or cease (`-1`) to wait for the record of their start.
    pub(crate) fn start_waits(&mut self, number: u32, change: i32, now: Timestamp) {
        self.account(number, now);
        let clock = &mut self.lanes[number as usize].clock;
        clock.starting = clock.starting.saturating_add_signed(change);
    }

    /// Reads the reasons of the lanes that changed in this step.
    pub(crate) fn read_reasons(&mut self) {
        let mut stale = std::mem::take(&mut self.stale);
        for number in stale.drain(..) {
            let reason = self.reason(number);
            let clock = &mut self.lanes[number as usize].clock;
            (clock.reason, clock.is_stale) = (reason, false);
        }
        self.stale = stale;
    }

    fn reason(&self, number: u32) -> Reason {
        if self.settings.hold {
            return (Wait::Halt, HALL);
        }
        let Some((place, _)) = self.lanes[number as usize].place else {
            return (Wait::Turn, HALL);
        };
        let gate = &self.gates[place as usize];
        if place == HALL || gate.has_room() {
            return (Wait::Turn, HALL);
        }
        let wait = match gate.cause {
            Cause::Limit => Wait::Slots,
            Cause::Optimiser => Wait::Optimiser,
            Cause::Bandwidth { .. } => Wait::BandwidthLimit,
            Cause::Faults { .. } => Wait::Pause,
        };
        (wait, place)
    }

    /// The waits of every link up to a moment, in the order of their keys.
    pub(crate) fn waits(&self, now: Timestamp) -> impl Iterator<Item = LinkWaits> {
        self.link_numbers.values().map(move |link| self.waits_of(*link, now))
    }

    fn waits_of(&self, link: u32, now: Timestamp) -> LinkWaits {
        let state = &self.links[link as usize];
        let mut waited: Vec<(Reason, u128)> = Vec::new();
        let (mut held, mut way) = (0, Vec::new());
        for lane in state.lanes.iter().map(|lane| &self.lanes[*lane as usize]) {
            let (waits, slots) = lane.clock.since(now, lane.queues.len(), lane.active);
            held += lane.clock.held + slots;
            let mut sums = WaitClock::new(now);
            std::mem::swap(&mut sums.waited, &mut waited);
            for (reason, nanos) in lane.clock.waited.iter().copied().chain(waits) {
                sums.add(reason, nanos);
            }
            waited = sums.waited;
            for pass in &lane.passes[1..] {
                let resource = self.gates[pass.gate as usize].resource;
                if !way.contains(&resource) {
                    way.push(resource);
                }
            }
        }
        let wait = |((wait, gate), nanos): (Reason, u128)| QueueWait {
            wait,
            resource: self.resource_of(gate),
            time: duration(nanos),
        };
        LinkWaits {
            link: state.link,
            waits: waited.into_iter().map(wait).collect(),
            slots: duration(held),
            way,
        }
    }

    fn resource_of(&self, gate: u32) -> Option<Resource> {
        (gate != HALL).then(|| self.gates[gate as usize].resource)
    }
}

fn duration(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % SECOND) as u32)
}
