//! The places where lanes wait, and the events that wake them.

use weir_units::Timestamp;

use super::gate::{Key, Rank};
use super::lane::Pass;
use super::{Alarm, GUESS, HALL, KEPT_FOR, Policy, STARVING};

impl Policy {
    /// Brings a lane to the place where it belongs now. Does nothing if it is there.
    pub(super) fn requeue(&mut self, number: u32, now: Timestamp) {
        let lane = &self.lanes[number as usize];
        if lane.queues.is_empty() {
            self.unreserve(number, now);
            self.move_to(number, None, now);
            return;
        }
        if let Some(until) = lane.reserved
            && (until <= now || !self.may_keep(number))
        {
            self.unreserve(number, now);
        }
        self.mark_urgent_deadlines(number, now);
        let lane = &self.lanes[number as usize];
        let level = if lane.reserved.is_some() {
            STARVING
        } else {
            lane.queues.level().expect("the lane has something to do")
        };
        let (rank, due) = self.rank(number, now);
        match lane.place {
            Some((_, key)) if usize::from(key.level) == level && key.rank == rank => {}
            Some((gate, _)) if gate != HALL => self.line_up(number, gate, level, rank, due, now),
            _ => {
                let gate = self.waiting_room(number, level, now);
                self.line_up(number, gate, level, rank, due, now);
            }
        }
    }

    fn line_up(&mut self, number: u32, gate: u32, level: usize, rank: Rank, due: u64, now: Timestamp) {
        let lane = &self.lanes[number as usize];
        let pass = lane.passes.iter().find(|pass| pass.gate == gate);
        let key = self.key_at(
            number,
            pass.expect("a lane waits only where it passes"),
            level,
            rank,
            due,
        );
        self.move_to(number, Some((gate, key)), now);
        self.look_again(number, now);
    }

    /// The sort key of a lane among those that wait at a gate.
    fn key_at(&self, number: u32, pass: &Pass, level: usize, rank: Rank, due: u64) -> Key {
        let tag = match rank {
            Rank::Deadline => due,
            Rank::Owed | Rank::Share => pass.tags[level].max(self.gates[pass.gate as usize].times[level]),
        };
        Key {
            level: level as u8,
            rank,
            tag,
            lane: number,
        }
    }

    /// Whether a lane is owed something, and by when.
    fn rank(&self, number: u32, now: Timestamp) -> (Rank, u64) {
        let lane = &self.lanes[number as usize];
        let target = self.links[lane.link as usize].target.map(|target| target.due);
        if let Some(deadline) = lane.queues.pressing() {
            return (Rank::Deadline, deadline.0);
        }
        match target.filter(|due| *due <= now) {
            Some(_) => (Rank::Owed, 0),
            None => (Rank::Share, 0),
        }
    }

    /// Sends a lane that could start to the gate of a lane that goes before it. False if it may start.
    ///
    /// Otherwise a lane that fills two gates would take both again whenever one of its transfers ends, at its turn at
    /// the gate where no other lane waits. This happens at most once between two starts, so that lanes do not send each
    /// other around.
    pub(super) fn defer(&mut self, number: u32, turn: u32, level: usize, now: Timestamp) -> bool {
        let lane = &self.lanes[number as usize];
        if lane.deferred || lane.reserved.is_some() {
            return false;
        }
        let (rank, due) = self.rank(number, now);
        let mut others = lane.passes[1..].iter().filter(|pass| pass.gate != turn);
        let goes_before = |pass: &&Pass| {
            let first = self.gates[pass.gate as usize].waiting.first();
            first.is_some_and(|first| *first < self.key_at(number, pass, level, rank, due))
        };
        let Some(gate) = others.find(goes_before).map(|pass| pass.gate) else {
            return false;
        };
        self.lanes[number as usize].deferred = true;
        self.line_up(number, gate, level, rank, due, now);
        true
    }

    /// The gate at which a lane has to wait: a full one, else one with a queue, else the hall.
    fn waiting_room(&mut self, number: u32, level: usize, now: Timestamp) -> u32 {
        while let Some(full) = self.blocker(number) {
            self.ask_for_more(number, full, Rank::Share, now);
            if !self.gates[full as usize].has_room() {
                return full;
            }
        }
        let lane = &self.lanes[number as usize];
        if lane.reserved.is_some() {
            return HALL;
        }
        let mut gates = lane.passes[1..].iter().map(|pass| pass.gate);
        gates
            .find(|gate| self.gates[*gate as usize].is_awaited(level))
            .unwrap_or(HALL)
    }

    pub(super) fn move_to(&mut self, number: u32, place: Option<(u32, Key)>, now: Timestamp) {
        self.account(number, now);
        let lane = &mut self.lanes[number as usize];
        if let Some((gate, key)) = std::mem::replace(&mut lane.place, place) {
            self.gates[gate as usize].waiting.remove(&key);
        }
        if let Some((gate, key)) = place {
            self.gates[gate as usize].waiting.insert(key);
            self.enter_rotation(gate, now);
        }
    }

    /// Keeps a slot of its destination for a lane that lost too many turns. Does nothing while another gate on its way is
    /// shut, or if there is no slot.
    pub(super) fn reserve(&mut self, number: u32, now: Timestamp) {
        let lane = &self.lanes[number as usize];
        let destination = lane.destination();
        if lane.reserved.is_some() || !self.gates[destination as usize].has_room() || self.is_shut_out(number) {
            return;
        }
        let until = now + KEPT_FOR;
        self.lanes[number as usize].reserved = Some(until);
        for pass in &self.lanes[number as usize].passes[1..] {
            self.gates[pass.gate as usize].keepers += 1;
        }
        let gate = &mut self.gates[destination as usize];
        gate.kept += 1;
        gate.hold(now, gate.held + 1);
        self.set_alarm(number, until);
    }

