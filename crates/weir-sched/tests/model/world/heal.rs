//! The faults stop, and everything comes to its end.

use std::time::Duration;

use weir_sched::{Command, GroupId, Input, Mode, Reason, Resource, SeId, Setting, Ticket, VoId};
use weir_units::Timestamp;
use weir_world::{OpId, TransferId, WorldEvent};

use super::{Operation, SES, World};
use crate::common::Row;
use crate::moves::Fate;

/// The longest pause of a breaker, and how long a slot is kept at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Time for one file at the lowest bandwidth limit.
const PER_FILE: Duration = Duration::from_secs(10);

impl World {
    /// Takes back what an operator may have set.
    fn unlimited(&self) -> Vec<Setting> {
        let mut all = vec![
            Setting::EveryLink(self.shape.link),
            Setting::Optimiser(Mode::Auto),
            Setting::Ageing(None),
            Setting::Hold(false),
            Setting::Slots(Resource::Group(GroupId(0)), None),
        ];
        for se in (0..SES).map(SeId) {
            all.extend([
                Setting::Slots(Resource::Inbound(se), None),
                Setting::Slots(Resource::Outbound(se), None),
                Setting::Slots(Resource::VoInbound(se, VoId(0)), None),
                Setting::Rate(Resource::Outbound(se), None),
                Setting::Slots(Resource::Staging(se), None),
                Setting::Slots(Resource::VoStaging(se, VoId(0)), None),
            ]);
        }
        let links = self.limits.optimisers.keys();
        all.extend(links.map(|link| Setting::LinkOptimiser(*link, None)));
        let banned = self.limits.slots.keys();
        let banned = banned.filter(|resource| matches!(resource, Resource::Link(_)));
        all.extend(banned.map(|resource| Setting::Slots(*resource, None)));
        all
    }

    /// The faults stop: the store is quick, nothing is lost, and every copy succeeds. What no operator holds back ends in
    /// time; then all the rest, once operators hold nothing back.
    pub(crate) fn heal(&mut self) {
        self.broken.clear();
        self.settle_down();
        for transfer in self.unsettled() {
            assert!(
                self.is_barred(transfer),
                "{transfer} waits for ever: {:?}",
                self.core.why(transfer)
            );
        }
        if self.limits_changed {
            let changes = self.unlimited().into();
            self.inbox.push_back(Input::Command(Command::Set {
                ticket: Ticket(4),
                changes,
            }));
            self.settle_down();
        }
        assert!(
            self.core.is_empty() && self.core.waiting_for_store() == 0,
            "it does not settle: {:?}",
            self.store.rows
        );
    }

    /// Works until nothing is left that an alarm or an input could change. Panics if that takes longer than all delays and
    /// pauses together.
    fn settle_down(&mut self) {
        let mut latest = None;
        loop {
            self.catch_up();
            self.tell_ends_again();
            for _ in 0..self.running().len() {
                self.end_some(0, Fate::Done);
            }
            if !self.inbox.is_empty() {
                continue;
            }
            let latest = *latest.get_or_insert_with(|| self.latest());
            let Some(at) = self.woken else { return };
            if self.unsettled().all(|transfer| self.is_barred(transfer)) {
                return;
            }
            assert!(
                at <= latest,
                "{} waits too long: {:?}",
                self.now,
                self.core.links().collect::<Vec<_>>()
            );
            self.ring(at);
        }
    }

    /// By when everything has to be over: the longest delay, the longest pause, the minute for which a slot may be kept, and
    /// what the lowest bandwidth limit of the model (4 Mb/s) makes of each file, with time to spare.
    fn latest(&self) -> Timestamp {
        let delays = self.unsettled().filter_map(|transfer| self.core.why(transfer));
        let delays = delays.flat_map(|why| why.reasons).filter_map(|reason| match reason {
            Reason::Retry { at, .. } | Reason::Issuer { at } => Some(at),
            _ => None,
        });
        let delay = delays.max().unwrap_or(self.now).max(self.now);
        delay + LONGEST_PAUSE + KEPT_FOR + PER_FILE * self.unsettled().count() as u32
    }

    /// The driver tells what it knows of the operations that the core knows.
    fn tell_ends_again(&mut self) {
        let known: Vec<OpId> = self.core.operations().collect();
        for op in known {
            match self.operations.get(&op).cloned() {
                Some(Operation::Running(_)) => {}
                Some(Operation::Ended(event)) => self.inbox.push_back(Input::World(op, event)),
                None => self.inbox.push_back(Input::World(op, WorldEvent::Lost)),
            }
        }
    }

    /// Transfers that the store has and that have not ended, but for those that never will.
    fn unsettled(&self) -> impl Iterator<Item = TransferId> {
        let live = self.store.rows.iter().filter(|(_, row)| matches!(row, Row::Live(_)));
        live.map(|(transfer, _)| *transfer)
            .filter(|transfer| !self.is_unused(*transfer))
    }

    /// An operator holds a transfer back, or one that goes before it.
    fn is_barred(&self, transfer: TransferId) -> bool {
        let barred = |transfer: &TransferId| {
            let link = self.links[transfer];
            self.is_closed(link) || self.limits.slots(Resource::Staging(link.source)) == 0
        };
        let members = self.routes.get(&transfer).map(|(_, members)| members);
        self.limits.hold || barred(&transfer) || members.is_some_and(|members| members.iter().any(barred))
    }
}
