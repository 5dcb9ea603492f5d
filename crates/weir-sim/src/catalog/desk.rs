//! What the daemons of both catalogues are given, and what they order.

use std::time::Duration;

use weir_units::Timestamp;
use weir_world::TransferId;

use super::agenda::{Agenda, Task};
use super::books::{Books, FileKey};
use crate::slab::Key;
use crate::spec::Interval;
use crate::want::Want;

/// What the run is to do.
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
}

impl Around<'_> {
    /// Whether the transfer service does not answer.
    pub(super) fn is_away(&self, at: Timestamp) -> bool {
        self.answers(at) > at
    }

    /// When the transfer service answers what it is asked at a moment: at once, or when it is back.
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
    fn asked(&mut self, at: Timestamp, rule: Key, desk: &mut Desk<'_>);
    /// The transfer service has ended a transfer.
    fn ended(&mut self, at: Timestamp, file: FileKey, desk: &mut Desk<'_>);
    /// A task is due.
    fn turn(&mut self, at: Timestamp, task: Task, desk: &mut Desk<'_>, around: &Around<'_>);
}

/// What daemons work with.
pub(super) struct Desk<'d> {
    pub(super) books: &'d mut Books,
    pub(super) agenda: &'d mut Agenda,
    pub(super) orders: &'d mut Vec<Order>,
}
