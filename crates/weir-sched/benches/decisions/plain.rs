//! The plain way: a map of what is queued, in order, and a scan for the first that may start.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load::{Scale, cpu_time};
use weir_sched::Link;

/// A scheduler that keeps one ordered map and counts slots.
pub(crate) struct Plain {
    scale: Scale,
    queued: BTreeMap<(i64, u64), Link>,
    active: BTreeMap<Link, u32>,
    inbound: BTreeMap<u32, u32>,
    outbound: BTreeMap<u32, u32>,
    running: Vec<Link>,
}

impl Plain {
    pub(crate) fn new(scale: Scale) -> Self {
        let queued = (0..scale.queued).map(|id| {
            let job = id / 200;
            let link = scale.link((job % u64::from(scale.links)) as u32);
            ((-(1 + (job / u64::from(scale.links)) as i64 % 5), id), link)
        });
        let mut plain = Self {
            scale,
            queued: queued.collect(),
            active: BTreeMap::new(),
            inbound: BTreeMap::new(),
            outbound: BTreeMap::new(),
            running: Vec::new(),
        };
        while plain.running.len() < scale.active as usize * 9 / 10 && plain.start() {}
        plain
    }

    /// Starts the first that may.
    fn start(&mut self) -> bool {
        let (per_link, per_se) = (
            self.scale.active / self.scale.links * 4,
            self.scale.active / self.scale.ses,
        );
        let used = |counts: &BTreeMap<u32, u32>, se: u32| counts.get(&se).copied().unwrap_or(0);
        let may = |link: &Link| {
            self.active.get(link).copied().unwrap_or(0) < per_link
                && used(&self.inbound, link.destination.0) < per_se
                && used(&self.outbound, link.source.0) < per_se
        };
        let Some((key, link)) = self
            .queued
            .iter()
            .find(|(_, link)| may(link))
            .map(|(key, link)| (*key, *link))
        else {
            return false;
        };
        self.queued.remove(&key);
        *self.active.entry(link).or_default() += 1;
        *self.inbound.entry(link.destination.0).or_default() += 1;
        *self.outbound.entry(link.source.0).or_default() += 1;
        self.running.push(link);
        true
    }

    /// Ends `completions` transfers and starts others.
    pub(crate) fn round(&mut self, completions: usize, turn: usize) -> Duration {
        let begin = cpu_time();
        for n in 0..completions {
            let which = n.wrapping_mul(7919).wrapping_add(turn) % self.running.len();
            let link = self.running.swap_remove(which);
            *self.active.entry(link).or_default() -= 1;
            *self.inbound.entry(link.destination.0).or_default() -= 1;
            *self.outbound.entry(link.source.0).or_default() -= 1;
        }
        while self.running.len() < self.scale.active as usize * 9 / 10 && self.start() {}
        cpu_time().saturating_sub(begin)
    }
}
