//! The reaper: threads that delete copies, chunk by chunk.

use std::time::Duration;

use weir_units::Timestamp;

use super::super::agenda::Task;
use super::super::state::{Around, CatalogState};
use super::Rucio;
use crate::draw;

/// An RSE with less than a chunk to delete is left alone for this time (`reaper.py`).
const PAUSE: Duration = Duration::from_secs(120);

impl Rucio {
    /// A thread of the reaper: its chunk is gone, and the next one begins.
    pub(super) fn reap(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState, around: &Around<'_>) {
        self.reaped(at, thread, state);
        while let Some(place) = self.reapers[thread as usize].left.pop() {
            let storage = &mut self.storages[place];
            if storage.paused_until > at || storage.n_threads >= self.model.reaper_threads_per_host {
                continue;
            }
            let most = self.model.reaper_chunk as usize;
            let chunk = storage.mark(at, most, self.model.reaper_window, around.deletion_delay);
            let is_full = chunk.len() == most;
            if !is_full {
                storage.paused_until = at + PAUSE;
            }
            let reaper = &mut self.reapers[thread as usize];
            reaper.has_more |= is_full;
            if chunk.is_empty() {
                continue;
            }
            let each = (around.delete_time)(place) + self.model.reap_per_file;
            storage.n_threads += 1;
            let n_files = chunk.len() as u32;
            (reaper.at, reaper.chunk) = (Some(place), chunk);
            return state.agenda.add(at + each * n_files, Task::Reap(thread));
        }
        self.pass(at, thread, state);
    }

    /// The chunk of a thread is deleted.
    fn reaped(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState) {
        let reaper = &mut self.reapers[thread as usize];
        let Some(place) = reaper.at.take() else { return };
        let storage = &mut self.storages[place];
        storage.n_threads -= 1;
        for number in reaper.chunk.drain(..) {
            match storage.copies.remove(&number) {
                Some(copy) => state.books.deleted(at, &copy),
                None => state.books.deletions.repeated(),
            }
        }
    }

    /// A new pass, at once if there is more to do.
    fn pass(&mut self, at: Timestamp, thread: u32, state: &mut CatalogState) {
        let n_storages = self.storages.len();
        let mut order: Vec<usize> = (0..n_storages).collect();
        for place in (1..n_storages).rev() {
            order.swap(place, draw::index(&mut self.random, place + 1));
        }
        let reaper = &mut self.reapers[thread as usize];
        let has_more = std::mem::take(&mut reaper.has_more);
        let next = if has_more {
            at
        } else {
            at.max(reaper.begun + self.model.reaper_sleep)
        };
        (reaper.left, reaper.begun) = (order, next);
        state.agenda.add(next, Task::Reap(thread));
    }
}
