//! Read-only views of the core's state.

use weir_units::{Bytes, Timestamp};
use weir_world::{OpId, TransferId};

use super::Scheduler;
use super::table::State;
use crate::stats::{Counts, GateStats, LinkStats, SeStats, TapeStats};
use crate::{Candidate, Choice, Decision, Link, LinkWaits, Reason, Resource, SeId, VoId, Why, Work, rank_sources};

impl Scheduler {
    /// Why a transfer is where it is. None if it has ended, or never was.
    pub fn why(&self, transfer: TransferId) -> Option<Why> {
        let row = self.table.find(transfer)?;
        let entry = &self.table[row];
        let mut reasons = Vec::new();
        if entry.stopping() {
            reasons.push(Reason::Stopping);
        }
        match entry.state {
            State::Queued => reasons.extend(self.why_queued(row)),
            State::Delayed if entry.awaits_issuer() => reasons.push(Reason::Issuer { at: entry.due() }),
            State::Delayed => reasons.push(Reason::Retry {
                at: entry.due(),
                failures: entry.failures,
            }),
            State::Held => reasons.extend(self.why_held(row)),
            State::Starting => reasons.push(Reason::Store),
            State::Running => {
                let operation = self.operations.get(entry.operation());
                let (op, since) = (self.op_id(row), operation.since);
                reasons.push(match entry.work() {
                    Work::Copy => Reason::Running {
                        op,
                        since,
                        moved: operation.moved,
                    },
                    Work::Stage => Reason::Staging { op, since },
                    Work::Archive => Reason::Archiving { op, since },
                });
            }
            State::Vacant | State::Loose => return None,
        }
        Some(Why {
            transfer,
            link: self.policy.key(entry.lane),
            reasons,
        })
    }

    /// A transfer that could go on now and does not: its delay is over, or it waits without any limit in its way.
    /// Between two steps there may be one for a moment. If the same one is returned again and again, the scheduler has
    /// lost it. `None` while everything is held, or is being restored.
    pub fn stalled(&self, now: Timestamp) -> Option<TransferId> {
        if !self.begun || self.policy.holds() {
            return None;
        }
        let due = self.due.first().filter(|(at, _)| *at <= now);
        let startable = || self.policy.startable(now).map(|row| self.table[row].id);
        due.map(|(_, transfer)| *transfer).or_else(startable)
    }

    fn why_queued(&self, row: u32) -> Vec<Reason> {
        let entry = &self.table[row];
        let mut reasons = Vec::new();
        if !self.begun {
            reasons.push(Reason::Restoring);
        }
        let forced = self.forced.contains(entry.id);
        if forced {
            reasons.push(Reason::Forced);
        }
        if self.policy.holds() {
            reasons.push(Reason::Held);
            return reasons;
        }
        if forced {
            reasons.extend(self.policy.closed(entry.lane));
            return reasons;
        }
        if entry.is_apart() {
            reasons.push(self.tapes.why(self.whose(row), self.policy.settings()));
            return reasons;
        }
        if self.policy.first(entry.lane) != Some(row) {
            let (more_urgent, as_urgent) = self.policy.ahead(entry.lane, entry.level());
            reasons.push(Reason::Behind { more_urgent, as_urgent });
        }
        reasons.extend(self.policy.reasons(entry.lane));
        reasons
    }

    /// The limits that hold a link back, or that nothing does. Empty if the link is not known.
    pub fn why_link(&self, link: Link) -> Vec<Reason> {
        match self.policy.find(link) {
            None => Vec::new(),
            Some(_) if self.policy.holds() => vec![Reason::Held],
            Some(number) => self.policy.link_reasons(number, None),
        }
    }

    /// The limits that hold back a link's transfers of one virtual organisation.
    pub fn why_link_for(&self, vo: VoId, link: Link) -> Vec<Reason> {
        match self.policy.find(link) {
            Some(number) if !self.policy.holds() => self.policy.link_reasons(number, Some(vo)),
            _ => self.why_link(link),
        }
    }

