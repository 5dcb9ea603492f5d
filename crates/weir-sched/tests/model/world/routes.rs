//! Transfers that belong together, and what must be true of them.

use std::sync::Arc;

use weir_sched::{Link, LiveState, Op, Route, RouteKind, SeId, Settled, Strategy, TransferSpec};
use weir_world::{OpId, TransferId};

use super::{Copied, Operation, SES, World};
use crate::common::Row;
use crate::moves::Together;

/// The link of the `n`th file of a job.
pub(super) fn link_of(together: Together, n: u32, source: u32, destination: u32) -> Link {
    let [source, destination] = match together {
        Together::Nothing => [source, destination],
        Together::Replicas(_) => [source + n, destination],
        Together::Hops => [source + n, source + n + 1],
    };
    Link {
        source: SeId(source % SES),
        destination: SeId(destination % SES),
    }
}

impl World {
    /// All files of a job belong together, but for the first of a large one.
    pub(super) fn routes_of(&mut self, transfers: &[TransferSpec], together: Together) -> Vec<Route> {
        let kind = match together {
            Together::Nothing => return Vec::new(),
            Together::Replicas(which) => RouteKind::Replicas(Strategy::ALL[which % Strategy::ALL.len()]),
            Together::Hops => RouteKind::Hops,
        };
        let places = usize::from(transfers.len() > 3)..transfers.len();
        let members: Arc<[TransferId]> = transfers[places.clone()].iter().map(|transfer| transfer.id).collect();
        for member in members.iter() {
            self.routes.insert(*member, (kind, Arc::clone(&members)));
        }
        let live = places.start;
        vec![Route { kind, places, live }]
    }

    /// The name of a transfer's destination: sources of one file share theirs.
    pub(super) fn place(&self, transfer: TransferId) -> TransferId {
        match self.routes.get(&transfer) {
            Some((RouteKind::Replicas(_), members)) => members[0],
            _ => transfer,
        }
    }

    fn settled(&self, transfer: TransferId) -> Option<Settled> {
        match self.store.rows.get(&transfer) {
            Some(Row::Settled(settled)) => Some(*settled),
            _ => None,
        }
    }

    fn is_held(&self, transfer: TransferId) -> bool {
        matches!(self.store.rows.get(&transfer), Some(Row::Live(live)) if live.state == LiveState::Held)
    }

    /// Held for ever, and rightly so: a source of a file that another one has brought (even if it never came to tape), or a hop
    /// after one that failed.
    pub(super) fn is_unused(&self, transfer: TransferId) -> bool {
        let Some((kind, members)) = self.routes.get(&transfer).filter(|_| self.is_held(transfer)) else {
            return false;
        };
        let mut others = members.iter().filter_map(|member| self.settled(*member));
        match kind {
            RouteKind::Replicas(_) => others.any(|settled| {
                let copied = self.destinations.get(&self.place(transfer)) == Some(&Copied::Whole);
                settled == Settled::Finished || copied && self.tapes[&transfer].archive
            }),
            RouteKind::Hops => others.any(|settled| settled != Settled::Finished),
        }
    }

    /// It may still write. What an earlier life asked of a tape writes nothing at a destination, and when its transfer is
    /// cancelled, a new life has nothing to wait for.
    fn is_in_the_way(&self, transfer: TransferId) -> bool {
        self.operations.iter().any(|(op, operation)| match operation {
            Operation::Running(Op::Stage { .. } | Op::Archive { .. }) => {
                op.transfer == transfer && op.epoch == self.epoch
            }
            Operation::Running(_) => op.transfer == transfer,
            Operation::Ended(_) => false,
        })
    }

    /// A transfer of a route runs only when it is its turn: a hop after all before it, a source when no other runs or has
    /// brought the file.
    pub(super) fn check_turn(&self, op: OpId) {
        let Some((kind, members)) = self.routes.get(&op.transfer) else {
            return;
        };
        for member in members.iter().filter(|member| **member != op.transfer) {
            let settled = self.settled(*member);
            let fits = match kind {
                RouteKind::Replicas(_) => {
                    self.is_held(*member) || matches!(settled, Some(Settled::Failed | Settled::Cancelled))
                }
                RouteKind::Hops if *member < op.transfer => settled == Some(Settled::Finished),
                RouteKind::Hops => self.is_held(*member) || settled == Some(Settled::Cancelled),
            };
            assert!(fits, "{op} starts while {member} is {:?}", self.store.rows.get(member));
            assert!(!self.is_in_the_way(*member), "{op} starts beside {member}");
        }
    }
}
