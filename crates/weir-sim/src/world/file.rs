//! Files under way, and their ends.

use weir_sched::Settled;
use weir_units::Timestamp;
use weir_world::{CopyMode, Failure, OpId, TransferId};

use crate::hash::NumberMap;
use crate::row::Row;
use crate::slab::{Key, Slab};

/// One file to be moved, until its transfer has ended durably.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) id: TransferId,
    /// Index of the link of a workload.
    pub(crate) ask: u32,
    /// Index of the core that schedules it.
    pub(crate) core: u32,
    pub(crate) size: u64,
    pub(crate) mode: CopyMode,
    pub(crate) wanted: Timestamp,
    pub(crate) injected: Timestamp,
    /// The attempt that runs.
    pub(crate) attempt: Option<Key>,
    pub(crate) attempts: u32,
    /// The destination has it.
    pub(crate) delivered: bool,
    /// Start and end of the last attempt.
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Timestamp,
    /// Bytes that the last attempt moved.
    pub(crate) moved: u64,
    pub(crate) failure: Option<Box<Failure>>,
    /// Why it was withdrawn, if that counts as a failure.
    pub(crate) late: Option<Box<Failure>>,
}

/// The files on their way, by number.
#[derive(Debug, Default)]
pub(crate) struct Files {
    slab: Slab<File>,
    by_id: NumberMap<TransferId, Key>,
    next: u64,
}

impl Files {
    /// The next number; numbers are never used again.
    pub(crate) fn number(&mut self) -> TransferId {
        self.next += 1;
        TransferId(self.next)
    }

    pub(crate) fn insert(&mut self, file: File) -> Key {
        let id = file.id;
        let key = self.slab.insert(file);
        self.by_id.insert(id, key);
        key
    }

    pub(crate) fn find(&self, id: TransferId) -> Option<Key> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&File> {
        self.slab.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut File> {
        self.slab.get_mut(key)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<File> {
        let file = self.slab.remove(key)?;
        self.by_id.remove(&file.id);
        Some(file)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &File> {
        self.slab.iter().map(|(_, file)| file)
    }
}

impl File {
    /// Checks an order, and describes its error if there is one.
    pub(crate) fn order(op: OpId, core: u32, file: Option<&Self>) -> Option<String> {
        let Some(file) = file else {
            return Some(format!("{op} moves a file that nobody submitted, or that has ended"));
        };
        if file.attempt.is_some() {
            return Some(format!("{op} starts while another attempt runs"));
        }
        if file.delivered {
            return Some(format!("{op} moves a file that was delivered before"));
        }
        (file.core != core).then(|| format!("{op} moves a file of another scheduler"))
    }

    /// Its row, once it has ended.
    pub(crate) fn row(self, state: Settled) -> Row {
        let (state, failure) = match (state, self.late) {
            (Settled::Cancelled, Some(late)) => (Settled::Failed, Some(late)),
            (Settled::Failed, _) => (state, self.failure),
            _ => (state, None),
        };
        Row {
            id: self.id.0,
            ask: self.ask as usize,
            size: self.size,
            mode: self.mode,
            state,
            wanted: self.wanted,
            injected: self.injected,
            started: self.started,
            ended: self.ended,
            moved: self.moved,
            attempts: self.attempts,
            failure,
            rule: None,
            stages: None,
        }
    }
}
