//! The transfers that have not ended: 48 bytes each, and 4 more to find them by id.

use weir_units::{Bytes, Timestamp};
use weir_world::TransferId;

use super::ids::Ids;
use crate::policy::list::{NIL, Nodes};
use crate::{Staging, Tape, Work};

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The row is free.
    Vacant,
    /// In none of the places below: it is just coming in, or on its way from one to another.
    Loose,
    /// In the list of its route: it is not its turn.
    Held,
    /// In its link's queue.
    Queued,
    /// Waiting for its next attempt.
    Delayed,
    /// Holds a slot; the record of its start is on its way to the store.
    Starting,
    /// Holds a slot; its operation was ordered.
    Running,
}

/// The hot fields of one transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: TransferId,
    pub(crate) size: Bytes,
    pub(crate) lane: u32,
    pub(crate) terms: u32,
    /// Attempts so far.
    pub(crate) attempt: u32,
    /// The route it belongs to; [`NIL`] for an independent file.
    pub(crate) route: u32,
    /// Two words whose meaning depends on the state. They are neighbours in the queue or among the held, the due time of a
    /// delayed transfer, the index of a running one in the table of operations.
    words: [u32; 2],
    /// The queue of its lane that it is in.
    pub(crate) queue: u16,
    pub(crate) failures: u8,
    /// Failed clean-ups of a cancelled transfer, in this life.
    pub(crate) free_retries: u8,
    pub(crate) state: State,
    flags: u8,
    /// Its tape operations, and the current one.
    tape: u8,
}

const RESUME: u8 = 1;
const STOPPING: u8 = 2;
const CLEANUP: u8 = 4;
const ISSUER: u8 = 8;
/// Encoding of the tape byte: two bits each for the work and the staging, one for the archive.
const WORK: [Work; 3] = [Work::Copy, Work::Stage, Work::Archive];
const STAGING: [Staging; 3] = [Staging::No, Staging::First, Staging::Only];
const STAGING_SHIFT: u8 = 2;
const ARCHIVE: u8 = 16;
/// The level of the queue takes the upper bits.
const LEVEL_SHIFT: u8 = 4;
const LEVEL: u8 = 7 << LEVEL_SHIFT;
const APART: u8 = 128;

impl Row {
    pub(crate) fn new(id: TransferId, size: Bytes, lane: u32, terms: u32) -> Self {
        Self {
            id,
            size,
            lane,
            queue: 0,
            terms,
            attempt: 0,
            route: NIL,
            words: [NIL; 2],
            failures: 0,
            free_retries: 0,
            state: State::Loose,
            flags: 0,
            tape: 0,
        }
    }

    /// An earlier attempt may have left something at the destination.
    pub(crate) fn resume(&self) -> bool {
        self.flags & RESUME != 0
    }

    pub(crate) fn set_resume(&mut self, resume: bool) {
        self.flags = self.flags & !RESUME | if resume { RESUME } else { 0 };
    }

    /// It was cancelled, but an operation of it may be running.
    pub(crate) fn stopping(&self) -> bool {
        self.flags & STOPPING != 0
    }

    pub(crate) fn set_stopping(&mut self) {
        self.flags |= STOPPING;
    }

    /// Its operation is a clean-up already, which is not stopped.
    pub(crate) fn cleaning(&self) -> bool {
        self.flags & CLEANUP != 0
    }

    pub(crate) fn set_cleaning(&mut self) {
        self.flags |= CLEANUP;
    }

    /// It asks for no slot of its link: it has to do with tape, or cleans up.
    pub(crate) fn is_apart(&self) -> bool {
        self.work() != Work::Copy || self.flags & APART != 0
    }

    /// It is queued now: to clean up, if it was cancelled while an operation of it may have been running.
    pub(crate) fn settle_apart(&mut self) {
        let apart = self.work() == Work::Copy && self.stopping();
        self.flags = self.flags & !APART | if apart { APART } else { 0 };
    }

    /// Its last operation had no answer from the issuer of its tokens.
    pub(crate) fn awaits_issuer(&self) -> bool {
        self.flags & ISSUER != 0
    }

    pub(crate) fn set_awaits_issuer(&mut self, awaits: bool) {
        self.flags = self.flags & !ISSUER | if awaits { ISSUER } else { 0 };
    }

    /// The operation that it waits for or runs.
    pub(crate) fn work(&self) -> Work {
        WORK[usize::from(self.tape & 3)]
    }

    pub(crate) fn set_work(&mut self, work: Work) {
        self.tape = self.tape & !3 | work as u8;
    }

    /// Its tape operations.
    pub(crate) fn tape(&self) -> Tape {
        Tape {
            stage: STAGING[usize::from(self.tape >> STAGING_SHIFT & 3)],
            archive: self.tape & ARCHIVE != 0,
        }
    }

    pub(crate) fn set_tape(&mut self, tape: Tape) {
        let archive = if tape.archive { ARCHIVE } else { 0 };
        self.tape = self.tape & 3 | (tape.stage as u8) << STAGING_SHIFT | archive;
    }