    /// Gives back the slot that a starving lane kept.
    pub(super) fn unreserve(&mut self, number: u32, now: Timestamp) {
        if self.cease_to_keep(number) {
            let destination = self.lanes[number as usize].destination();
            let gate = &mut self.gates[destination as usize];
            gate.hold(now, gate.held - 1);
            self.enter_rotation(destination, now);
        }
    }

    /// A kept slot is no longer a kept one: it is used, or given back. False if the lane kept none.
    pub(super) fn cease_to_keep(&mut self, number: u32) -> bool {
        let lane = &mut self.lanes[number as usize];
        if lane.reserved.take().is_none() {
            return false;
        }
        self.gates[lane.destination() as usize].kept -= 1;
        for pass in &lane.passes[1..] {
            self.gates[pass.gate as usize].keepers -= 1;
        }
        true
    }

    /// A gate on the way of a lane, other than its destination, is shut.
    fn is_shut_out(&self, number: u32) -> bool {
        let lane = &self.lanes[number as usize];
        let mut gates = lane.passes[1..].iter().map(|pass| pass.gate);
        gates.any(|gate| gate != lane.destination() && self.gates[gate as usize].is_shut())
    }

    /// A lane may go on keeping a slot: its destination has not too few of them, and nothing on its way is shut.
    fn may_keep(&self, number: u32) -> bool {
        let destination = &self.gates[self.lanes[number as usize].destination() as usize];
        destination.held <= destination.allowed && !self.is_shut_out(number)
    }

    /// Has lanes give back the slots that they keep and cannot use.
    pub(super) fn recall_slots(&mut self, gate: u32, now: Timestamp) {
        if !self.gates[gate as usize].recalls_slots() {
            return;
        }
        let keeps = |lane: &&u32| self.lanes[**lane as usize].reserved.is_some();
        let keepers: Vec<u32> = self.gates[gate as usize].lanes.iter().filter(keeps).copied().collect();
        for lane in keepers {
            if !self.may_keep(lane) {
                self.requeue(lane, now);
            }
        }
    }

    /// Puts a gate into the rotation, if it has room and is awaited; asks for a look at the clock, if time may give room.
    pub(super) fn enter_rotation(&mut self, gate: u32, now: Timestamp) {
        self.recall_slots(gate, now);
        self.rotate(gate);
        if let Some(at) = self.gates[gate as usize].next_look(now) {
            let alarm = &mut self.gates[gate as usize].alarm;
            if at < *alarm {
                self.alarms.remove(&(*alarm, Alarm::Gate(gate)));
                self.alarms.insert((at, Alarm::Gate(gate)));
                *alarm = at;
            }
        }
    }

    pub(super) fn rotate(&mut self, gate: u32) {
        let state = &mut self.gates[gate as usize];
        let Some(first) = state.waiting.first() else { return };
        let (level, bit) = (usize::from(first.level), 1 << first.level);
        if state.has_room() && state.in_rotation & bit == 0 {
            state.in_rotation |= bit;
            self.rotation[level].push_back(gate);
        }
    }

    /// Marks deadlines that press.
    fn mark_urgent_deadlines(&mut self, number: u32, now: Timestamp) {
        let lane = &mut self.lanes[number as usize];
        if !lane.queues.has_deadlines() {
            return;
        }
        let each = self.links[lane.link as usize].each().unwrap_or(GUESS);
        if let Some(at) = lane
            .queues
            .mark_urgent_deadlines(now, each * f64::from(lane.active.max(1)))
        {
            self.set_alarm(number, at);
        }
    }

    /// Asks for a look at the clock when a waiting lane will be more urgent than now.
    fn look_again(&mut self, number: u32, now: Timestamp) {
        let lane = &mut self.lanes[number as usize];
        if lane.alarm == Timestamp(u64::MAX)
            && let Some(after) = self.settings.ageing
            && let Some(at) = lane.queues.age(now, after)
        {
            self.set_alarm(number, at);
        }
        let lane = &self.lanes[number as usize];
        let target = self.links[lane.link as usize].target.map(|target| target.due);
        for at in [lane.reserved, target.filter(|due| *due > now)].into_iter().flatten() {
            self.set_alarm(number, at);
        }
    }

    fn set_alarm(&mut self, number: u32, at: Timestamp) {
        let alarm = &mut self.lanes[number as usize].alarm;
        if at < *alarm {
            self.alarms.remove(&(*alarm, Alarm::Lane(number)));
            self.alarms.insert((at, Alarm::Lane(number)));
            *alarm = at;
        }
    }

    /// When time alone may change something.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Runs the alarms that are due.
    pub(crate) fn run_due_alarms(&mut self, now: Timestamp) {
        while let Some((_, alarm)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) {
            self.alarms.pop_first();
            match alarm {
                Alarm::Gate(gate) => {
                    self.gates[gate as usize].alarm = Timestamp(u64::MAX);
                    self.gates[gate as usize].update(now);
                    self.enter_rotation(gate, now);
                }
                Alarm::Lane(lane) => {
                    let state = &mut self.lanes[lane as usize];
                    state.alarm = Timestamp(u64::MAX);
                    if let Some(after) = self.settings.ageing {
                        state.queues.age(now, after);
                    }
                    self.requeue(lane, now);
                    if !self.lanes[lane as usize].queues.is_empty() {
                        self.look_again(lane, now);
                    }
                }
            }
        }
    }
}
