//! Operations that run at a node for a scheduler elsewhere: each runs once.
//!
//! A lease whose acceptance was not recorded is ordered again. So an operation stays on the list until its end is
//! written, and then until orders are read anew: an earlier read may still contain it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weir_world::OpId;

/// The list. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct AtWork(Arc<Mutex<RunningOperations>>);

#[derive(Debug, Default)]
struct RunningOperations {
    running: HashMap<OpId, CancellationToken>,
    /// Ended operations.
    over: Vec<OpId>,
    /// Bytes moved since the last report.
    moved: HashMap<OpId, u64>,
}

/// A place on the list: held by the operation, and then by the report of its end.
#[derive(Debug)]
pub(super) struct WorkPlace {
    list: AtWork,
    op: OpId,
}

impl AtWork {
    /// Orders are about to be read: they will not contain operations that have ended by now.
    pub(super) fn look_anew(&self) {
        let mut state = self.0.lock();
        for op in std::mem::take(&mut state.over) {
            state.running.remove(&op);
        }
    }

    /// Begins an operation. `None`: it is at work already, or its end is being told.
    pub(super) fn begin(&self, op: OpId, stop: CancellationToken) -> Option<WorkPlace> {
        let mut state = self.0.lock();
        if state.running.contains_key(&op) {
            return None;
        }
        state.running.insert(op, stop);
        Some(WorkPlace { list: self.clone(), op })
    }

    /// Ends an operation early, if it is here.
    pub(super) fn stop(&self, op: OpId) {
        if let Some(stop) = self.0.lock().running.get(&op) {
            stop.cancel();
        }
    }

    /// How far operations have come since this was last asked.
    pub(super) fn news(&self) -> Vec<(OpId, u64)> {
        std::mem::take(&mut self.0.lock().moved).into_iter().collect()
    }
}

impl WorkPlace {
    pub(super) fn op(&self) -> OpId {
        self.op
    }

    /// The operation has come so far.
    pub(super) fn moved(&self, bytes: u64) {
        self.list.0.lock().moved.insert(self.op, bytes);
    }
}

impl Drop for WorkPlace {
    fn drop(&mut self) {
        let mut state = self.list.0.lock();
        state.moved.remove(&self.op);
        state.over.push(self.op);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_world::TransferId;

    use super::*;

    #[test]
    fn an_operation_is_not_begun_again_while_its_end_is_told() {
        // A database that did not note that it was taken orders it again: the same copy would run a second time.
        let (list, stop) = (AtWork::default(), CancellationToken::new());
        let op = |attempt| OpId {
            transfer: TransferId(1),
            attempt,
            epoch: 1,
        };
        list.look_anew();
        let place = list.begin(op(1), stop.clone()).unwrap();
        place.moved(5);
        assert!(list.begin(op(1), stop.clone()).is_none());
        list.stop(op(1));
        assert!(stop.is_cancelled());
        assert_eq!(list.news(), [(op(1), 5)]);
        // It has ended, and that is being written.
        let telling = place;
        list.look_anew();
        assert!(list.begin(op(1), stop.clone()).is_none());
        drop(telling);
        assert!(
            list.begin(op(1), stop.clone()).is_none(),
            "these orders may have been read before its end was written"
        );
        assert!(list.begin(op(2), stop.clone()).is_some());
        list.look_anew();
        assert!(list.begin(op(1), stop).is_some());
    }
}
