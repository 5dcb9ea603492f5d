//! Learning from the progress and the ends of transfers.

use std::time::Duration;

use weir_units::{Bytes, Timestamp};
use weir_world::{ErrorClass, Party};

use super::Sample;
use super::breaker::{Sign, sign};
use super::{HALL, LEVELS, Policy};
use crate::{Learned, Resource};

/// While a link's last report is younger than this, transfers without reports are assumed to be like those with
/// reports.
const REPORTS_COUNT: Duration = Duration::from_secs(120);
/// A cap that differs by so much from the recorded one is worth a record.
const WORTH_RECORDING: f64 = 0.2;

impl Policy {
    /// A transfer of this lane tells how far it came. Gives the rate that it is taken to move at from now on, if that
    /// follows.
    pub(crate) fn moved(&mut self, number: u32, mut sample: Sample, now: Timestamp) -> Option<f64> {
        let rate = (!sample.begins && !sample.ends).then_some(sample.bytes / sample.seconds.max(1e-9));
        let lane = &mut self.lanes[number as usize];
        let link = lane.link;
        let state = &mut self.links[link as usize];
        if rate.is_some() {
            lane.report(sample.former, rate);
            state.reported = Some(now);
        }
        let speaks = rate.is_some() || sample.former.is_some();
        sample.weight = match state.reported.filter(|at| now.since(*at) < REPORTS_COUNT) {
            Some(_) if speaks => f64::from(lane.active) / f64::from(lane.reporting.0.max(1)),
            Some(_) => 0.0,
            None => 1.0,
        };
        let thought = sample.former.unwrap_or(state.moving()) * sample.seconds;
        state.sample(&sample);
        for lane in 0..self.links[link as usize].lanes.len() {
            self.flows(self.links[link as usize].lanes[lane], now);
        }
        for pass in 1..self.lanes[number as usize].passes.len() {
            let lane = &mut self.lanes[number as usize];
            let (active, pass) = (lane.active, &mut lane.passes[pass]);
            let gate = pass.gate;
            self.gates[gate as usize].sample(now, &sample, sample.bytes - thought, active, &mut pass.usual);
            self.learned(gate);
            self.enter_rotation(gate, now);
        }
        rate.or(sample.former)
    }

    /// Passes a change of the lane's estimated throughput to its gates.
    pub(super) fn flows(&mut self, number: u32, now: Timestamp) {
        let lane = &mut self.lanes[number as usize];
        let flow = lane.estimate(self.links[lane.link as usize].moving());
        let more = flow - std::mem::replace(&mut lane.flow, flow);
        if more != 0.0 {
            for pass in &lane.passes[1..] {
                self.gates[pass.gate as usize].flows(now, more);
            }
        }
    }

    /// An attempt of this lane ended. `asked` is the size charged to its target, `moved` the actual one.
    pub(crate) fn ended(
        &mut self,
        number: u32,
        asked: Bytes,
        moved: Bytes,
        failure: Option<(ErrorClass, Party)>,
        now: Timestamp,
    ) {
        let link = &mut self.links[self.lanes[number as usize].link as usize];
        if let Some(target) = &mut link.target {
            target.correct(asked, moved);
        }
        match failure {
            None => {
                link.ended(false);
                for pass in 1..self.lanes[number as usize].passes.len() {
                    let gate = self.lanes[number as usize].passes[pass].gate;
                    let state = &mut self.gates[gate as usize];
                    if state.breaker.succeeded() {
                        state.governor.begin_again(now);
                        state.update(now);
                        self.forgive(gate);
                        self.enter_rotation(gate, now);
                    }
                }
            }
            Some((class, party)) => self.failed(number, class, party, now),
        }
    }

    /// Resets a link that works again: its throughput while it was broken does not count against it.
    fn forgive(&mut self, gate: u32) {
        let Resource::Link(link) = self.gates[gate as usize].resource else {
            return;
        };
        let link = &mut self.links[self.link_numbers[&link] as usize];
        link.forget();
        for lane in &link.lanes {
            for pass in &mut self.lanes[*lane as usize].passes {
                pass.tags = [0; LEVELS];
            }
        }
    }

    /// Reports a failure to the gate of the responsible party and to that of the link. Where a link is alone, its
    /// optimiser also decides for the party's gate, and has to learn of the failure.
    fn failed(&mut self, number: u32, class: ErrorClass, party: Party, now: Timestamp) {
        let sign = sign(class);
        if sign == Sign::None {
            return;
        }
        let lane = &self.lanes[number as usize];
        let link = &mut self.links[lane.link as usize];
        link.ended(true);
        let end = match party {
            Party::Source => lane.source(),
            Party::Destination => lane.destination(),
            Party::Network | Party::TransferService | Party::Catalogue | Party::Issuer => HALL,
        };
        let own = link.gate;
        let whole = end == HALL || self.is_alone(number, end);
        for gate in [own, end].into_iter().filter(|gate| *gate != HALL) {
            let state = &mut self.gates[gate as usize];
            state.breaker.failed(now, class);
            if sign == Sign::Congestion && (gate == end || whole) {
                state.governor.congested(now);
            }
            state.update(now);
            self.enter_rotation(gate, now);
        }
    }

    fn learned(&mut self, gate: u32) {
        let state = &self.gates[gate as usize];
        let Some(cap) = state.governor.learned() else { return };
        let (cap, recorded) = (f64::from(cap), f64::from(state.recorded));
        if (cap - recorded).abs() > WORTH_RECORDING * recorded {
            self.unrecorded.insert(gate);
        }
    }

    /// Learned values that are not recorded yet.
    pub(crate) fn take_learned(&mut self, now: Timestamp) -> Vec<Learned> {
        let mut all = Vec::new();
        for gate in std::mem::take(&mut self.unrecorded) {
            let gate = &mut self.gates[gate as usize];
            if let Some(slots) = gate.governor.learned() {
                gate.recorded = slots;
                let each = weir_units::BitRate((gate.each() * 8.0) as u64);
                all.push(Learned {
                    resource: gate.resource,
                    slots,
                    each,
                    at: now,
                });
            }
        }
        all
    }

    pub(crate) fn has_learned(&self) -> bool {
        !self.unrecorded.is_empty()
    }

    /// Continues with the values that an earlier life has learned.
    pub(crate) fn recall(&mut self, learned: &[Learned], now: Timestamp) {
        for known in learned {
            let gate = match known.resource {
                Resource::Link(link) => {
                    let number = self.link(link, now);
                    self.links[number as usize].gate
                }
                other => self.gate(other, now),
            };
            let state = &mut self.gates[gate as usize];
            state.governor.recall(known.slots);
            state.recorded = known.slots;
            state.update(now);
            self.enter_rotation(gate, now);
        }
    }
}
