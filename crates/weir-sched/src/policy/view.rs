//! What the policy shows: figures, reasons, past decisions.

use super::Policy;
use super::gate::Gate;
use crate::stats::{GateStats, LinkStats, SeStats};
use crate::{Decision, Holder, Link, Reason, SeId};

impl Policy {
    pub(crate) fn find(&self, link: Link) -> Option<u32> {
        self.link_numbers.get(&link).copied()
    }

    pub(crate) fn key(&self, link: u32) -> Link {
        self.links[link].link
    }

    /// Links in the order of their keys.
    pub(crate) fn link_stats(&self) -> impl Iterator<Item = LinkStats> {
        self.link_numbers.values().map(|number| self.stats_of(*number))
    }

    pub(crate) fn stats_of(&self, link: u32) -> LinkStats {
        let state = &self.links[link];
        LinkStats {
            link: state.link,
            limit: state.limit,
            counts: state.counts,
        }
    }

    /// Storage elements in the order of their numbers.
    pub(crate) fn se_stats(&self) -> impl Iterator<Item = SeStats> {
        self.gate_numbers
            .iter()
            .map(|(se, outbound)| self.stats_at(*se, *outbound))
    }

    pub(crate) fn stats_of_se(&self, se: SeId) -> Option<SeStats> {
        self.gate_numbers.get(&se).map(|outbound| self.stats_at(se, *outbound))
    }

    fn stats_at(&self, se: SeId, outbound: u32) -> SeStats {
        let stats = |gate: &Gate| GateStats {
            limit: gate.limit,
            active: gate.held - gate.kept,
            kept: gate.kept,
        };
        let outbound = outbound as usize;
        SeStats {
            se,
            outbound: stats(&self.gates[outbound]),
            inbound: stats(&self.gates[outbound + 1]),
        }
    }

    /// The last decisions, oldest first.
    pub(crate) fn decisions(&self, link: u32) -> impl Iterator<Item = &Decision> {
        self.links[link].decisions.iter()
    }

    /// Queued transfers of a link that are more urgent than this level, and those of this level.
    pub(crate) fn ahead(&self, link: u32, level: usize) -> (u64, u64) {
        let queues = &self.links[link].queues;
        let more_urgent = queues[..level].iter().map(|queue| u64::from(queue.len())).sum();
        (more_urgent, u64::from(queues[level].len()))
    }

    /// The first transfer of a link.
    pub(crate) fn first(&self, link: u32) -> Option<u32> {
        let level = self.links[link].first_level()?;
        self.links[link].queues[level].head()
    }

    /// Everything that holds a link back now. Costs as much as its storage elements have links.
    pub(crate) fn reasons(&self, link: u32) -> Vec<Reason> {
        let state = &self.links[link];
        let mut reasons = Vec::new();
        if state.active >= state.limit {
            reasons.push(Reason::LinkLimit {
                link: state.link,
                limit: state.limit,
                active: state.active,
            });
        }
        let (source, destination) = (
            &self.gates[state.source as usize],
            &self.gates[state.destination as usize],
        );
        if !destination.has_room() && !state.reserved {
            let (se, limit, active) = (destination.se, destination.limit, destination.held);
            reasons.push(Reason::DestinationLimit {
                se,
                limit,
                active,
                holders: self.holders(destination),
            });
        }
        if !source.has_room() {
            let (se, limit, active) = (source.se, source.limit, source.held);
            reasons.push(Reason::SourceLimit {
                se,
                limit,
                active,
                holders: self.holders(source),
            });
        }
        if reasons.is_empty() {
            reasons.push(if state.first_level().is_some() {
                Reason::Next
            } else {
                Reason::Idle
            });
        }
        reasons
    }

    fn holders(&self, gate: &Gate) -> Vec<Holder> {
        let holder = |link: &u32| Holder {
            link: self.links[*link].link,
            active: self.links[*link].active,
        };
        let mut holders: Vec<Holder> = gate
            .links
            .iter()
            .map(holder)
            .filter(|holder| holder.active > 0)
            .collect();
        holders.sort_by_key(|holder| (std::cmp::Reverse(holder.active), holder.link));
        holders
    }
}
