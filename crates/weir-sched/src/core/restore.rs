//! Restoring the state of an earlier life.
//!
//! Transfers that were active then are resumed: they go to the front of their queue, above all priorities, and their
//! next attempt looks at the destination before it copies. They keep their attempt number, so that numbers never
//! repeat.

use weir_units::Timestamp;
use weir_world::TransferId;

use super::Scheduler;
use super::terms::Shared;
use crate::policy::list::NIL;
use crate::policy::{Join, RESUMED};
use crate::{Live, LiveState, Record, Settled};

impl Scheduler {
    /// Takes back a record. Repetitions, and records of transfers that are not known, change nothing.
    pub(super) fn restore(&mut self, record: &Record) {
        match record {
            Record::Submitted(spec) => drop(self.admit(spec)),
            Record::Started { op, .. } => {
                self.restored(op.transfer, |core, row| core.resume(row, op.attempt));
            }
            Record::Ended { op, next, released, .. } => self.restored(op.transfer, |core, row| {
                core.dequeue(row);
                core.follow(row, *next, *released);
            }),
            Record::Cancelled {
                settled,
                stopping,
                released,
                ..
            } => {
                for transfer in settled {
                    self.restored(*transfer, |core, row| {
                        core.dequeue(row);
                        core.count_end(row, Settled::Cancelled);
                        core.forget(row);
                    });
                }
                for transfer in stopping {
                    self.restored(*transfer, Self::stop_later);
                }
                for transfer in released {
                    self.restored(*transfer, Self::release);
                }
            }
            Record::PrioritySet {
                transfers, priority, ..
            } => {
                for transfer in transfers {
                    self.restored(*transfer, |core, row| core.change_priority(row, *priority));
                }
            }
            Record::Forced { transfers, .. } => {
                for transfer in transfers {
                    self.restored(*transfer, |core, row| {
                        core.force_one(row);
                    });
                }
            }
            Record::SettingsChanged { changes, .. } => self.apply(changes),
            Record::Learned(learned) => self.policy.recall(learned, self.now),
            Record::Live(live) => self.restore_live(live),
        }
    }

    fn restored(&mut self, transfer: TransferId, change: impl FnOnce(&mut Self, u32)) {
        if let Some(row) = self.table.find(transfer) {
            change(self, row);
        }
    }

    fn restore_live(&mut self, live: &Live) {
        let shared = Shared {
            terms: live.terms,
            activity: live.transfer.activity,
        };
        let Some(row) = self.insert(&live.transfer, shared) else {
            return;
        };
        let entry = &mut self.table[row];
        entry.attempt = live.attempt;
        entry.failures = live.failures;
        entry.free_retries = live.free_retries;
        entry.set_resume(live.resume);
        entry.set_work(live.work);
        if let Some((kind, first)) = live.route {
            self.rejoin(row, kind, first, live.state == LiveState::Held);
        }
        let not_before = live.not_before.min(self.now + self.retry.longest(&live.terms));
        let entry = &mut self.table[row];
        match live.state {
            LiveState::Held if entry.route == NIL => self.enter(row, Join::Back),
            LiveState::Held => {}
            LiveState::Queued => self.enqueue(row, self.level(row), Join::Back, not_before),
            LiveState::Forced => {
                self.enter(row, Join::Back);
                self.force_one(row);
            }
            LiveState::Active => self.resume(row, live.attempt),
            LiveState::Stopping => {
                entry.set_stopping();
                // A transfer that waited for its clean-up held no slot, and gets none now.
                if live.not_before > Timestamp(0) {
                    entry.set_resume(true);
                    self.enqueue(row, self.level(row), Join::Back, not_before);
                } else {
                    self.resume(row, live.attempt);
                }
            }
        }
    }

    /// Queues a transfer that was active.
    fn resume(&mut self, row: u32, attempt: u32) {
        self.dequeue(row);
        self.forced.remove(self.table[row].id);
        let entry = &mut self.table[row];
        entry.attempt = attempt;
        entry.set_resume(true);
        self.enqueue(row, RESUMED, Join::Back, Timestamp(0));
    }
}
