//! The policy: which transfer starts next.
//!
//! # The model
//! Everything that is limited is a **gate**: a link, a storage element in one direction, a VO at a storage element, a
//! resource that several storage elements share. A gate has slots; a transfer holds one at each gate on its way. Their
//! number is the least of four limits. The first is the operator's limit. The second is the optimiser ([`governor`]),
//! which learns how many are worth running. The third is a limit on bandwidth ([`pace`]), converted into slots by the
//! throughput of one transfer. The fourth is, for a broken resource, a pause ([`breaker`]).
//!
//! The unit that waits is a **lane**: the transfers of one VO on one link, in queues by priority, activity and deadline
//! ([`queue`]). A lane with queued transfers always waits at one place. The place is a gate without room, or a gate where
//! equally urgent lanes wait, or, if nothing holds it back, the **hall** (gate 0, which always has room).
//!
//! A gate that has room and is awaited stands in the **rotation** of a level. [`Policy::pick`] takes the most urgent
//! level, the next gate in its rotation, and the first lane waiting there. If another of the lane's gates is full, the
//! lane goes to wait there; otherwise its first transfer starts, and the lane lines up again.
//!
//! # Order at a gate
//! 1. The more urgent level: priorities are strict. A queue that was not served for long ([`crate::Setting::Ageing`])
//!    rises by one level until it is served. This trickle keeps every queue moving and costs the urgent ones next to
//!    nothing.
//! 2. Within a level, lanes with a pressing deadline, the earliest first; then links behind their target rate.
//! 3. Among these, and among all others, by shares, with start-time fair queueing. A transfer costs the time for which
//!    it will hold its slot, divided by the lane's weight (of its link × its VO's part of that link). Where slots are
//!    scarce (a limit on them, a storage that suffers from more), the cost also grows with the fastest lane's speed
//!    divided by its own. So slots go to lanes in proportion to their throughput per slot. Lanes within a fifth of the
//!    fastest are equal, and none gets less than a twelfth. So slow lanes do not hold slots that fast ones could use,
//!    and all of them move.
//!
//! # Consequences
//! - *No head-of-line blocking*: a lane that cannot start waits at the gate that holds it, and blocks no other.
//! - *Work conserving*: a gate with room and a waiting lane is in the rotation.
//! - *Cost follows change*: only gates that got room, and lanes that got work, are looked at.
//! - *No starvation between equals*: a lane between two busy ends might find one of them full at every turn. After
//!   [`PATIENCE`] such turns it keeps the slot it was offered at its destination, and is first in line elsewhere. Slots
//!   are only ever kept at destinations while waiting for something else, so such waits cannot form a circle. A slot is
//!   kept for [`KEPT_FOR`] at most, and not at all while another gate on the lane's way is shut (a ban, a pause).
//! - *Turns hold at every gate*: a lane that could start queues behind a lane that goes before it, at any of its gates.
//!   Otherwise a lane that fills two gates would keep both for itself.
//! - *No pause outlives its time*: a gate whose breaker is open asks to be looked at when the pause ends, awaited or
//!   not.
//!
//! The interface inside the crate is six calls: `enqueue`, `dequeue`, `pick`, `force`, `release`, `set`; and two that
//! report results: `moved` and `ended`.

mod breaker;
mod constants;
mod force;
mod gate;
mod governor;
mod lane;
mod learn;
mod levels;
pub(crate) mod list;
mod pace;
mod place;
mod queue;
mod sample;
mod usual;
mod view;
mod wait_clock;
mod waits;
mod wiring;

pub(crate) use sample::Sample;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use weir_units::Timestamp;

use crate::core::table::Table;
use crate::core::terms::Shared;
use crate::settings::Settings;
use crate::stats::Counts;
use crate::{Decision, Link, Order, Resource, Verdict, VoId};
use constants::{AS_FAST, GUESS, HALL, SLOWEST};
use gate::{Gate, Rank};
use lane::{Lane, LinkState};
use levels::{HIGHEST, Levels, STARVING};
pub(crate) use levels::{LEVELS, RESUMED, level_of};
use queue::{QueueKey, rounded};
/// Turns in a row that a lane loses to another gate before it may keep a slot.
const PATIENCE: u32 = 16;
/// How long a lane may keep a slot at most: 60 s. It idles meanwhile, so that is the cost of one turn; most copies end sooner, and
/// with them comes the slot that the lane waits for.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The end of its queue that a transfer joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Behind all others.
    Back,
    /// Before them: it waited its turn already.
    Front,
}