    /// The level of the queue it is in.
    pub(crate) fn level(&self) -> usize {
        usize::from((self.flags & LEVEL) >> LEVEL_SHIFT)
    }

    pub(crate) fn set_level(&mut self, level: usize) {
        self.flags = self.flags & !LEVEL | (level as u8) << LEVEL_SHIFT;
    }

    /// When a delayed one may be queued again.
    pub(crate) fn due(&self) -> Timestamp {
        Timestamp(u64::from(self.words[0]) << 32 | u64::from(self.words[1]))
    }

    pub(crate) fn set_due(&mut self, due: Timestamp) {
        self.words = [(due.0 >> 32) as u32, due.0 as u32];
    }

    /// The entry of a running one in the table of operations.
    pub(crate) fn operation(&self) -> u32 {
        self.words[0]
    }

    pub(crate) fn set_operation(&mut self, operation: u32) {
        self.words[0] = operation;
    }
}

/// Rows by number, and numbers by transfer id. Rows are never iterated: their order would depend on history.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    vacant: Vec<u32>,
    by_id: Ids,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn find(&self, id: TransferId) -> Option<u32> {
        self.by_id.get(id)
    }

    /// Takes in a transfer, or says that one of this id is there.
    pub(crate) fn insert(&mut self, row: Row) -> Option<u32> {
        if self.find(row.id).is_some() {
            return None;
        }
        let number = if let Some(number) = self.vacant.pop() {
            self.rows[number as usize] = row;
            number
        } else {
            self.rows.push(row);
            (self.rows.len() - 1) as u32
        };
        self.by_id.insert(row.id, number);
        Some(number)
    }

    /// The one behind this one in the list that both are in.
    pub(crate) fn behind(&self, number: u32) -> Option<u32> {
        let next = self.rows[number as usize].words[1];
        (next != NIL).then_some(next)
    }

    /// Forgets a transfer. It must be in no queue.
    pub(crate) fn remove(&mut self, number: u32) {
        self.by_id.remove(self.rows[number as usize].id);
        self.rows[number as usize].state = State::Vacant;
        self.vacant.push(number);
    }
}

impl std::ops::Index<u32> for Table {
    type Output = Row;
    fn index(&self, number: u32) -> &Row {
        &self.rows[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Table {
    fn index_mut(&mut self, number: u32) -> &mut Row {
        &mut self.rows[number as usize]
    }
}

impl Nodes for Table {
    fn previous(&mut self, node: u32) -> &mut u32 {
        &mut self.rows[node as usize].words[0]
    }

    fn next(&mut self, node: u32) -> &mut u32 {
        &mut self.rows[node as usize].words[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stays_small() {
        // 30 million queued transfers at 64 bytes are 2 GB: every queue pays for a larger row.
        assert_eq!(size_of::<Row>(), 48);
    }

    #[test]
    fn flags_and_levels_do_not_touch_each_other() {
        let mut row = Row::new(TransferId(1), Bytes(0), 0, 0);
        row.set_resume(true);
        row.set_stopping();
        for level in 0..7 {
            row.set_level(level);
            assert_eq!((row.level(), row.resume(), row.stopping()), (level, true, true));
            row.settle_apart();
            assert_eq!((row.level(), row.is_apart()), (level, true));
        }
        row.set_resume(false);
        assert_eq!((row.level(), row.resume(), row.stopping()), (6, false, true));
        row.set_due(Timestamp(0x0123_4567_89AB_CDEF));
        assert_eq!(row.due(), Timestamp(0x0123_4567_89AB_CDEF));
    }

    #[test]
    fn requests_to_tape_and_their_state_share_a_byte() {
        let mut row = Row::new(TransferId(1), Bytes(0), 0, 0);
        for (work, stage, archive) in [
            (Work::Copy, Staging::No, true),
            (Work::Stage, Staging::Only, false),
            (Work::Archive, Staging::First, true),
            (Work::Copy, Staging::No, false),
        ] {
            row.set_work(work);
            row.set_tape(Tape { stage, archive });
            assert_eq!((row.work(), row.tape()), (work, Tape { stage, archive }));
        }
    }

    #[test]
    fn rows_are_found_until_removed() {
        let mut table = Table::default();
        let numbers: Vec<u32> = (0..1000)
            .map(|id| {
                table
                    .insert(Row::new(TransferId(id), Bytes(id), 0, 0))
                    .expect("ids differ")
            })
            .collect();
        assert_eq!(table.insert(Row::new(TransferId(7), Bytes(0), 0, 0)), None);
        for id in (0..1000).step_by(3) {
            table.remove(numbers[id as usize]);
        }
        for id in 0..1000 {
            let found = table.find(TransferId(id)).map(|row| table[row].size);
            assert_eq!(found, (id % 3 != 0).then_some(Bytes(id)));
        }
        assert_eq!(table.len(), 666);
    }
}
