//! The conveyor: throttler, submitter, poller, finisher.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_sched::Settled;
use weir_units::Timestamp;

use super::super::agenda::Task;
use super::super::books::{FileKey, FileState};
use super::super::state::{Around, CatalogState, Order};
use super::Rucio;
use crate::slab::Key;

/// Requests are let out while less than this share of the limit is out, in per cent (`conveyor/throttler.py`).
const THROTTLE_BELOW: u64 = 80;
/// Files of one transaction of the finisher (`--bulk`).
const FINISH_BULK: usize = 100;
/// Jobs that the poller asks for in one call (`--fts-bulk`).
const POLL_JOBS: u32 = 100;
/// A poller that asks for nothing asks again after this time at the soonest.
const MOMENT: Duration = Duration::from_millis(100);
/// Requests for a file, in all.
const ATTEMPTS: u32 = 4;

impl Rucio {
    /// The requests of a rule are there.
    pub(super) fn made(&mut self, at: Timestamp, key: Key, state: &mut CatalogState) {
        let Some(rule) = state.books.rules.get_mut(key) else {
            return;
        };
        rule.answered = Some(at);
        rule.files.iter_mut().for_each(|file| file.requested = at);
        let (ends, number, destination) = (rule.ends(), rule.number, state.books.places[rule.ask].2);
        let n_cleaners = self.cleaners.len() as u64;
        self.cleaners[(number % n_cleaners) as usize].take(ends, key);
        let keys = state.books.keys(key);
        if self.model.throttler_max.is_some() {
            self.held[destination].extend(keys);
        } else {
            self.queued.extend(keys);
        }
    }

    /// Lets requests out into destinations that have few.
    pub(super) fn throttle(&mut self, at: Timestamp, state: &mut CatalogState) {
        let most = self.model.throttler_max.unwrap_or(u32::MAX);
        for (held, out) in self.held.iter_mut().zip(&mut self.out) {
            if u64::from(*out) * 100 >= u64::from(most) * THROTTLE_BELOW {
                continue;
            }
            while *out < most
                && let Some(key) = held.pop_front()
            {
                if state.books.file(key).is_some() {
                    *out += 1;
                    self.queued.push_back(key);
                }
            }
        }
        state.agenda.add(at + self.model.throttler_interval, Task::Throttle);
    }

    /// A request is no longer out.
    fn back(&mut self, key: FileKey, state: &CatalogState) {
        if self.model.throttler_max.is_some()
            && let Some(rule) = state.books.rules.get(key.rule)
        {
            let out = &mut self.out[state.books.places[rule.ask].2];
            *out = out.saturating_sub(1);
        }
    }

    /// A thread of the submitter: its job is submitted, and the next one begins.
    pub(super) fn submit(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState, around: &Around<'_>) {
        let job = std::mem::take(&mut self.submitters[thread as usize].job);
        self.hand_over(at, &job, state);
        if self.submitters[thread as usize].jobs.is_empty() {
            if std::mem::take(&mut self.submitters[thread as usize].found_little) {
                return state.agenda.add(at + self.model.submitter_sleep, Task::Submit(thread));
            }
            self.fetch(at, thread, state);
        }
        let submitter = &mut self.submitters[thread as usize];
        let Some((rule, _)) = submitter.jobs.front() else {
            submitter.found_little = false;
            return state.agenda.add(at + self.model.submitter_sleep, Task::Submit(thread));
        };
        // The transaction waits for the holder of the rule's rows.
        let free = state.books.rules.get(*rule).map_or(at, |rule| rule.free_at(at));
        if free > at {
            return state.agenda.add(free, Task::Submit(thread));
        }
        let files = submitter.jobs.pop_front().map(|(_, files)| files).unwrap_or_default();
        let is_there = |key: &FileKey| state.books.file(*key).is_some();
        submitter.job = files.into_iter().filter(is_there).collect();
        let marked = at + self.model.submit_per_file * submitter.job.len().max(1) as u32;
        let done = if submitter.job.is_empty() {
            marked
        } else {
            // Calls have no time limit (`submit_timeout`): a call to an absent service waits until it is back.
            around.answers(marked) + self.model.service_latency
        };
        state.agenda.add(done, Task::Submit(thread));
    }

    /// The transfer service has taken a job.
    fn hand_over(&mut self, at: Timestamp, job: &[FileKey], state: &mut CatalogState) {
        let files: Vec<FileKey> = job
            .iter()
            .copied()
            .filter(|key| state.books.file(*key).is_some())
            .collect();
        let Some(first) = files.first() else { return };
        let ask = state.books.rules.get(first.rule).map_or(0, |rule| rule.ask);
        let wants = files
            .iter()
            .filter_map(|key| state.books.file(*key))
            .map(|file| file.want);
        let wants = wants.collect();
        self.submitted.extend(files.iter().map(|key| (at, *key)));
        state.orders.push(Order::Submit { ask, files, wants });
    }