/// A look at the clock that something asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Gate(u32),
    Lane(u32),
}

/// Queues, slots and turns.
#[derive(Debug)]
pub(crate) struct Policy {
    settings: Settings,
    links: Vec<LinkState>,
    lanes: Vec<Lane>,
    gates: Vec<Gate>,
    rotation: [VecDeque<u32>; LEVELS],
    link_numbers: BTreeMap<Link, u32>,
    lane_numbers: BTreeMap<(u32, VoId), u32>,
    gate_numbers: BTreeMap<Resource, u32>,
    alarms: BTreeSet<(Timestamp, Alarm)>,
    /// Gates whose optimiser has learned a value that is not recorded yet.
    unrecorded: BTreeSet<u32>,
    /// The lane that was asked for last: jobs ask for the same one many times.
    last_lane: Option<(Link, VoId, u32)>,
    /// Lanes whose reason to wait may have changed in this step.
    stale: Vec<u32>,
}

impl Policy {
    /// Whether nothing may start.
    pub(crate) fn holds(&self) -> bool {
        self.settings.hold
    }

    /// The operator's settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counts of the link that a lane belongs to.
    pub(crate) fn counts(&mut self, lane: u32) -> &mut Counts {
        &mut self.links[self.lanes[lane as usize].link as usize].counts
    }

    /// Reads a little of everything that the end of a transfer of this lane will change.
    pub(crate) fn touch(&self, lane: u32) -> u32 {
        let lane = &self.lanes[lane as usize];
        let link = &self.links[lane.link as usize];
        let gates = lane.passes.iter().map(|pass| self.gates[pass.gate as usize].held);
        gates.fold(link.counts.active as u32, |seen, held| seen ^ held)
    }

    /// The link that a lane belongs to.
    pub(crate) fn key(&self, lane: u32) -> Link {
        self.links[self.lanes[lane as usize].link as usize].link
    }

    /// Puts a transfer into its queue.
    pub(crate) fn enqueue(
        &mut self,
        table: &mut Table,
        row: u32,
        shared: &Shared,
        level: usize,
        join: Join,
        now: Timestamp,
    ) {
        table[row].set_level(level);
        let (number, size) = (table[row].lane, table[row].size);
        self.account(number, now);
        let key = QueueKey {
            level,
            activity: shared.activity,
            deadline: rounded(shared.terms.deadline, now),
        };
        let lane = &mut self.lanes[number as usize];
        let first = lane.queues.is_empty();
        let queue = lane.queues.number(key, now);
        table[row].queue = queue;
        if lane.queues.at(queue).list.is_empty() {
            lane.queues.wakes(queue, now);
        }
        let entry = lane.queues.at(queue);
        entry.bytes = entry.bytes.saturating_add(size.0);
        match join {
            Join::Back => entry.list.push_back(table, row),
            Join::Front => entry.list.push_front(table, row),
        }
        lane.queues.joined();
        let link = &mut self.links[lane.link as usize];
        link.counts.queued += 1;
        link.counts.queued_bytes += size;
        if first {
            link.shares += lane.share;
        }
        self.requeue(number, now);
    }

    /// Takes a transfer out of its queue, before its turn.
    pub(crate) fn dequeue(&mut self, table: &mut Table, row: u32, now: Timestamp) {
        self.unqueue(table, row, now);
        self.requeue(table[row].lane, now);
    }

    fn unqueue(&mut self, table: &mut Table, row: u32, now: Timestamp) {
        let (number, queue, size) = (table[row].lane, table[row].queue, table[row].size);
        self.account(number, now);
        let lane = &mut self.lanes[number as usize];
        let entry = lane.queues.at(queue);
        entry.list.remove(table, row);
        entry.bytes = entry.bytes.saturating_sub(size.0);
        lane.queues.left();
        let link = &mut self.links[lane.link as usize];
        link.counts.queued -= 1;
        link.counts.queued_bytes -= size;
        if lane.queues.is_empty() {
            link.shares -= lane.share;
        }
    }

