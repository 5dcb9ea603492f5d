//! What runs: the few fields that only running transfers need.

use weir_units::{Bytes, Timestamp};

/// An operation that was ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// The row of its transfer; meaningless in a vacant entry.
    pub(crate) row: u32,
    pub(crate) since: Timestamp,
    pub(crate) moved: Bytes,
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

    /// Notes progress. A marker that was overtaken changes nothing.
    pub(crate) fn moved(&mut self, number: u32, bytes: Bytes) {
        let operation = &mut self.entries[number as usize];
        operation.moved = operation.moved.max(bytes);
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.entries
            .iter()
            .filter(|operation| !operation.vacant)
            .map(|operation| operation.row)
    }
}
