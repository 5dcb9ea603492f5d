//! Transfers that an administrator wants started past limits and turns.
//!
//! They stay in their queues, where everything about them goes on as before (cancel, priority, figures), and are noted here until they
//! start.

use std::sync::Arc;

use weir_world::TransferId;

use super::outbox::Then;
use super::table::State;
use super::{Effect, Scheduler};
use crate::policy::Join;
use crate::{Record, Ticket, Work};

impl Scheduler {
    pub(super) fn force(&mut self, ticket: Ticket, asked: &Arc<[TransferId]>, effects: &mut Vec<Effect>) {
        let mut transfers = Vec::new();
        for transfer in asked.iter() {
            if let Some(row) = self.table.find(*transfer)
                && self.force_one(row)
            {
                transfers.push(*transfer);
            }
        }
        let then = Then::Acknowledge { stop: Vec::new() };
        self.persist(Record::Forced { ticket, transfers }, then, effects);
    }

    /// Has a transfer started out of its turn. False if it does not wait for its copy, or is forced already.
    pub(super) fn force_one(&mut self, row: u32) -> bool {
        let entry = &self.table[row];
        let waits = matches!(entry.state, State::Queued | State::Delayed);
        // In the store, a transfer that was active when the service stopped still is.
        if !waits || entry.work() != Work::Copy || entry.stopping() || self.was_active(row) {
            return false;
        }
        if !self.forced.insert(entry.id) {
            return false;
        }
        if entry.state == State::Delayed {
            let level = entry.level();
            self.dequeue(row);
            self.enqueue(row, level, Join::Front, self.now);
        }
        true
    }

    /// Gives the next forced transfer its slots, out of its turn.
    pub(super) fn next_forced(&mut self) -> Option<u32> {
        while let Some(transfer) = self.forced.next.pop_first() {
            let row = self.table.find(transfer);
            let row = row.expect("a transfer is forced no more before it is forgotten");
            if self.policy.force(&mut self.table, row, self.now) {
                return Some(row);
            }
            self.forced.barred.insert(transfer);
        }
        None
    }
}
