//! Threads of the daemons, and what each works on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_units::Timestamp;

use super::super::books::Copy;
use super::super::books::FileKey;
use crate::hash::NumberMap;
use crate::slab::Key;

/// A thread of the submitter.
#[derive(Debug, Default)]
pub(super) struct Submitter {
    /// Jobs that it has put together.
    pub(super) jobs: VecDeque<(Key, Vec<FileKey>)>,
    /// The job that it submits now.
    pub(super) job: Vec<FileKey>,
    /// Whether it found fewer requests than it takes.
    pub(super) found_little: bool,
}

/// A thread of the poller.
#[derive(Debug, Default)]
pub(super) struct Poller {
    /// Requests that it found to have ended, and writes down.
    pub(super) found: Vec<FileKey>,
    /// When it asks again.
    pub(super) next: Timestamp,
}

/// A thread of the finisher.
#[derive(Debug, Default)]
pub(super) struct Finisher {
    /// Requests that have ended.
    pub(super) waiting: VecDeque<FileKey>,
    /// The files of its transaction.
    pub(super) chunk: Vec<FileKey>,
}

/// A thread of the cleaner.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Rules by their end.
    ends: Ends,
    /// Rules that are left alone, by the time until when.
    pub(super) parked: BTreeMap<Timestamp, Vec<Key>>,
    /// The rule that it deletes.
    pub(super) rule: Option<Key>,
    /// Rules of this pass so far, and its begin.
    pub(super) pass: (usize, Timestamp),
}

impl Cleaner {
    /// Takes charge of a rule.
    pub(super) fn take(&mut self, ends: Timestamp, rule: Key) {
        self.ends.entry(ends).or_default().push(rule);
    }

    /// The rule that ended first, including skipped ones whose time is over.
    pub(super) fn next(&mut self, at: Timestamp) -> Option<Key> {
        while let Some(entry) = self.parked.first_entry().filter(|entry| *entry.key() <= at) {
            let rules = entry.remove();
            self.ends.entry(Timestamp(0)).or_default().extend(rules);
        }
        let mut entry = self.ends.first_entry().filter(|entry| *entry.key() <= at)?;
        let rule = entry.get_mut().pop();
        if entry.get().is_empty() {
            entry.remove();
        }
        rule
    }
}

/// Rules that have ended, by their end.
pub(super) type Ends = BTreeMap<Timestamp, Vec<Key>>;

/// The copies at a storage element whose rules are gone.
#[derive(Debug, Default)]
pub(super) struct UnwantedCopies {
    /// Existing copies, by number.
    pub(super) copies: NumberMap<u64, Copy>,
    n_copies: u64,
    /// Copies that no thread has taken.
    free: VecDeque<u64>,
    /// Chunks that threads have taken, and when.
    taken: VecDeque<(Timestamp, Vec<u64>)>,
    /// Threads that work here.
    pub(super) n_threads: u32,
    pub(super) paused_until: Timestamp,
}

impl UnwantedCopies {
    pub(super) fn take(&mut self, copies: Vec<Copy>) {
        for copy in copies {
            self.n_copies += 1;
            self.copies.insert(self.n_copies, copy);
            self.free.push_back(self.n_copies);
        }
    }

    /// Marks a chunk: first copies that another thread took so long ago that they count as lost.
    pub(super) fn mark(&mut self, at: Timestamp, most: usize, window: Duration, delay: Duration) -> Vec<u64> {
        let mut chunk = Vec::new();
        while chunk.len() < most
            && let Some((_, numbers)) = self.taken.front_mut().filter(|(since, _)| *since + window <= at)
        {
            let is_there = |number: &u64| self.copies.contains_key(number);
            numbers.retain(is_there);
            let n_more = numbers.len().min(most - chunk.len());
            chunk.extend(numbers.drain(..n_more));
            if numbers.is_empty() {
                self.taken.pop_front();
            }
        }
        let may_go = |number: &&u64| self.copies.get(*number).is_none_or(|copy| copy.due + delay <= at);
        let n_more = self.free.iter().take(most - chunk.len()).take_while(may_go).count();
        chunk.extend(self.free.drain(..n_more));
        if !chunk.is_empty() {
            self.taken.push_back((at, chunk.clone()));
        }
        chunk
    }
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    /// Storage elements that are left in this pass.
    pub(super) left: Vec<usize>,
    /// The storage element where it works, and its chunk.
    pub(super) at: Option<usize>,
    pub(super) chunk: Vec<u64>,
    pub(super) begun: Timestamp,
    /// Whether there is more to do where it has been.
    pub(super) has_more: bool,
}
