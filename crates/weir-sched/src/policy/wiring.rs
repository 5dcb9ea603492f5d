//! Creates links, lanes and gates, and applies the settings to them.

use std::collections::{BTreeMap, BTreeSet};

use weir_units::Timestamp;

use super::gate::Gate;
use super::lane::{self, Lane, LinkState, Pass};
use super::queue::Queues;
use super::usual::Usual;
use super::wait_clock::WaitClock;
use super::{HALL, LEVELS, Policy};
use crate::settings::{Direction, Setting, Settings};
use crate::{GroupId, Link, Resource, VoId};

impl Policy {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            links: Vec::new(),
            lanes: Vec::new(),
            gates: vec![Gate::new(Resource::Group(GroupId(u32::MAX)), HALL)],
            rotation: Default::default(),
            link_numbers: BTreeMap::new(),
            lane_numbers: BTreeMap::new(),
            gate_numbers: BTreeMap::new(),
            alarms: BTreeSet::new(),
            unrecorded: BTreeSet::new(),
            last_lane: None,
            stale: Vec::new(),
        }
    }

    /// The number of a VO's lane on a link, which is made if it was not known.
    pub(crate) fn lane(&mut self, link: Link, vo: VoId, now: Timestamp) -> u32 {
        if let Some((_, _, known)) = self.last_lane.filter(|(of, whose, _)| (*of, *whose) == (link, vo)) {
            return known;
        }
        let of = self.link(link, now);
        let number = match self.lane_numbers.get(&(of, vo)) {
            Some(known) => *known,
            None => self.new_lane(of, vo, now),
        };
        self.last_lane = Some((link, vo, number));
        number
    }

    fn new_lane(&mut self, link: u32, vo: VoId, now: Timestamp) -> u32 {
        let number = self.lanes.len() as u32;
        let pass = Pass {
            gate: HALL,
            tags: [0; LEVELS],
            usual: Usual::default(),
        };
        self.lanes.push(Lane {
            link,
            vo,
            share: lane::weight(self.settings.vo_share(self.links[link as usize].link, vo)),
            passes: vec![pass],
            queues: Queues::default(),
            active: 0,
            reporting: (0, 0.0),
            flow: 0.0,
            place: None,
            misses: 0,
            reserved: None,
            deferred: false,
            alarm: Timestamp(u64::MAX),
            clock: WaitClock::new(now),
        });
        self.lane_numbers.insert((link, vo), number);
        self.links[link as usize].lanes.push(number);
        self.wire(number, now);
        number
    }

    pub(super) fn link(&mut self, link: Link, now: Timestamp) -> u32 {
        if let Some(known) = self.link_numbers.get(&link) {
            return *known;
        }
        let gate = self.gate(Resource::Link(link), now);
        for se in [link.source, link.destination] {
            self.gate(Resource::Inbound(se), now);
            self.gate(Resource::Outbound(se), now);
        }
        let number = self.links.len() as u32;
        self.links.push(LinkState::new(link, gate, &self.settings, now));
        self.link_numbers.insert(link, number);
        number
    }

    pub(super) fn gate(&mut self, resource: Resource, now: Timestamp) -> u32 {
        if let Some(known) = self.gate_numbers.get(&resource) {
            return *known;
        }
        let number = self.gates.len() as u32;
        let mut gate = Gate::new(resource, number);
        gate.set(&self.settings, now);
        self.gates.push(gate);
        self.gate_numbers.insert(resource, number);
        number
    }

    /// The gates that a lane passes: in this order it asks which of them is full. Destination and source come last.
    fn way(&mut self, number: u32, now: Timestamp) -> Vec<u32> {
        let lane = &self.lanes[number as usize];
        let (Link { source, destination }, vo) = (self.links[lane.link as usize].link, lane.vo);
        let own = self.links[lane.link as usize].gate;
        let vos = [Resource::VoInbound(destination, vo), Resource::VoOutbound(source, vo)];
        let vos = vos.into_iter().filter(|resource| self.settings.limits(*resource));
        let inward = self.settings.groups(destination, Direction::In);
        let groups: BTreeSet<GroupId> = inward.chain(self.settings.groups(source, Direction::Out)).collect();
        let shared: Vec<Resource> = vos.chain(groups.into_iter().map(Resource::Group)).collect();
        let mut way = vec![HALL, own];
        way.extend(shared.into_iter().map(|resource| self.gate(resource, now)));
        way.push(self.gate(Resource::Inbound(destination), now));
        way.push(self.gate(Resource::Outbound(source), now));
        way
    }

    /// Leads a lane through the gates that the settings demand. Its active transfers hold slots at all of them.
    fn wire(&mut self, number: u32, now: Timestamp) {
        let way = self.way(number, now);
        let lane = &self.lanes[number as usize];
        if lane.passes.iter().map(|pass| pass.gate).eq(way.iter().copied()) {
            return;
        }
        self.unreserve(number, now);
        self.move_to(number, None, now);
        let lane = &mut self.lanes[number as usize];
        let (active, flow) = (lane.active, lane.flow);
        let former = std::mem::take(&mut lane.passes);
        for gate in &way {
            let known = former.iter().find(|pass| pass.gate == *gate).copied();
            let state = &mut self.gates[*gate as usize];
            if known.is_none() {
                state.hold(now, state.held + active);
                state.flows(now, flow);
                state.lanes.push(number);
            }
            lane.passes.push(known.unwrap_or(Pass {
                gate: *gate,
                tags: [0; LEVELS],
                usual: Usual::default(),
            }));
        }
        for pass in former.iter().filter(|pass| !way.contains(&pass.gate)) {
            let state = &mut self.gates[pass.gate as usize];
            state.hold(now, state.held - active);
            state.flows(now, -flow);
            state.lanes.retain(|other| *other != number);
            self.enter_rotation(pass.gate, now);
        }
        for gate in &way[1..] {
            self.enter_rotation(*gate, now);
        }
        self.requeue(number, now);
    }

    /// Changes settings. Costs a look at every link and gate: operators change settings, not transfers.
    pub(crate) fn set(&mut self, changes: &[Setting], now: Timestamp) {
        for lane in 0..self.lanes.len() as u32 {
            self.account(lane, now);
        }
        for change in changes {
            self.settings.apply(*change);
        }
        for link in &mut self.links {
            link.set(&self.settings, now);
            link.shares = 0.0;
        }
        for lane in &mut self.lanes {
            let link = self.links[lane.link as usize].link;
            lane.share = lane::weight(self.settings.vo_share(link, lane.vo));
            if !lane.queues.is_empty() {
                self.links[lane.link as usize].shares += lane.share;
            }
        }
        for gate in 1..self.gates.len() as u32 {
            self.gates[gate as usize].set(&self.settings, now);
            self.enter_rotation(gate, now);
        }
        for lane in 0..self.lanes.len() as u32 {
            self.wire(lane, now);
            self.requeue(lane, now);
        }
    }
}
