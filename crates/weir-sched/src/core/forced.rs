//! Transfers that an administrator wants started past limits and turns.

use std::collections::BTreeSet;

use weir_world::TransferId;

/// Forced transfers that have not started.
#[derive(Debug, Default)]
pub(super) struct Forced {
    /// To be started, in the order of their ids.
    pub(super) next: BTreeSet<TransferId>,
    /// Forced transfers whose way an operator has closed. Only settings reopen it, so nothing else looks at them again.
    pub(super) barred: BTreeSet<TransferId>,
}

impl Forced {
    /// False if it is there already.
    pub(super) fn insert(&mut self, transfer: TransferId) -> bool {
        !self.contains(transfer) && self.next.insert(transfer)
    }

    pub(super) fn remove(&mut self, transfer: TransferId) {
        self.next.remove(&transfer);
        self.barred.remove(&transfer);
    }

    pub(super) fn contains(&self, transfer: TransferId) -> bool {
        self.next.contains(&transfer) || self.barred.contains(&transfer)
    }

    /// Tells whether one may start.
    pub(super) fn has_turns(&self) -> bool {
        !self.next.is_empty()
    }

    /// Settings have changed.
    pub(super) fn look_again(&mut self) {
        self.next.append(&mut self.barred);
    }
}
