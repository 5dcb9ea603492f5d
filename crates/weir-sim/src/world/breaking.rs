//! Faults come and go: the world's models are computed anew, and what runs is led over to them.

use std::time::Duration;

use weir_plan::fault::{FaultKind, Way};
use weir_sched::{Command, Resource, SeId, Setting, Ticket};
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::CopyMode;

use super::World;
use super::attempt_state::Attempt;
use super::events::Event;
use crate::faults::conditions::Conditions;
use crate::faults::models;
use crate::faults::scene_fault::SceneFault;
use crate::policies::ends;
use crate::scene::Scene;
use crate::slab::Key;

impl World {
    /// Schedules every change of every fault.
    pub(super) fn foresee_faults(&mut self) {
        for (number, fault) in (0..).zip(&self.scene.faults) {
            for (change, (at, _)) in (0..).zip(&fault.course) {
                self.events.add(Timestamp(0) + *at, Event::Fault(number, change));
            }
        }
    }

    /// A fault has another level from now on.
    pub(super) fn break_or_mend(&mut self, number: usize, change: usize) {
        let on = &mut self.scene.faults[number];
        let was_on = on.is_on();
        on.level = on.course[change].1;
        let on = on.clone();
        self.breaking.conditions = Conditions::of(&self.scene.faults, self.breaking.conditions.workloads.len());
        let Some(base) = self.breaking.base.take() else { return };
        self.scene.store.latency = base.store.latency + self.breaking.conditions.commit;
        self.scene.tokens = self.breaking.conditions.tokens(base.tokens);
        for at in &on.storages {
            self.break_storage(&base, *at);
        }
        for at in &on.links {
            self.break_link(&base, *at);
        }
        for at in &on.sites {
            self.break_site(&base, *at);
        }
        for at in &on.segments {
            self.break_segment(*at);
        }
        self.breaking.base = Some(base);
        if on.fault.kind == FaultKind::Outage && on.is_on() != was_on {
            self.go_dark();
        }
        if !on.is_on() {
            (0..self.cores.len()).for_each(|core| self.wake(core as u32, self.now));
            self.events.add(self.now, Event::Catalog);
        }
    }

    fn break_storage(&mut self, base: &Scene, at: usize) {
        let (was_down, told) = (
            self.scene.storages[at].broken.is_down,
            self.scene.storages[at].max_active,
        );
        self.scene.storages[at] = models::storage(&base.storages[at], at, &self.scene.faults);
        let storage = &self.scene.storages[at];
        let (is_down, most) = (storage.broken.is_down, storage.max_active);
        let killed =
            |on: &SceneFault| on.is_on() && on.fault.kind == FaultKind::KilledSite && on.storages.contains(&at);
        let is_killed = self.scene.faults.iter().any(killed);
        let freed = self.doors[at].adapt(storage, &mut self.network, self.now);
        for key in freed {
            self.go_on(key);
        }
        if is_down && !was_down && is_killed {
            self.crash(at, self.now);
        } else if is_down != was_down {
            self.outage(at, is_down, self.now);
        }
        if told != most {
            let se = SeId(at as u32);
            self.set_slots(Resource::Inbound(se), most[0]);
            self.set_slots(Resource::Outbound(se), most[1]);
        }
    }

    fn set_slots(&mut self, resource: Resource, most: u32) {
        for core in 0..self.cores.len() {
            let set = Command::Set {
                ticket: Ticket(u64::MAX),
                changes: vec![Setting::Slots(resource, Some(most))].into(),
            };
            self.command(core, set);
        }
    }

    fn break_link(&mut self, base: &Scene, at: usize) {
        let old = self.scene.links[at].clone();
        let new = models::link(&base.links[at], at, base, &self.scene.faults);
        if let Some(capacity) = new.capacity {
            let capacity = if new.broken.is_down { BitRate::ZERO } else { capacity };
            self.wires
                .break_link(at, (capacity, new.broken.foreign), &mut self.network, self.now);
        }
        if new.max_active != old.max_active {
            self.set_slots(Resource::Link(ends(&new)), new.max_active);
        }
        let is_other_way =
            old.via != new.via || old.stream != new.stream || old.weight.to_bits() != new.weight.to_bits();
        self.scene.links[at] = new;
        if is_other_way {
            self.lead_over(at as u32);
        }
    }

    fn break_site(&mut self, base: &Scene, at: usize) {
        let model = &base.sites[at].model;
        for (way, capacity) in [(Way::In, model.inward), (Way::Out, model.outward)] {
            let Some(capacity) = capacity else { continue };
            let is_meant = |on: &SceneFault| {
                let place = on.fault.place.way().unwrap_or(Way::Both);
                on.sites.contains(&at) && (place == way || place == Way::Both)
            };
            let now = models::wire(capacity, &self.scene.faults, is_meant);
            self.wires.break_site(at, way, now, &mut self.network, self.now);
        }
    }

    fn break_segment(&mut self, at: usize) {
        let segment = &self.scene.segments[at];
        let now = self.now.since(Timestamp(0));
        let changed = segment.changes.iter().rfind(|change| change.0 <= now);
        let capacity = changed.map_or(segment.capacity, |change| change.1);
        let broken = models::wire(capacity, &self.scene.faults, |on| on.segments.contains(&at));
        self.wires.break_segment(at, broken, &mut self.network, self.now);
    }

    /// Leads the flows of a link over to the class that the link has now.
    fn lead_over(&mut self, link: u32) {
        self.classes.retain(|(of, ..), _| *of != link);
        let flows = |attempt: &Attempt| attempt.link == link && attempt.flow.is_some() && !attempt.reads_back;
        let flowing: Vec<Key> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| flows(attempt))
            .map(|(key, _)| key)
            .collect();
        for key in flowing {
            self.account_moved(key, self.now);
            let moved = self.moved(key).0;
            let Some(attempt) = self.attempts.get_mut(key) else {
                continue;
            };
            let Some(file) = self.files.get(attempt.file) else {
                continue;
            };
            let (all, servers, mode) = (attempt.flow_bytes(file.size), attempt.servers, file.mode);
            let Some(flow) = attempt.flow.filter(|_| moved < all) else {
                continue;
            };
            attempt.carried = moved;
            self.network.stop(self.now, flow);
            self.flows.remove(&flow);
            let class = self.class_of(link, servers, mode == CopyMode::Streamed);
            let flow = self.network.start(self.now, class, Bytes(all - moved));
            self.flows.insert(flow, key);
            if let Some(attempt) = self.attempts.get_mut(key) {
                attempt.flow = Some(flow);
            }
        }
    }

    /// Time from the last byte of a file to the end of its transfer.
    pub(super) fn closing(&self, destination: usize) -> Duration {
        self.scene.common.finalization + self.scene.storages[destination].broken.close
    }
}
