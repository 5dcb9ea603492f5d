//! Running operations: the few fields that only running transfers need.

use std::time::Duration;

use weir_units::{Bytes, Timestamp};

/// An operation that was ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// The row of its transfer; meaningless in a vacant entry.
    pub(crate) row: u32,
    pub(crate) since: Timestamp,
    pub(crate) moved: Bytes,
    /// The time of the last progress report.
    marked: Timestamp,
    /// The last reported throughput, in bytes per second.
    pub(crate) rate: Option<f64>,
    /// It has reported at least once.
    pub(crate) reported: bool,
    vacant: bool,
}

/// Operations by number.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    entries: Vec<Operation>,
    vacant: Vec<u32>,
}

impl Operations {
    pub(crate) fn insert(&mut self, row: u32, since: Timestamp) -> u32 {
        let operation = Operation {
            row,
            since,
            moved: Bytes(0),
            marked: since,
            rate: None,
            reported: false,
            vacant: false,
        };
        if let Some(number) = self.vacant.pop() {
            self.entries[number as usize] = operation;
            return number;
        }
        self.entries.push(operation);
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.entries[number as usize].vacant = true;
        self.vacant.push(number);
    }

    pub(crate) fn get(&self, number: u32) -> &Operation {
        &self.entries[number as usize]
    }

    /// Records progress: returns the bytes since the last report and the seconds that they took; `None` if too little
    /// time has passed to compute a rate. A report that arrives out of order changes nothing.
    pub(crate) fn mark(&mut self, number: u32, moved: Bytes, now: Timestamp, least: Duration) -> Option<(Bytes, f64)> {
        let operation = &mut self.entries[number as usize];
        let seconds = now.since(operation.marked);
        if seconds < least || moved < operation.moved {
            return None;
        }
        let news = moved - operation.moved;
        (operation.moved, operation.marked) = (moved, now);
        Some((news, seconds.as_secs_f64()))
    }

    /// Notes the rate that follows from its reports, if one does.
    pub(crate) fn report(&mut self, number: u32, rate: Option<f64>) {
        let operation = &mut self.entries[number as usize];
        operation.reported = true;
        operation.rate = rate;
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.entries
            .iter()
            .filter(|operation| !operation.vacant)
            .map(|operation| operation.row)
    }
}
