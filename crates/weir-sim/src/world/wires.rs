//! The network between storage elements: sites' connections, segments, and links that have a capacity of their own.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use weir_plan::stream;
use weir_units::{BitRate, Timestamp};

use crate::draw;
use crate::network::{Network, Rate, ResourceId, Sharing};
use crate::scene::{LinkScene, Scene};

/// How often traffic that is not ours is drawn anew.
pub(crate) const BACKGROUND_PERIOD: Duration = Duration::from_secs(600);

/// One wire: a capacity, and traffic on it that is not ours.
#[derive(Debug)]
struct Wire {
    name: String,
    resource: ResourceId,
    capacity: BitRate,
    background: BitRate,
    variation: f64,
    random: ChaCha8Rng,
}

/// All wires; see the module.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    all: Vec<Wire>,
    /// Of each site, in and out.
    sites: Vec<[Option<ResourceId>; 2]>,
    segments: Vec<ResourceId>,
    links: Vec<Option<ResourceId>>,
}

impl Wires {
    pub(crate) fn new(scene: &Scene, seed: u64, network: &mut Network) -> Self {
        let mut wires = Self::default();
        for site in &scene.sites {
            let variation = site.model.background_variation.unwrap_or(0.0);
            let mut end = |way: &str, capacity: Option<BitRate>, background: Option<BitRate>| {
                let name = format!("{} {way}", site.name);
                capacity
                    .map(|capacity| wires.add(name, capacity, background.unwrap_or_default(), variation, seed, network))
            };
            let ends = [
                end("in", site.model.inward, site.model.background_in),
                end("out", site.model.outward, site.model.background_out),
            ];
            wires.sites.push(ends);
        }
        for segment in &scene.segments {
            let (background, variation) = (segment.background, segment.background_variation);
            let wire = wires.add(
                segment.name.clone(),
                segment.capacity,
                background,
                variation,
                seed,
                network,
            );
            wires.segments.push(wire);
        }
        for link in &scene.links {
            let own = link
                .capacity
                .map(|capacity| wires.add(link.link.to_string(), capacity, BitRate::ZERO, 0.0, seed, network));
            wires.links.push(own);
        }
        wires
    }

    fn add(
        &mut self,
        name: String,
        capacity: BitRate,
        background: BitRate,
        variation: f64,
        seed: u64,
        network: &mut Network,
    ) -> ResourceId {
        let mut wire = Wire {
            resource: network.add_resource(capacity.into(), Sharing::Shared),
            random: stream(seed, &format!("background {name}")),
            name,
            capacity,
            background,
            variation,
        };
        network.set_capacity(Timestamp(0), wire.resource, Rate::from(wire.left()));
        let resource = wire.resource;
        self.all.push(wire);
        resource
    }

    /// The wires between two sites; within a site there are none.
    pub(crate) fn path(&self, scene: &Scene, link: &LinkScene, path: &mut Vec<ResourceId>) {
        let [from, to] = [link.source, link.destination].map(|end| scene.storages[end].site);
        if from != to {
            path.extend(self.sites[from][1]);
            path.extend(link.via.iter().map(|segment| self.segments[*segment]));
            path.extend(self.sites[to][0]);
        }
    }

    /// The wire that a link has to itself.
    pub(crate) fn own(&self, link: usize, path: &mut Vec<ResourceId>) {
        path.extend(self.links[link]);
    }

    /// Those with traffic that is not ours and that moves.
    pub(crate) fn restless(&self) -> impl Iterator<Item = u32> {
        let moves = |wire: &Wire| wire.variation > 0.0 && wire.background > BitRate::ZERO;
        self.all
            .iter()
            .zip(0..)
            .filter(move |(wire, _)| moves(wire))
            .map(|(_, at)| at)
    }

    /// Draws the traffic of a wire that is not ours anew.
    pub(crate) fn stir(&mut self, wire: u32, network: &mut Network, now: Timestamp) {
        let wire = &mut self.all[wire as usize];
        let left = wire.left();
        network.set_capacity(now, wire.resource, Rate::from(left));
    }

    /// Gives a segment another capacity.
    pub(crate) fn change(&mut self, segment: usize, capacity: BitRate, network: &mut Network, now: Timestamp) {
        let resource = self.segments[segment];
        if let Some(wire) = self.all.iter_mut().find(|wire| wire.resource == resource) {
            wire.capacity = capacity;
            let left = wire.left();
            network.set_capacity(now, resource, Rate::from(left));
        }
    }

    /// What brings bytes into a site, and what it can carry.
    pub(crate) fn inward(&self, site: usize) -> Option<(ResourceId, BitRate)> {
        let resource = self.sites[site][0]?;
        let wire = self.all.iter().find(|wire| wire.resource == resource)?;
        Some((resource, wire.capacity))
    }

    /// Name, resource and whole capacity of each.
    pub(crate) fn meters(&self) -> impl Iterator<Item = (&str, ResourceId, BitRate)> {
        self.all
            .iter()
            .map(|wire| (wire.name.as_str(), wire.resource, wire.capacity))
    }
}

impl Wire {
    /// What is left for us: traffic that is not ours moves evenly about its mean.
    fn left(&mut self) -> BitRate {
        let mut taken = self.background;
        if self.variation > 0.0 {
            taken = taken.scale(1.0 + self.variation * (2.0 * draw::draw(&mut self.random) - 1.0));
        }
        BitRate(self.capacity.0.saturating_sub(taken.0))
    }
}
