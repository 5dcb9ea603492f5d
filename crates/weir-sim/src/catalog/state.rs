//! The interface between the daemons of a catalogue and the run.

use std::time::Duration;

use weir_units::Timestamp;
use weir_world::TransferId;

use super::agenda::{Agenda, Task};
use super::books::{Books, FileKey};
use crate::slab::Key;
use crate::spec::Interval;
use crate::want::Want;

/// An order to the run.
#[derive(Debug)]
pub(crate) enum Order {
    /// Submit a job: files of one link of a workload. The catalogue is told their numbers by [`super::Catalog::submitted`].
    Submit {
        ask: usize,
        files: Vec<FileKey>,
        wants: Vec<Want>,
    },
    /// Cancel transfers.
    Cancel(Vec<TransferId>),
}

/// The services around a catalogue.
pub(crate) struct Around<'a> {
    /// Time of one deletion at a storage element.
    pub(crate) delete_time: &'a dyn Fn(usize) -> Duration,
    /// Times in which the transfer service does not answer.
    pub(crate) away: &'a [Interval],
    /// Copies are not deleted before this time has passed since they could be.
    pub(crate) deletion_delay: Duration,
}

impl Around<'_> {
    /// Whether the transfer service does not answer.
    pub(super) fn is_away(&self, at: Timestamp) -> bool {
        self.answers(at) > at
    }

    /// The time at which the transfer service answers a call made at a moment: at once, or after its outage.
    pub(super) fn answers(&self, at: Timestamp) -> Timestamp {
        let holds = |away: &&Interval| {
            let begin = Timestamp(0) + away.at;
            begin <= at && at < begin + away.length
        };
        let away = self.away.iter().find(holds);
        away.map_or(at, |away| Timestamp(0) + away.at + away.length)
    }
}

/// The daemons of a catalogue.
pub(super) trait Daemons {
    /// A rule was asked for.
    fn asked(&mut self, at: Timestamp, rule: Key, state: &mut CatalogState);
    /// The transfer service has ended a transfer.
    fn ended(&mut self, at: Timestamp, file: FileKey, state: &mut CatalogState);
    /// A task is due.
    fn turn(&mut self, at: Timestamp, task: Task, state: &mut CatalogState, around: &Around<'_>);
}

/// The state that all daemons of a catalogue share.
#[derive(Debug)]
pub(super) struct CatalogState {
    pub(super) books: Books,
    pub(super) agenda: Agenda,
    pub(super) orders: Vec<Order>,
}
