//! The outbox: effects that wait until their record is durable.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_world::{Seq, TransferId};

use crate::{JobSpec, Settled};

/// The consequence of a record, once it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// The answer to a job.
    Admit(Arc<JobSpec>),
    /// The answer to another command, then the end of these operations.
    Acknowledge { stop: Vec<TransferId> },
    /// The start of an operation; the transfer was in this row.
    Start {
        transfer: TransferId,
        attempt: u32,
        row: u32,
    },
    /// The news that a transfer has ended.
    Settle(TransferId, Settled),
}

/// Records on their way to the store, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    last: Seq,
    waiting: VecDeque<(Seq, Then)>,
}

impl Outbox {
    /// Numbers a record, and stores its consequence.
    pub(crate) fn put(&mut self, then: Then) -> Seq {
        self.last = self.last.next();
        if then != Then::Nothing {
            self.waiting.push_back((self.last, then));
        }
        self.last
    }

    /// Adds something that follows the record issued last.
    pub(crate) fn also(&mut self, then: Then) {
        self.waiting.push_back((self.last, then));
    }

    /// Takes the next consequence whose record is at most `durable`. Each is returned once.
    pub(crate) fn take(&mut self, durable: Seq) -> Option<(Seq, Then)> {
        if self.waiting.front()?.0 <= durable {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// Removes the consequence of a record that the store refused.
    pub(crate) fn refuse(&mut self, seq: Seq) -> Option<Then> {
        let found = self.waiting.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some(std::mem::replace(&mut self.waiting[found].1, Then::Nothing))
    }

    /// Removes the event that a transfer has ended, for one that was cancelled while its job was about to be refused.
    pub(crate) fn unsettle(&mut self, transfer: TransferId) {
        for (_, then) in &mut self.waiting {
            if matches!(then, Then::Settle(settled, _) if *settled == transfer) {
                *then = Then::Nothing;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