    /// Takes the next transfer of so many levels that may start out of its queue, and gives it its slots. None if nothing may start.
    pub(crate) fn pick(&mut self, table: &mut Table, levels: usize, now: Timestamp) -> Option<u32> {
        for level in 0..levels {
            while let Some(gate) = self.rotation[level].pop_front() {
                let state = &mut self.gates[gate as usize];
                state.in_rotation &= !(1 << level);
                let Some(first) = state.waiting.first().copied().filter(|_| state.has_room()) else {
                    continue;
                };
                if usize::from(first.level) != level {
                    self.rotate(gate);
                    continue;
                }
                state.waiting.remove(&first);
                self.account(first.lane, now);
                self.lanes[first.lane as usize].place = None;
                self.rotate(gate);
                if let Some(row) = self.try_start(table, first.lane, gate, first.rank, now) {
                    return Some(row);
                }
            }
        }
        None
    }

    /// Tells whether another `pick` may find something.
    pub(crate) fn has_turns(&self) -> bool {
        self.rotation.iter().any(|gates| !gates.is_empty())
    }

    /// It is this lane's turn: starts its first transfer, or sends it to wait where it is held back.
    fn try_start(&mut self, table: &mut Table, number: u32, turn: u32, rank: Rank, now: Timestamp) -> Option<u32> {
        let queue = self.lanes[number as usize].queues.first();
        let queue = queue.expect("a lane waits only while it has transfers");
        let entry = self.lanes[number as usize].queues.at(queue);
        let (level, risen) = (entry.level(), entry.level() < entry.key.level);
        let row = entry.list.head().expect("the first queue holds a transfer");
        if let Some(blocker) = self.blocker(number) {
            let gate = &self.gates[blocker as usize];
            let verdict = Verdict::Wait {
                resource: gate.resource,
                cause: gate.cause,
            };
            self.note(number, table[row].id, verdict, now);
            self.ask_for_more(number, blocker, rank, now);
            self.miss(number, turn, blocker, now);
            return None;
        }
        if self.defer(number, turn, level, now) {
            return None;
        }
        let order = match rank {
            _ if self.lanes[number as usize].reserved.is_some() => Order::Starved,
            _ if table[row].level() == RESUMED => Order::Resumed,
            _ if risen => Order::Aged,
            Rank::Deadline => Order::Deadline,
            Rank::Owed => Order::Target,
            Rank::Share => Order::Share,
        };
        let cost = self.turn_cost(number, queue, table[row].size);
        self.take_slots(number, queue, turn, rank, table[row].size, now);
        self.lanes[number as usize].queues.served(queue, cost, now);
        let link = &self.links[self.lanes[number as usize].link as usize];
        let gate = &self.gates[link.gate as usize];
        let verdict = Verdict::Start {
            active: gate.held,
            allowed: gate.allowed,
            order,
        };
        self.note(number, table[row].id, verdict, now);
        self.flows(number, now);
        self.unqueue(table, row, now);
        self.requeue(number, now);
        Some(row)
    }

    /// A lane is held back at a gate: perhaps more are worth running there.
    fn ask_for_more(&mut self, number: u32, blocker: u32, rank: Rank, now: Timestamp) {
        let own = self.links[self.lanes[number as usize].link as usize].gate;
        let alone = blocker != own && self.is_alone(number, blocker);
        let allows = self.gates[own as usize].worth_running().filter(|_| alone);
        let owed = rank == Rank::Owed && self.all_have_targets(blocker);
        self.gates[blocker as usize].ask_for_more(now, owed, allows);
        self.enter_rotation(blocker, now);
    }

    /// True if all active transfers at a gate are of this lane's link.
    fn is_alone(&self, number: u32, gate: u32) -> bool {
        let (lane, gate) = (&self.lanes[number as usize], &self.gates[gate as usize]);
        self.links[lane.link as usize].counts.active >= u64::from(gate.held - gate.kept)
    }

    /// True if every link through a gate has a target: then none gives way to a lane with a claim.
    fn all_have_targets(&self, gate: u32) -> bool {
        let mut lanes = self.gates[gate as usize].lanes.iter();
        lanes.all(|lane| self.links[self.lanes[*lane as usize].link as usize].target.is_some())
    }