    /// A thread of the submitter takes the oldest requests, and groups them by rule.
    fn fetch(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState) {
        let bulk = self.model.submitter_bulk as usize;
        let mut groups: BTreeMap<Key, Vec<FileKey>> = BTreeMap::new();
        let mut taken = 0;
        while taken < bulk {
            let Some(key) = self.queued.pop_front() else { break };
            let Some(rule) = state.books.rules.get_mut(key.rule) else {
                continue;
            };
            // The cleaner will delete it.
            let is_passed_over = self.model.skips_expired && rule.life.is_over(at);
            let file = &mut rule.files[key.at as usize];
            if file.state != FileState::Queued || is_passed_over {
                continue;
            }
            file.state = FileState::Submitting;
            groups.entry(key.rule).or_default().push(key);
            taken += 1;
        }
        let submitter = &mut self.submitters[thread as usize];
        submitter.found_little = taken < bulk;
        for (rule, keys) in groups {
            let jobs = keys.chunks(self.model.group_bulk as usize);
            submitter.jobs.extend(jobs.map(|files| (rule, files.to_vec())));
        }
    }

    /// A thread of the poller records its results, and polls again.
    pub(super) fn poll(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState, around: &Around<'_>) {
        let mut found = std::mem::take(&mut self.pollers[thread as usize].found);
        for key in found.drain(..) {
            self.ended_as_known(key, state);
        }
        if self.pollers[thread as usize].next > at {
            let next = self.pollers[thread as usize].next;
            return state.agenda.add(next, Task::Poll(thread));
        }
        let bulk = self.model.poller_bulk as usize;
        // Calls have no time limit.
        let (mut n_asked, mut done) = (0_usize, around.answers(at));
        while n_asked < bulk {
            let is_due = |(asked, _): &(Timestamp, FileKey)| *asked + self.model.poller_older_than <= at;
            let Some((_, key)) = self.submitted.front().copied().filter(is_due) else {
                break;
            };
            self.submitted.pop_front();
            let Some(rule) = state.books.rules.get(key.rule) else {
                continue;
            };
            n_asked += 1;
            match rule.files[key.at as usize].state {
                FileState::Ended => {
                    // Each ended request is a statement, which waits for the holder of the rule's rows.
                    done = rule.free_at(done) + self.model.poll_per_file;
                    found.push(key);
                }
                FileState::Submitting | FileState::Submitted(_) => self.submitted.push_back((at, key)),
                FileState::Queued | FileState::Ok | FileState::Stuck => {}
            }
        }
        let n_calls = (n_asked as u32).div_ceil(self.model.group_bulk * POLL_JOBS);
        done += self.model.service_latency * n_calls;
        let poller = &mut self.pollers[thread as usize];
        poller.found = found;
        poller.next = if n_asked < bulk / 2 {
            at + self.model.poller_sleep
        } else {
            done
        };
        state.agenda.add(done.max(at + MOMENT), Task::Poll(thread));
    }

    /// The catalogue knows that a request has ended.
    fn ended_as_known(&mut self, key: FileKey, state: &CatalogState) {
        let Some(rule) = state.books.rules.get(key.rule) else {
            return;
        };
        let n_finishers = self.finishers.len() as u64;
        self.finishers[(rule.number % n_finishers) as usize]
            .waiting
            .push_back(key);
    }

    /// A thread of the finisher: its transaction ends, and the next one begins.
    pub(super) fn finish(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState) {
        let chunk = std::mem::take(&mut self.finishers[thread as usize].chunk);
        for key in chunk {
            self.finished(at, key, state);
        }
        let finisher = &mut self.finishers[thread as usize];
        let n_chunk = finisher.waiting.len().min(FINISH_BULK);
        finisher.chunk = finisher.waiting.drain(..n_chunk).collect();
        finisher.chunk.retain(|key| state.books.file(*key).is_some());
        if finisher.chunk.is_empty() {
            return state.agenda.add(at + self.model.finisher_sleep, Task::Finish(thread));
        }
        let held = finisher.chunk.iter().filter_map(|key| state.books.rules.get(key.rule));
        let begin = held.map(|rule| rule.free_at(at)).max().unwrap_or(at);
        let done = begin + self.model.finish_per_file * finisher.chunk.len() as u32;
        for key in &finisher.chunk {
            if let Some(rule) = state.books.rules.get_mut(key.rule) {
                rule.finishing_until = rule.finishing_until.max(done);
            }
        }
        state.agenda.add(done, Task::Finish(thread));
    }

    fn finished(&mut self, at: Timestamp, key: FileKey, state: &mut CatalogState) {
        self.back(key, state);
        let Some(file) = state.books.file_mut(key) else { return };
        let has_come = |row: &crate::row::Row| row.state == Settled::Finished;
        if file.state == FileState::Ended && file.last.as_deref().is_some_and(has_come) {
            let Some(rule) = state.books.lock_ok(at, key) else {
                return;
            };
            let number = state.books.rules.get(rule).map_or(0, |rule| rule.number);
            let n_cleaners = self.cleaners.len() as u64;
            return self.cleaners[(number % n_cleaners) as usize].take(at, rule);
        }
        file.n_failures += 1;
        if file.n_failures >= ATTEMPTS {
            return state.books.stuck(at, key);
        }
        state.books.queue_again(key);
        let rule = state.books.rules.get(key.rule);
        let destination = rule.map_or(0, |rule| state.books.places[rule.ask].2);
        if self.model.throttler_max.is_some() {
            self.held[destination].push_back(key);
        } else {
            self.queued.push_back(key);
        }
    }
}
