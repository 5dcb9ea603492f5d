//! Checks from outside, in every step.

use std::collections::BTreeSet;

use weir_sched::{Cause, Direction, End, GroupId, Link, LiveState, Next, Reason, Record, Resource, VoId, Work};
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::{OpId, Retry, TransferId};

use super::World;
use crate::common::Row;

/// Clean-ups that may fail before a cancelled transfer is let go with what is left of it.
const FAILED_CLEANUPS: usize = 8;

/// Clean-ups, and those of them that failed.
#[derive(Debug, Default)]
pub(super) struct CleanUps {
    begun: BTreeSet<OpId>,
    failed: BTreeSet<OpId>,
}

impl CleanUps {
    pub(super) fn begun(&mut self, op: OpId) {
        self.begun.insert(op);
    }

    /// A transfer that failed, and may work later, is not taken for done. Each life has its own patience.
    pub(super) fn check(&mut self, op: OpId, end: &End, next: Next) {
        let End::Failed(failure) = end else { return };
        if !self.begun.contains(&op) {
            return;
        }
        let same = |other: &&OpId| (other.transfer, other.epoch) == (op.transfer, op.epoch) && **other != op;
        let before = self.failed.iter().filter(same).count();
        self.failed.insert(op);
        let again = failure.retry != Retry::Never && before < FAILED_CLEANUPS;
        assert_eq!(
            matches!(next, Next::Cleanup { .. }),
            again,
            "{op} could not clean up, {before} before it, and is {next:?}"
        );
    }
}

impl World {
    /// A `forced` transfer needs no room, but takes some.
    pub(super) fn hold(&mut self, transfer: TransferId, forced: bool) {
        assert!(!self.limits.hold, "{transfer} starts while everything is held");
        let link = self.links[&transfer];
        self.held.insert(transfer, link);
        assert!(self.own.insert(transfer), "{transfer} holds two slots");
        assert!(!self.is_closed(link), "{transfer} starts where nothing may");
        if forced {
            return;
        }
        let of_core: Vec<Link> = self.own.iter().map(|transfer| self.links[transfer]).collect();
        self.check_limits(link, &of_core);
        // After a crash, transfers from beyond the limits may still run.
        if !self.limits_changed && !self.ever_forced {
            // A transfer that was cancelled in an earlier life holds no slot while it is cleaned up: that is what ends it.
            let counted = self.held.iter().filter(|(transfer, _)| !self.is_stopping(**transfer));
            let all: Vec<Link> = counted.map(|(_, link)| *link).collect();
            self.check_limits(link, &all);
        }
    }

    /// Whether a transfer was cancelled while an operation of it may have been running.
    pub(super) fn is_stopping(&self, transfer: TransferId) -> bool {
        let stops =
            |record: &Record| matches!(record, Record::Cancelled { stopping, .. } if stopping.contains(&transfer));
        let row = self.store.rows.get(&transfer);
        self.issued.values().any(stops) || matches!(row, Some(Row::Live(live)) if live.state == LiveState::Stopping)
    }

    /// A file is brought online.
    pub(super) fn hold_tape(&mut self, transfer: TransferId) {
        assert!(!self.limits.hold, "{transfer} starts while everything is held");
        let se = self.links[&transfer].source;
        self.staging.insert(transfer, se);
        let count = self.staging.values().filter(|other| **other == se).count() as u32;
        for resource in [Resource::Staging(se), Resource::VoStaging(se, VoId(0))] {
            assert!(count <= self.limits.slots(resource), "{resource:?}: {count} are staged");
        }
    }

    pub(super) fn check_limits(&self, link: Link, held: &[Link]) {
        let count = |matches: &dyn Fn(&Link) -> bool| held.iter().filter(|held| matches(held)).count() as u32;
        assert!(
            count(&|held| *held == link) <= self.limits.slots(Resource::Link(link)),
            "{link:?}: {held:?}"
        );
        let inbound = count(&|held| held.destination == link.destination);
        assert!(
            inbound <= self.limits.slots(Resource::Inbound(link.destination)),
            "into {:?}: {held:?}",
            link.destination
        );
        let outbound = count(&|held| held.source == link.source);
        assert!(
            outbound <= self.limits.slots(Resource::Outbound(link.source)),
            "out of {:?}: {held:?}",
            link.source
        );
        let vo = Resource::VoInbound(link.destination, VoId(0));
        assert!(
            inbound <= self.limits.slots(vo),
            "of a VO into {:?}: {held:?}",
            link.destination
        );
        if self.shares(link) {
            let shared = count(&|held| self.shares(*held));
            let limit = self.limits.slots(Resource::Group(GroupId(0)));
            assert!(shared <= limit, "through what is shared: {held:?}");
        }
    }

    /// An operator lets nothing pass on this link.
    pub(super) fn is_closed(&self, link: Link) -> bool {
        let (into, out) = (Resource::Inbound(link.destination), Resource::Outbound(link.source));
        let way = [Resource::Link(link), into, out];
        way.iter().any(|resource| self.limits.slots(*resource) == 0)
    }

