//! What happened to transfers, and what that teaches.

use weir_units::{Bytes, Timestamp};
use weir_world::{ErrorClass, Party};

use super::breaker::{Sign, sign};
use super::{HALL, Policy};
use crate::{Learned, Resource};

/// A cap that differs by so much from the recorded one is worth a record.
const WORTH_RECORDING: f64 = 0.2;

impl Policy {
    /// A transfer of this lane moved so many bytes in the last `seconds` of its slot time.
    pub(crate) fn moved(&mut self, number: u32, bytes: Bytes, seconds: f64, now: Timestamp) {
        let lane = &self.lanes[number as usize];
        self.links[lane.link as usize].sample(bytes.as_f64(), seconds);
        for pass in 1..lane.passes.len() {
            let gate = self.lanes[number as usize].passes[pass].gate;
            self.gates[gate as usize].sample(now, bytes.as_f64(), seconds);
            self.learned(gate);
            self.turn(gate, now);
        }
    }

    /// An attempt of this lane ended. `asked` is what its target was charged, `moved` what it turned out to be.
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
                        state.update(now);
                        self.turn(gate, now);
                    }
                }
            }
            Some((class, party)) => self.failed(number, class, party, now),
        }
    }

    /// The gate of the party that gave way takes note, and that of the link.
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
            Party::Network | Party::TransferService | Party::Issuer => HALL,
        };
        let own = link.gate;
        for gate in [own, end].into_iter().filter(|gate| *gate != HALL) {
            let state = &mut self.gates[gate as usize];
            state.breaker.failed(now, class);
            if sign == Sign::Congestion && (gate == end || end == HALL) {
                state.governor.congested(now);
            }
            state.update(now);
            self.turn(gate, now);
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

    /// What was learned and is not recorded.
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

    /// Goes on from what an earlier life has learned.
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
            self.turn(gate, now);
        }
    }
}
