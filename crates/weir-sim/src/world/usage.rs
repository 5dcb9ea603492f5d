//! Mean use of the resources into and out of storage elements.

use std::time::Duration;

use weir_units::BitRate;

use super::World;
use crate::network::ResourceId;
use crate::scene::Scene;

/// Used shares of the resources into and out of a storage element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Of its site's wide-area link, inwards.
    pub wide: f64,
    /// Of its slots, inwards.
    pub slots: f64,
    /// Of shared resources, inwards: the fullest.
    pub shared: f64,
    /// Of its site's wide-area link or of its slots, outwards: the fuller one.
    pub outward: f64,
}

impl Usage {
    /// Combines each part with that of another value.
    fn with(self, other: Self, change: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            wide: change(self.wide, other.wide),
            slots: change(self.slots, other.slots),
            shared: change(self.shared, other.shared),
            outward: change(self.outward, other.outward),
        }
    }
}

/// Sums of samples and their numbers: a sample counts for storage elements and links with an asked rate at its moment.
#[derive(Debug)]
pub(super) struct UsageBook {
    storages: Vec<(Usage, u32)>,
    links: Vec<(f64, u32)>,
}

impl UsageBook {
    pub(super) fn new(scene: &Scene) -> Self {
        Self {
            storages: vec![(Usage::default(), 0); scene.storages.len()],
            links: vec![(0.0, 0); scene.links.len()],
        }
    }

    pub(super) fn add(&mut self, scene: &Scene, at: Duration, storages: &[Usage], links: &[f64]) {
        let (mut is_asked, mut is_used) = (vec![false; links.len()], vec![false; storages.len()]);
        for ask in scene.asks.iter().filter(|ask| ask.from <= at && at < ask.until) {
            let link = &scene.links[ask.link];
            is_asked[ask.link] = true;
            (is_used[link.source], is_used[link.destination]) = (true, true);
        }
        for ((sum, now), _) in self
            .storages
            .iter_mut()
            .zip(storages)
            .zip(is_used)
            .filter(|(_, counts)| *counts)
        {
            *sum = (sum.0.with(*now, |sum, now| sum + now), sum.1 + 1);
        }
        for ((sum, now), _) in self
            .links
            .iter_mut()
            .zip(links)
            .zip(is_asked)
            .filter(|(_, counts)| *counts)
        {
            *sum = (sum.0 + now, sum.1 + 1);
        }
    }

    /// The means; zero where nothing was ever asked.
    pub(super) fn means(&self) -> (Vec<Usage>, Vec<f64>) {
        let mean = |sum: f64, n: u32| sum / f64::from(n.max(1));
        let storage = |(sum, n): &(Usage, u32)| sum.with(*sum, |part, _| mean(part, *n));
        let storages = self.storages.iter().map(storage).collect();
        (storages, self.links.iter().map(|(sum, n)| mean(*sum, *n)).collect())
    }
}

impl World {
    /// The current use of the resources into each storage element.
    pub(super) fn usage(&mut self) -> Vec<Usage> {
        let mut usage = Vec::with_capacity(self.doors.len());
        for at in 0..self.scene.storages.len() {
            let wires = self.wires.of_site(self.scene.storages[at].site);
            let [wide, wide_out] = wires.map(|wire| wire.map_or(0.0, |wire| self.share_of(wire)));
            let [slots, slots_out] = self.checks.slots_in_use(at);
            usage.push(Usage {
                wide,
                slots,
                shared: self.shared_use(at),
                outward: wide_out.max(slots_out),
            });
        }
        usage
    }

    /// How much of a wire is in use.
    fn share_of(&mut self, (resource, most): (ResourceId, BitRate)) -> f64 {
        self.network.used(resource).as_f64() / most.as_f64()
    }

    /// How much is in use of the group into a storage element of which most is.
    fn shared_use(&mut self, storage: usize) -> f64 {
        let mut most: f64 = 0.0;
        for group in 0..self.scene.groups.len() {
            if !self.scene.groups[group].members[storage][0] {
                continue;
            }
            let wire = self.scene.groups[group].segment.and_then(|at| self.wires.segment(at));
            let carried = wire.map_or(0.0, |wire| self.share_of(wire));
            most = most.max(carried).max(self.checks.group_in_use(group));
        }
        most
    }
}
