//! The judge: cleaner and repairer.

use std::time::Duration;

use weir_rules::retry::REPAIR_AFTER;
use weir_units::Timestamp;

use super::super::agenda::Task;
use super::super::books::FileState;
use super::super::state::{Around, CatalogState, Order};
use super::Rucio;
use crate::draw;
use crate::slab::Key;

/// Rules of one pass of the cleaner (`judge/cleaner.py`).
const RULES: usize = 200;
/// Bounds of the time for which a rule is skipped while another daemon holds its rows.
const PARK: [u64; 2] = [600, 2_400];
/// Rules of one pass of the repairer.
const REPAIRS: usize = 100;

impl Rucio {
    /// A thread of the cleaner: its transaction ends, and the next one begins.
    pub(super) fn clean(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState, around: &Around<'_>) {
        let thread_at = thread as usize;
        if let Some(rule) = self.cleaners[thread_at].rule.take() {
            self.deleted(at, rule, state);
        }
        while self.cleaners[thread_at].pass.0 < RULES {
            let Some(key) = self.cleaners[thread_at].next(at) else {
                break;
            };
            let Some(rule) = state.books.rules.get_mut(key) else {
                continue;
            };
            self.cleaners[thread_at].pass.0 += 1;
            if rule.finishing_until > at {
                let drawn = draw::draw(&mut self.random);
                let pause = PARK[0] + ((PARK[1] - PARK[0]) as f64 * drawn) as u64;
                let until = at + Duration::from_secs(pause);
                self.cleaners[thread_at].parked.entry(until).or_default().push(key);
                continue;
            }
            let model = &self.model;
            let time = rule.files.iter().map(|file| match file.state {
                FileState::Ok => model.clean_per_copy,
                FileState::Submitted(_) => model.clean_per_file + model.service_latency,
                _ => model.clean_per_file,
            });
            let calls = rule
                .files
                .iter()
                .any(|file| matches!(file.state, FileState::Submitted(_)));
            let begin = if calls { around.answers(at) } else { at };
            rule.held_until = begin + time.sum::<Duration>();
            self.cleaners[thread_at].rule = Some(key);
            return state.agenda.add(rule.held_until, Task::Clean(thread));
        }
        let next = at.max(self.cleaners[thread_at].pass.1 + self.model.cleaner_sleep);
        self.cleaners[thread_at].pass = (0, next);
        state.agenda.add(next, Task::Clean(thread));
    }

    /// A rule is gone: its copies may be deleted.
    fn deleted(&mut self, at: Timestamp, key: Key, state: &mut CatalogState) {
        let Some(rule) = state.books.rules.get(key) else { return };
        let destination = state.books.places[rule.ask].2;
        let is_out = |state: FileState| !matches!(state, FileState::Ok | FileState::Stuck);
        let n_out = rule.files.iter().filter(|file| is_out(file.state)).count() as u32;
        self.out[destination] = self.out[destination].saturating_sub(n_out);
        let left = state.books.release(at, key);
        if !left.transfers.is_empty() {
            state.orders.push(Order::Cancel(left.transfers));
        }
        self.storages[destination].take(left.copies);
    }

    /// Requests the files of rules again that have been stuck for long enough.
    pub(super) fn repair(&mut self, at: Timestamp, state: &mut CatalogState) {
        let is_due =
            |rule: &super::super::books::Rule| rule.stuck_since.is_some_and(|since| since + REPAIR_AFTER <= at);
        let due = state
            .books
            .rules
            .iter()
            .filter(|(_, rule)| is_due(rule))
            .map(|(key, _)| key);
        let due: Vec<Key> = due.take(REPAIRS).collect();
        for rule in due {
            self.queued.extend(state.books.repair(rule));
        }
        state.agenda.add(at + self.model.repairer_sleep, Task::Repair);
    }
}
