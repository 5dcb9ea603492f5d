//! The world brings its book of waits up to date.

use std::time::Duration;

use weir_sched::Settled;
use weir_units::Timestamp;

use super::attempt_state::Attempt;
use super::book::{WaitBook, span};
use super::{Row, World};
use crate::slab::Key;

impl World {
    /// Measures in bins of this width from now on, which must be the start.
    pub(super) fn set_bin(&mut self, width: Duration) {
        self.book = WaitBook::new(&self.scene, width);
        self.note_places();
    }

    /// Tells the book what each resource of the network is.
    pub(super) fn note_places(&mut self) {
        for (place, resource) in self.wires.places() {
            self.book.wire(resource, place);
        }
        for (at, doors) in self.doors.iter().enumerate() {
            for (resource, part) in doors.resources() {
                self.book.storage(&self.scene, resource, at, part);
            }
        }
    }

    /// Brings the account of all lasting states up to now.
    pub(super) fn account(&mut self) {
        let span = span(self.book.until, self.now);
        for held in self.network.take_held(self.now) {
            self.book.flows(&self.scene, held, span);
        }
        let lasts = |attempt: &Attempt| attempt.flow.is_some() || attempt.step.is_some();
        let lasting = self.attempts.iter().filter(|(_, attempt)| lasts(attempt));
        let lasting: Vec<Key> = lasting.map(|(key, _)| key).collect();
        for key in lasting {
            self.account_moved(key, self.now);
            self.account_step(key, self.now);
        }
        for link in 0..self.scene.links.len() {
            self.book.in_catalogue(link, 0, self.now);
        }
        self.account_queue(span);
        self.book.until = self.now;
    }

    /// Bytes that an attempt has moved since the last call.
    pub(super) fn account_moved(&mut self, key: Key, to: Timestamp) {
        let moved = self.moved(key).0;
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        let fresh = moved.saturating_sub(attempt.accounted);
        attempt.accounted = moved;
        let from = attempt.flows_since.max(self.book.until);
        if fresh > 0 && attempt.is_rated {
            self.book.moved(attempt.link as usize, fresh, (from, to));
        }
    }

    /// The time that an attempt has waited in its current step since the last call.
    pub(super) fn account_step(&mut self, key: Key, to: Timestamp) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        let from = std::mem::replace(&mut attempt.step_since, to);
        if let Some(step) = attempt.step {
            self.book.step(attempt.link as usize, step, (from, to));
        }
    }

    /// Accounts for a file of a rule, of which the catalogue has said how it ended.
    pub(super) fn account_ruled(&mut self, row: &Row) {
        let link = self.scene.asks[row.ask].link;
        self.book.in_catalogue(link, -1, self.now);
        if row.state != Settled::Finished {
            self.book.lost(link, row.size, self.now);
        }
    }

    fn account_queue(&mut self, span: (Duration, Duration)) {
        let mut any_known = false;
        for core in 0..self.cores.len() {
            let Some(waits) = self.cores[core].core.waits(self.now) else {
                continue;
            };
            any_known = true;
            for waits in waits {
                let ends = (waits.link.source.0 as usize, waits.link.destination.0 as usize);
                if let Some(link) = self.link_numbers.get(&ends) {
                    self.book.queue(*link, &self.scene, &waits, span);
                }
            }
        }
        if any_known {
            return;
        }
        // A scheduler that keeps no account: its files wait for slots, wherever those are.
        let mut waiting = vec![0_u32; self.scene.links.len()];
        for file in self.files.iter().filter(|file| file.attempt.is_none()) {
            waiting[self.scene.asks[file.ask as usize].link] += 1;
        }
        for (link, files) in waiting.into_iter().enumerate().filter(|(_, files)| *files > 0) {
            self.book.slots(link, files, span);
        }
    }
}