    fn note(&mut self, lane: u32, transfer: weir_world::TransferId, verdict: Verdict, now: Timestamp) {
        let link = self.lanes[lane as usize].link;
        self.links[link as usize].note(Decision {
            at: now,
            transfer,
            verdict,
        });
    }

    /// The first gate on the way of a lane that has no room.
    fn blocker(&self, lane: u32) -> Option<u32> {
        let lane = &self.lanes[lane as usize];
        let destination = lane.reserved.map(|_| lane.destination());
        let gates = lane.passes[1..].iter().map(|pass| pass.gate);
        gates
            .filter(|gate| Some(*gate) != destination)
            .find(|gate| !self.gates[*gate as usize].has_room())
    }

    /// Takes one slot at every gate, and books its cost.
    fn take_slots(&mut self, number: u32, queue: u16, turn: u32, rank: Rank, size: weir_units::Bytes, now: Timestamp) {
        self.account(number, now);
        let reserved = self.cease_to_keep(number);
        let lane = &mut self.lanes[number as usize];
        let link = &mut self.links[lane.link as usize];
        link.counts.active += 1;
        if let Some(target) = &mut link.target {
            target.start(now, size);
        }
        let level = lane.queues.at(queue).level();
        let each = link.each();
        let weight = lane::weight(link.weight) * lane.share / link.shares.max(lane.share);
        lane.active += 1;
        lane.misses = 0;
        lane.deferred = false;
        let destination = lane.destination();
        for pass in &mut lane.passes {
            let gate = &mut self.gates[pass.gate as usize];
            if reserved && pass.gate == destination {
                gate.hold(now, gate.held);
            } else if pass.gate != HALL {
                gate.hold(now, gate.held + 1);
            }
            let start = pass.tags[level].max(gate.times[level]);
            if rank != Rank::Deadline && (pass.gate == turn || gate.waiting.is_empty()) {
                gate.times[level] = start;
            }
            pass.tags[level] = start.saturating_add(gate.cost(size, each, weight));
        }
        for pass in 1..self.lanes[number as usize].passes.len() {
            let gate = self.lanes[number as usize].passes[pass].gate;
            let state = &self.gates[gate as usize];
            if state.pace.is_some() || state.recalls_slots() {
                self.enter_rotation(gate, now);
            }
        }
    }

    /// The cost of a transfer of this queue for its activity, relative to others of the lane.
    fn turn_cost(&mut self, number: u32, queue: u16, size: weir_units::Bytes) -> u64 {
        let lane = &mut self.lanes[number as usize];
        let each = self.links[lane.link as usize].each().unwrap_or(GUESS);
        let activity = lane.queues.at(queue).key.activity;
        let share = lane::weight(self.settings.activity_share(lane.vo, activity));
        gate::nanos(gate::slot_seconds(size, each) / share)
    }

    /// A turn came to nothing. One too many, and the lane keeps its destination's slot.
    fn miss(&mut self, number: u32, turn: u32, blocker: u32, now: Timestamp) {
        let lane = &mut self.lanes[number as usize];
        let destination = lane.destination();
        let own = self.links[lane.link as usize].gate;
        lane.deferred = false;
        if turn != HALL && blocker != own {
            lane.misses += 1;
            if lane.misses >= PATIENCE && blocker != destination {
                self.reserve(number, now);
            }
        }
        self.requeue(number, now);
    }

    /// Gives back the slots of a transfer of this lane, which was taken to move at this rate, if it reported any.
    pub(crate) fn release(&mut self, number: u32, reported: Option<f64>, now: Timestamp) {
        self.account(number, now);
        let lane = &mut self.lanes[number as usize];
        lane.report(reported, None);
        lane.active -= 1;
        self.links[lane.link as usize].counts.active -= 1;
        self.flows(number, now);
        for pass in 1..self.lanes[number as usize].passes.len() {
            let gate = self.lanes[number as usize].passes[pass].gate;
            let state = &mut self.gates[gate as usize];
            state.hold(now, state.held - 1);
            self.enter_rotation(gate, now);
        }
    }
}
