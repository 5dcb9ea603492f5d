//! Commands of clients and operators.

use std::sync::Arc;

use weir_world::{Seq, TransferId};

use super::outbox::Then;
use super::table::{Row, State};
use super::terms::Shared;
use super::{Effect, Scheduler};
use crate::policy::Join;
use crate::policy::list::NIL;
use crate::{Command, Event, JobSpec, Priority, Record, Refusal, Setting, Settled, Ticket, TransferSpec};

impl Scheduler {
    pub(super) fn command(&mut self, command: &Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Submit(spec) => self.submit(spec, effects),
            Command::Begin => self.begin(effects),
            // Their transfers may not be restored yet, and records restored later must not overrule the command.
            _ if !self.begun => self.deferred.push(command.clone()),
            Command::Cancel { ticket, transfers } => self.cancel(*ticket, transfers, effects),
            Command::Force { ticket, transfers } => self.force(*ticket, transfers, effects),
            Command::Set { ticket, changes } => self.set(*ticket, changes, effects),
            Command::SetPriority {
                ticket,
                transfers,
                priority,
            } => {
                self.set_priority(*ticket, transfers, *priority, effects);
            }
        }
    }

    fn begin(&mut self, effects: &mut Vec<Effect>) {
        self.begun = true;
        self.drop_unused();
        for command in std::mem::take(&mut self.deferred) {
            self.command(&command, effects);
        }
    }

    fn submit(&mut self, spec: &Arc<JobSpec>, effects: &mut Vec<Effect>) {
        let spec = self.choose(spec);
        match self
            .room_for(spec.transfers.len() as u64)
            .and_then(|()| self.admit(&spec))
        {
            Ok(()) => self.persist(Record::Submitted(Arc::clone(&spec)), Then::Admit(spec), effects),
            Err(refusal) => effects.push(Effect::Emit(Event::Refused { job: spec.job, refusal })),
        }
    }

    /// Tells whether so many more transfers would be taken now.
    ///
    /// # Errors
    /// [`Refusal::QueueFull`].
    pub fn room_for(&self, transfers: u64) -> Result<(), Refusal> {
        let (queued, limit) = (self.table.len() as u64, self.transfers_max);
        if queued + transfers > limit {
            Err(Refusal::QueueFull { queued, limit })
        } else {
            Ok(())
        }
    }

    /// Takes in all transfers of a job, or none.
    pub(super) fn admit(&mut self, spec: &JobSpec) -> Result<(), Refusal> {
        let mut rows = Vec::with_capacity(spec.transfers.len());
        for transfer in &spec.transfers {
            let Some(row) = self.insert(
                transfer,
                Shared {
                    terms: spec.terms,
                    activity: transfer.activity,
                },
            ) else {
                for row in rows {
                    self.forget(row);
                }
                return Err(Refusal::Duplicate(transfer.id));
            };
            rows.push(row);
        }
        for route in &spec.routes {
            self.join(route, &rows);
        }
        for row in rows {
            if self.table[row].state == State::Loose {
                self.enter(row, Join::Back);
            }
        }
        Ok(())
    }

    /// Undoes a job that the store refused. None of its transfers runs, because their starts wait for later records,
    /// which never become durable. No other record can be refused: the others only change existing rows.
    pub(super) fn refused(&mut self, seq: Seq) {
        let Some(Then::Admit(spec)) = self.outbox.refuse(seq) else {
            return;
        };
        for transfer in &spec.transfers {
            let Some(row) = self.table.find(transfer.id) else {
                self.outbox.unsettle(transfer.id);
                continue;
            };
            match self.table[row].state {
                State::Starting => {
                    self.policy.start_waits(self.table[row].lane, -1, self.now);
                    self.free(row, None);
                }
                State::Running => continue,
                State::Vacant | State::Loose | State::Held | State::Queued | State::Delayed => self.dequeue(row),
            }
            self.forget(row);
        }
    }

    /// Takes in one transfer, which is in no queue yet.
    pub(super) fn insert(&mut self, transfer: &TransferSpec, shared: Shared) -> Option<u32> {
        if self.table.find(transfer.id).is_some() {
            return None;
        }
        let lane = self.policy.lane(transfer.link(), shared.terms.vo, self.now);
        let terms = self.terms.hold(shared);
        let mut row = Row::new(transfer.id, transfer.size, lane, terms);
        row.set_tape(transfer.tape);
        row.set_work(transfer.first_work());
        self.table.insert(row)
    }

    /// Forgets a transfer, which must be in no queue and hold no slot.
    pub(super) fn forget(&mut self, row: u32) {
        self.forced.remove(self.table[row].id);
        self.leave(row);
        self.terms.release(self.table[row].terms);
        self.table.remove(row);
    }

    fn cancel(&mut self, ticket: Ticket, transfers: &[TransferId], effects: &mut Vec<Effect>) {
        let (mut settled, mut stopping, mut leaders) = (Vec::new(), Vec::new(), Vec::new());
        for transfer in transfers {
            let Some(row) = self.table.find(*transfer) else {
                continue;
            };
            if self.table[row].stopping() || self.table[row].state == State::Loose {
                continue;
            }
            // An operation of an earlier life may have left a partial file: it is stopped, not just forgotten.
            if self.holds_slot(row) || self.was_active(row) {
                self.stop_later(row);
                stopping.push(*transfer);
            } else if self.table[row].state == State::Held {
                self.cancel_held(row, &mut settled);
            } else {
                self.dequeue(row);
                self.count_end(row, Settled::Cancelled);
                settled.push(*transfer);
                // The next turn is decided only after all transfers of this command are cancelled.
                if self.table[row].route == NIL {
                    self.forget(row);
                } else {
                    leaders.push(row);
                }
            }
        }
        let mut released = Vec::new();
        for row in leaders {
            let next = self.successor(row, Settled::Cancelled);
            self.hand_over(row, next);
            self.forget(row);
            released.extend(next);
        }
        let news = settled.clone();
        let then = Then::Acknowledge { stop: stopping.clone() };
        self.persist(
            Record::Cancelled {
                ticket,
                settled,
                stopping,
                released,
            },
            then,
            effects,
        );
        for transfer in news {
            self.outbox.also(Then::Settle(transfer, Settled::Cancelled));
        }
    }

    fn holds_slot(&self, row: u32) -> bool {
        matches!(self.table[row].state, State::Starting | State::Running)
    }

    pub(super) fn was_active(&self, row: u32) -> bool {
        self.table[row].level() == crate::policy::RESUMED
    }

    fn set_priority(&mut self, ticket: Ticket, asked: &[TransferId], priority: Priority, effects: &mut Vec<Effect>) {
        let mut transfers = Vec::new();
        for transfer in asked {
            let Some(row) = self.table.find(*transfer) else {
                continue;
            };
            self.change_priority(row, priority);
            transfers.push(*transfer);
        }
        let then = Then::Acknowledge { stop: Vec::new() };
        self.persist(
            Record::PrioritySet {
                ticket,
                transfers,
                priority,
            },
            then,
            effects,
        );
    }

    /// Gives a transfer other terms, and the place in its queue that goes with them.
    pub(super) fn change_priority(&mut self, row: u32, priority: Priority) {
        let mut shared = *self.terms.get(self.table[row].terms);
        if shared.terms.priority == priority {
            return;
        }
        shared.terms.priority = priority;
        let terms = self.terms.hold(shared);
        let former = std::mem::replace(&mut self.table[row].terms, terms);
        self.terms.release(former);
        if self.was_active(row) {
            return;
        }
        let level = self.level(row);
        match self.table[row].state {
            State::Queued => {
                self.dequeue(row);
                self.enqueue(row, level, Join::Back, self.now);
            }
            State::Delayed => self.table[row].set_level(level),
            State::Vacant | State::Loose | State::Held | State::Starting | State::Running => {}
        }
    }

    fn set(&mut self, ticket: Ticket, changes: &Arc<[Setting]>, effects: &mut Vec<Effect>) {
        self.apply(changes);
        let then = Then::Acknowledge { stop: Vec::new() };
        self.persist(
            Record::SettingsChanged {
                ticket,
                changes: Arc::clone(changes),
            },
            then,
            effects,
        );
    }

    pub(super) fn apply(&mut self, changes: &[Setting]) {
        self.policy.set(changes, self.now);
        self.tapes.set(self.policy.settings());
        self.forced.look_again();
    }
}
