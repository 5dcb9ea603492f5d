//! Times in which nothing moves: at a storage element, or on a link.

use weir_plan::fault::{FaultKind, Way};
use weir_units::Timestamp;
use weir_world::{ErrorClass, Party, Phase};

use super::World;
use super::attempt_state::Attempt;
use super::events::Event;
use crate::slab::Key;

impl World {
    /// A storage element stops or goes on moving bytes.
    pub(super) fn outage(&mut self, storage: usize, begins: bool, at: Timestamp) {
        if let Some(number) = self.doors[storage].outage(begins) {
            let patience = at + self.scene.common.stall_timeout;
            self.events.add(patience, Event::OutageLasts(storage as u32, number));
        }
    }

    /// A transfer begins at a storage element: in an outage it will time out.
    pub(super) fn foresee_stall(&mut self, storage: usize) {
        if let Some(number) = self.doors[storage].lasting() {
            let patience = self.now + self.scene.common.stall_timeout;
            self.events.add(patience, Event::OutageLasts(storage as u32, number));
        }
    }

    /// Fails transfers that have stalled for too long at a storage element without data flow.
    pub(super) fn outage_lasts(&mut self, storage: usize, number: u32) {
        if self.doors[storage].lasting() != Some(number) {
            return;
        }
        let (now, patience) = (self.now, self.scene.common.stall_timeout);
        let touches = |attempt: &Attempt| {
            let link = &self.scene.links[attempt.link as usize];
            let touches = link.source == storage || link.destination == storage;
            touches && attempt.flow.is_some() && attempt.flows_since + patience <= now
        };
        let stuck: Vec<Key> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| touches(attempt))
            .map(|(key, _)| key)
            .collect();
        for key in stuck {
            self.give_up(key);
        }
    }

    /// Finds the links on which nothing moves: by themselves, by a site's connection or by a segment.
    pub(super) fn go_dark(&mut self) {
        for at in 0..self.scene.links.len() {
            let is_dark = self.is_dark(at);
            let since = self.breaking.dark[at];
            self.breaking.dark[at] = is_dark.then(|| since.unwrap_or(self.now));
            if is_dark && since.is_none() {
                self.foresee_dark(at);
            }
        }
    }

    fn is_dark(&self, at: usize) -> bool {
        let link = &self.scene.links[at];
        let site = |end: usize| self.scene.storages[end].site;
        let (from, to) = (site(link.source), site(link.destination));
        self.scene.faults.iter().any(|on| {
            let way = on.fault.place.way().unwrap_or(Way::Both);
            let by_site =
                from != to && (way.is_out() && on.sites.contains(&from) || way.is_in() && on.sites.contains(&to));
            let by_segment = link.via.iter().any(|segment| on.segments.contains(segment));
            let is_cut = on.is_on() && on.fault.kind == FaultKind::Outage && on.storages.is_empty();
            is_cut && (by_site || by_segment || on.links.contains(&at))
        })
    }

    fn foresee_dark(&mut self, link: usize) {
        let patience = self.now + self.scene.common.stall_timeout;
        self.events.add(patience, Event::Dark(link as u32));
    }

    /// A transfer begins on a link: where nothing moves, it will time out.
    pub(super) fn foresee_dark_start(&mut self, link: usize) {
        if self.breaking.dark[link].is_some() {
            self.foresee_dark(link);
        }
    }

    /// Fails transfers of a link on which nothing has moved for too long.
    pub(super) fn dark_lasts(&mut self, link: usize) {
        let (now, patience) = (self.now, self.scene.common.stall_timeout);
        let Some(since) = self.breaking.dark[link] else { return };
        let is_stuck = |attempt: &Attempt| {
            let stopped = attempt.flows_since.max(since);
            attempt.link as usize == link && attempt.flow.is_some() && stopped + patience <= now
        };
        let stuck: Vec<Key> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| is_stuck(attempt))
            .map(|(key, _)| key)
            .collect();
        for key in stuck {
            self.give_up(key);
        }
    }

    /// A transfer begins at a storage element: one too many, and its server dies.
    pub(super) fn load_server(&mut self, storage: usize) {
        let Some((limit, delay)) = self.scene.storages[storage].broken.crash else {
            return;
        };
        if self.doors[storage].flows() > limit && self.doors[storage].lasting().is_none() {
            self.events.add(self.now, Event::Crash(storage as u32));
            self.events.add(self.now + delay, Event::Outage(storage as u32, false));
        }
    }

    /// A server dies: its transfers fail, and it is down until it is back.
    pub(super) fn crash(&mut self, storage: usize, at: Timestamp) {
        if self.doors[storage].lasting().is_some() {
            return;
        }
        self.outage(storage, true, at);
        let touches = |attempt: &Attempt| {
            let link = &self.scene.links[attempt.link as usize];
            (link.source == storage || link.destination == storage) && attempt.flow.is_some()
        };
        let lost: Vec<Key> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| touches(attempt))
            .map(|(key, _)| key)
            .collect();
        for key in lost {
            let link = self.attempts.get(key).map_or(0, |attempt| attempt.link);
            let is_source = self.scene.links[link as usize].source == storage;
            let party = if is_source { Party::Source } else { Party::Destination };
            self.fail(key, ErrorClass::Network, party, Phase::Transfer, at);
        }
    }
}
