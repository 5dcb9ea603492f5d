//! Read-only views of the policy: figures, reasons, past decisions.

use weir_units::{BitRate, Timestamp};

use super::Policy;
use super::gate::Gate;
use super::lane::Lane;
use crate::stats::{GateStats, LinkStats, SeStats};
use crate::{Decision, Holder, Link, Reason, Resource, SeId, VoId};

fn bits(bytes_per_second: f64) -> BitRate {
    BitRate((bytes_per_second * 8.0) as u64)
}

impl Policy {
    pub(crate) fn find(&self, link: Link) -> Option<u32> {
        self.link_numbers.get(&link).copied()
    }

    /// Links in the order of their keys.
    pub(crate) fn link_stats(&self) -> impl Iterator<Item = LinkStats> {
        self.link_numbers.values().map(|number| self.stats_of(*number))
    }

    pub(crate) fn stats_of(&self, link: u32) -> LinkStats {
        let state = &self.links[link as usize];
        let gate = &self.gates[state.gate as usize];
        LinkStats {
            link: state.link,
            limit: gate.limit,
            allowed: gate.allowed,
            each: state.each().map(bits),
            failing: (state.failing * 1000.0) as u32,
            counts: state.counts,
        }
    }

    /// Storage elements in the order of their numbers.
    pub(crate) fn se_stats(&self) -> impl Iterator<Item = SeStats> {
        let all = Resource::Inbound(SeId(0))..=Resource::Inbound(SeId(u32::MAX));
        let ses = self.gate_numbers.range(all).map(|(resource, _)| *resource);
        ses.filter_map(|resource| match resource {
            Resource::Inbound(se) => self.stats_of_se(se),
            _ => None,
        })
    }

    pub(crate) fn stats_of_se(&self, se: SeId) -> Option<SeStats> {
        Some(SeStats {
            se,
            inbound: self.gate_stats(Resource::Inbound(se))?,
            outbound: self.gate_stats(Resource::Outbound(se))?,
        })
    }

    /// Figures of one resource, if transfers or settings ever asked for it.
    pub(crate) fn gate_stats(&self, resource: Resource) -> Option<GateStats> {
        let number = self.gate_numbers.get(&resource)?;
        Some(gate_stats(&self.gates[*number as usize]))
    }

    /// The last decisions, oldest first.
    pub(crate) fn decisions(&self, link: u32) -> impl Iterator<Item = &Decision> {
        self.links[link as usize].decisions.iter()
    }

    /// Number of a lane's queued transfers that are more urgent than this level, and number of those at this level.
    pub(crate) fn ahead(&self, lane: u32, level: usize) -> (u64, u64) {
        let (mut more_urgent, mut as_urgent) = (0, 0);
        for queue in self.lanes[lane as usize].queues.filled() {
            match queue.key.level.cmp(&level) {
                std::cmp::Ordering::Less => more_urgent += u64::from(queue.list.len()),
                std::cmp::Ordering::Equal => as_urgent += u64::from(queue.list.len()),
                std::cmp::Ordering::Greater => {}
            }
        }
        (more_urgent, as_urgent)
    }

    /// The first transfer of a lane.
    pub(crate) fn first(&self, lane: u32) -> Option<u32> {
        self.lanes[lane as usize].queues.first_transfer()
    }

    /// The first transfer of a lane that nothing holds back at this time. Between two steps there is none, unless a step's
    /// starts were used up or an alarm is due.
    pub(crate) fn startable(&self, now: Timestamp) -> Option<u32> {
        let may_start = |lane: &&Lane| {
            let gates = lane.passes[1..].iter().map(|pass| &self.gates[pass.gate as usize]);
            !lane.queues.is_empty() && gates.clone().all(|gate| gate.lets_pass(now))
        };
        self.lanes
            .iter()
            .find(may_start)
            .and_then(|lane| lane.queues.first_transfer())
    }

    /// Whether this virtual organisation ever had a transfer on a link.
    pub(crate) fn uses(&self, vo: VoId, link: u32) -> bool {
        let mut lanes = self.links[link as usize].lanes.iter();
        lanes.any(|lane| self.lanes[*lane as usize].vo == vo)
    }

    /// Everything that holds a link back now: of all virtual organisations, or of one.
    pub(crate) fn link_reasons(&self, link: u32, vo: Option<VoId>) -> Vec<Reason> {
        let lanes = self.links[link as usize].lanes.iter();
        let lanes = lanes.filter(|lane| vo.is_none_or(|vo| self.lanes[**lane as usize].vo == vo));
        let busy = lanes
            .clone()
            .filter(|lane| !self.lanes[**lane as usize].queues.is_empty());
        let Some(first) = busy.clone().next().or(lanes.clone().next()) else {
            return vec![Reason::Idle];
        };
        let mut reasons = self.reasons(*first);
        for lane in busy.skip(1) {
            for reason in self.reasons(*lane) {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        reasons
    }

    /// Everything that holds a lane back now. Costs as much as its storage elements have links.
    pub(crate) fn reasons(&self, lane: u32) -> Vec<Reason> {
        let state = &self.lanes[lane as usize];
        let destination = state.reserved.map(|_| state.destination());
        let gates = state.passes[1..].iter().map(|pass| pass.gate);
        let gates = gates.filter(|gate| Some(*gate) != destination);
        let full = gates
            .map(|gate| &self.gates[gate as usize])
            .filter(|gate| !gate.has_room());
        let mut reasons: Vec<Reason> = full.map(|gate| self.full(gate)).collect();
        if reasons.is_empty() {
            reasons.push(if state.queues.is_empty() {
                Reason::Idle
            } else {
                Reason::Next
            });
        }
        reasons
    }

    /// The reason why a forced transfer of this lane waits: gates that an operator has closed, or none.
    pub(crate) fn closed(&self, lane: u32) -> Vec<Reason> {
        let passes = &self.lanes[lane as usize].passes[1..];
        let gates = passes.iter().map(|pass| &self.gates[pass.gate as usize]);
        let closed = gates.filter(|gate| gate.is_closed());
        let reasons: Vec<Reason> = closed.map(|gate| self.full(gate)).collect();
        if reasons.is_empty() {
            vec![Reason::Next]
        } else {
            reasons
        }
    }

    fn full(&self, gate: &Gate) -> Reason {
        let holders = match gate.resource {
            Resource::Link(_) => Vec::new(),
            _ => self.holders(gate),
        };
        Reason::Full {
            resource: gate.resource,
            allowed: gate.allowed,
            active: gate.held,
            cause: gate.cause,
            holders,
        }
    }

    fn holders(&self, gate: &Gate) -> Vec<Holder> {
        let mut links: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
        for lane in &gate.lanes {
            let lane = &self.lanes[*lane as usize];
            *links.entry(lane.link).or_default() += lane.active;
        }
        let holder = |(link, active): (u32, u32)| Holder {
            link: self.links[link as usize].link,
            active,
            each: self.links[link as usize].each().map(bits),
        };
        let mut holders: Vec<Holder> = links
            .into_iter()
            .filter(|(_, active)| *active > 0)
            .map(holder)
            .collect();
        holders.sort_by_key(|holder| (std::cmp::Reverse(holder.active), holder.link));
        holders
    }
}

fn gate_stats(gate: &Gate) -> GateStats {
    GateStats {
        limit: gate.limit,
        allowed: gate.allowed,
        rate: gate.rate(),
        active: gate.held - gate.kept,
        kept: gate.kept,
    }
}