    /// A link passes through the shared resource.
    fn shares(&self, link: Link) -> bool {
        let member = |se, direction| {
            let groups = self.limits.members.get(&(se, direction));
            groups.is_some_and(|groups| groups.contains(&GroupId(0)))
        };
        member(link.source, Direction::Out) || member(link.destination, Direction::In)
    }

    /// An operation has ended. `over`: so has its transfer, and with it whatever ran in an earlier life: a clean-up takes no slot of its
    /// own, and ends that.
    pub(super) fn held_no_more(&mut self, transfer: TransferId, over: bool) {
        if self.own.remove(&transfer) || over || !self.started.keys().any(|op| op.transfer == transfer) {
            self.held.remove(&transfer);
        }
    }

    /// No link waits that could run, unless the core asked to be called again at once.
    pub(super) fn check_work_conserving(&self) {
        if !self.begun || self.limits.hold || self.woken.is_some_and(|at| at <= self.now) {
            return;
        }
        self.check_tapes();
        for transfer in &self.forced {
            let closed = self.is_closed(self.links[transfer]);
            assert!(closed, "{transfer} is forced and waits: {:?}", self.core.why(*transfer));
        }
        for stats in self.core.links().filter(|stats| stats.counts.queued > 0) {
            let source = self.core.se(stats.link.source).unwrap().outbound;
            let destination = self.core.se(stats.link.destination).unwrap().inbound;
            let room = stats.counts.active < u64::from(stats.allowed)
                && source.active < source.allowed
                && destination.active + destination.kept < destination.allowed
                && self.has_room(Resource::VoInbound(stats.link.destination, VoId(0)))
                && (!self.shares(stats.link) || self.has_room(Resource::Group(GroupId(0))));
            assert!(
                !room,
                "{:?} waits and could run: {:?}",
                stats.link,
                self.core.why_link(stats.link)
            );
        }
    }

    /// A link that has room but for a pause, a bandwidth limit or slots that are kept for others waits for an alarm, and no
    /// pause is told of that has passed.
    pub(super) fn check_alarms(&self) {
        if !self.begun || self.limits.hold {
            return;
        }
        for stats in self.core.links() {
            let (mut only_time, mut latest) = (stats.counts.queued > 0, Timestamp(u64::MAX));
            for reason in self.core.why_link(stats.link) {
                let Reason::Full {
                    resource,
                    allowed,
                    cause,
                    ..
                } = reason
                else {
                    continue;
                };
                let active = self.core.resource(resource).expect("it is full").active;
                match cause {
                    Cause::Faults { until, .. } if allowed == 0 => {
                        assert!(
                            until > self.now,
                            "{:?} is paused until {until:?}, at {:?}",
                            stats.link,
                            self.now
                        );
                        latest = latest.min(until);
                    }
                    Cause::Bandwidth { limit } => only_time &= limit > BitRate(0),
                    _ => only_time &= active < allowed,
                }
            }
            assert!(
                !only_time || self.woken.is_some_and(|at| at <= latest),
                "{:?} waits for no alarm: {:?}",
                stats.link,
                self.core.why_link(stats.link)
            );
        }
    }

    /// Nothing waits for tape that could go on.
    fn check_tapes(&self) {
        for stats in self.core.tapes().filter(|stats| stats.queued > 0) {
            let limits = [Resource::Staging(stats.se), Resource::VoStaging(stats.se, stats.vo)];
            let room = limits
                .iter()
                .all(|limit| stats.active < self.limits.slots(*limit).into());
            assert!(stats.work == Work::Stage && !room, "{stats:?} waits and could go on");
        }
    }

    /// A resource that exists only if it is limited.
    fn has_room(&self, resource: Resource) -> bool {
        let stats = self.core.resource(resource);
        let limited = self.limits.slots.contains_key(&resource) || matches!(resource, Resource::Group(_));
        !limited || stats.is_none_or(|stats| stats.active + stats.kept < stats.allowed)
    }

    pub(crate) fn check_settled(&self) {
        for transfer in &self.acknowledged {
            let row = self.store.rows.get(transfer);
            assert!(
                matches!(row, Some(Row::Settled(_))) || self.is_unused(*transfer),
                "{transfer} was acknowledged, and is {row:?}"
            );
        }
        for (transfer, row) in &self.store.rows {
            let is_over = matches!(row, Row::Settled(_)) || self.is_unused(*transfer);
            assert!(is_over, "the store has what the core forgot: {transfer} is {row:?}");
        }
        let totals = self.core.totals();
        assert_eq!((totals.queued, totals.delayed, totals.active), (0, 0, 0));
        assert_eq!((totals.queued_bytes, totals.delayed_bytes), (Bytes(0), Bytes(0)));
        for se in self.core.ses() {
            assert_eq!(
                (se.inbound.active, se.outbound.active, se.inbound.kept),
                (0, 0, 0),
                "slots leaked: {se:?}"
            );
        }
    }

    /// A terminal record that a crash kept from the store does not count.
    pub(super) fn is_live(&self, transfer: TransferId) -> bool {
        matches!(self.store.rows.get(&transfer), Some(Row::Live(_)))
    }
}