    /// Whether this virtual organisation ever had a transfer on a link.
    pub fn uses(&self, vo: VoId, link: Link) -> bool {
        self.policy
            .find(link)
            .is_some_and(|number| self.policy.uses(vo, number))
    }

    /// The last decisions about a link, oldest first. Waiting on for the same cause is one decision.
    pub fn decisions(&self, link: Link) -> Vec<Decision> {
        self.policy
            .find(link)
            .map(|number| self.policy.decisions(number).copied().collect())
            .unwrap_or_default()
    }

    /// Figures of all links that ever had a transfer, in the order of their numbers.
    pub fn links(&self) -> impl Iterator<Item = LinkStats> {
        self.policy.link_stats()
    }

    /// Figures of one link.
    pub fn link(&self, link: Link) -> Option<LinkStats> {
        self.policy.find(link).map(|number| self.policy.stats_of(number))
    }

    /// Figures of all storage elements that ever had a transfer, in the order of their numbers.
    pub fn ses(&self) -> impl Iterator<Item = SeStats> {
        self.policy.se_stats()
    }

    /// The waits of the transfers of every link up to a moment, by reason, in the order of their numbers.
    pub fn waits(&self, now: Timestamp) -> impl Iterator<Item = LinkWaits> {
        self.policy.waits(now.max(self.now))
    }

    /// Figures of one storage element.
    pub fn se(&self, se: SeId) -> Option<SeStats> {
        self.policy.stats_of_se(se)
    }

    /// Figures of tape operations, by storage element and VO, of every VO that ever had some.
    pub fn tapes(&self) -> impl Iterator<Item = TapeStats> {
        self.tapes.stats()
    }

    /// Figures of one resource; none if neither a transfer nor a setting ever asked for it.
    pub fn resource(&self, resource: Resource) -> Option<GateStats> {
        self.policy.gate_stats(resource)
    }

    /// Sources of a file for a destination, the best first, by the measurements on their links.
    pub fn rank_sources(&self, sources: &[SeId], destination: SeId, size: Bytes) -> Vec<Choice> {
        let link = |source: &SeId| Link {
            source: *source,
            destination,
        };
        let candidates: Vec<Candidate> = sources.iter().map(|source| self.candidate(link(source))).collect();
        rank_sources(&candidates, size)
    }

    /// The measurements of a link, for the choice between sources.
    pub(super) fn candidate(&self, link: Link) -> Candidate {
        let stats = self.link(link);
        Candidate {
            source: link.source,
            each: stats.and_then(|stats| stats.each),
            failing: stats.map_or(0, |stats| stats.failing),
            waiting: stats.map_or(0, |stats| stats.counts.queued + stats.counts.delayed),
            queued: stats.map_or(Bytes(0), |stats| stats.counts.queued_bytes),
            slots: stats.map_or(1, |stats| stats.allowed.min(stats.limit)),
            active: stats.map_or(0, |stats| stats.counts.active),
        }
    }

    /// Figures of everything. Costs a look at every link.
    pub fn totals(&self) -> Counts {
        let mut totals = self.totals;
        for LinkStats { counts, .. } in self.links() {
            totals.queued += counts.queued;
            totals.queued_bytes += counts.queued_bytes;
            totals.delayed += counts.delayed;
            totals.delayed_bytes += counts.delayed_bytes;
            totals.active += counts.active;
        }
        for TapeStats { queued, active, .. } in self.tapes() {
            totals.queued += queued;
            totals.active += active;
        }
        totals
    }

    /// Operations that were ordered and have not ended, in no particular order. A driver that lost track of one of them
    /// tells so with [`weir_world::WorldEvent::Lost`].
    pub fn operations(&self) -> impl Iterator<Item = OpId> {
        self.operations.rows().map(|row| self.op_id(row))
    }

    /// Transfers that have not ended.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Tells whether all transfers have ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Answers and starts that wait for the store: the driver's measure of how far the store is behind.
    pub fn waiting_for_store(&self) -> usize {
        self.outbox.len()
    }
}
