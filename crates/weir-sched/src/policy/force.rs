//! Starts past all limits.

use weir_units::Timestamp;

use super::gate::Rank;
use super::{HALL, Policy};
use crate::core::table::Table;
use crate::{Order, Verdict};

impl Policy {
    /// Takes a queued transfer out of its queue, whatever its turn, and gives it slots, whether or not there is room;
    /// later starts wait until the excess has ended. False if an operator has closed a gate on its way.
    pub(crate) fn force(&mut self, table: &mut Table, row: u32, now: Timestamp) -> bool {
        let (number, queue, size) = (table[row].lane, table[row].queue, table[row].size);
        let passes = &self.lanes[number as usize].passes[1..];
        if passes.iter().any(|pass| self.gates[pass.gate as usize].is_closed()) {
            return false;
        }
        // It lines up again where it belongs afterwards.
        self.move_to(number, None, now);
        let cost = self.turn_cost(number, queue, size);
        // Like a start by deadline, it is charged, and changes no other queue's turn.
        self.take_slots(number, queue, HALL, Rank::Deadline, size, now);
        self.lanes[number as usize].queues.charged(queue, cost);
        let gate = &self.gates[self.links[self.lanes[number as usize].link as usize].gate as usize];
        let verdict = Verdict::Start {
            active: gate.held,
            allowed: gate.allowed,
            order: Order::Force,
        };
        self.note(number, table[row].id, verdict, now);
        self.flows(number, now);
        self.unqueue(table, row, now);
        self.requeue(number, now);
        true
    }
}
