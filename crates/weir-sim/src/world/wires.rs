//! The network between storage elements: sites' connections, segments, and links that have a capacity of their own.

use std::time::Duration;

use weir_plan::fault::Way;
use weir_units::{BitRate, Timestamp};
use weir_world::{Place, PlaceKind};

use crate::background::Background;
use crate::network::{Network, Rate, ResourceId, Sharing};
use crate::scene::{LinkScene, Scene};

/// No traffic that is not ours.
const ALONE: (BitRate, f64) = (BitRate::ZERO, 0.0);

/// One wire: a capacity, and traffic on it that is not ours.
#[derive(Debug)]
struct Wire {
    name: String,
    place: Place,
    resource: ResourceId,
    capacity: BitRate,
    background: Background,
    /// Traffic of others that a fault brings.
    foreign: BitRate,
    /// When its capacity last changed, and the capacity before.
    before: (Timestamp, BitRate),
}

/// All wires; see the module.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    all: Vec<Wire>,
    /// Of each site, in and out.
    sites: Vec<[Option<ResourceId>; 2]>,
    segments: Vec<ResourceId>,
    links: Vec<Option<ResourceId>>,
    /// The transfer service's own host, through which streamed copies go.
    service: Option<ResourceId>,
}

impl Wires {
    pub(crate) fn new(scene: &Scene, seed: u64, network: &mut Network) -> Self {
        let mut wires = Self::default();
        for site in &scene.sites {
            let variation = site.model.background_variation.unwrap_or(0.0);
            let mut end = |way: &str, kind: PlaceKind, capacity: Option<BitRate>, background: Option<BitRate>| {
                let names = (format!("{} {way}", site.name), Place::new(kind, &site.name));
                let background = (background.unwrap_or_default(), variation);
                capacity.map(|capacity| wires.add(names, capacity, background, seed, network))
            };
            let ends = [
                end("in", PlaceKind::SiteIn, site.model.inward, site.model.background_in),
                end("out", PlaceKind::SiteOut, site.model.outward, site.model.background_out),
            ];
            wires.sites.push(ends);
        }
        for segment in &scene.segments {
            let background = (segment.background, segment.background_variation);
            let names = (segment.name.clone(), Place::new(PlaceKind::Segment, &segment.name));
            let wire = wires.add(names, segment.capacity, background, seed, network);
            wires.segments.push(wire);
        }
        for link in &scene.links {
            let names = |name: String| (name.clone(), Place::new(PlaceKind::Path, name));
            let own = link
                .capacity
                .map(|capacity| wires.add(names(link.link.to_string()), capacity, ALONE, seed, network));
            wires.links.push(own);
        }
        let rate = scene.common.streamed_rate;
        let names = (
            "transfer service".to_owned(),
            Place::new(PlaceKind::Service, "transfer"),
        );
        wires.service = rate.map(|rate| wires.add(names, rate, ALONE, seed, network));
        wires
    }

    fn add(
        &mut self,
        (name, place): (String, Place),
        capacity: BitRate,
        (background, variation): (BitRate, f64),
        seed: u64,
        network: &mut Network,
    ) -> ResourceId {
        let mut wire = Wire {
            resource: network.add_resource(capacity.into(), Sharing::Shared),
            background: Background::new(&name, background, variation, seed),
            foreign: BitRate::ZERO,
            name,
            place,
            capacity,
            before: (Timestamp(0), capacity),
        };
        network.set_capacity(Timestamp(0), wire.resource, Rate::from(wire.left()));
        let resource = wire.resource;
        self.all.push(wire);
        resource
    }

    /// The wires that a link uses: the segments that it names, and between two sites their connections.
    pub(crate) fn path(&self, scene: &Scene, link: &LinkScene, path: &mut Vec<ResourceId>) {
        let [from, to] = [link.source, link.destination].map(|end| scene.storages[end].site);
        let is_wide = from != to;
        path.extend(self.sites[from][1].filter(|_| is_wide));
        path.extend(link.via.iter().map(|segment| self.segments[*segment]));
        path.extend(self.sites[to][0].filter(|_| is_wide));
    }

    /// The wire that a link has to itself.
    pub(crate) fn own(&self, link: usize, path: &mut Vec<ResourceId>) {
        path.extend(self.links[link]);
    }

    /// Adds the resources that a streamed copy crosses beside its link.
    pub(crate) fn through_service(&self, path: &mut Vec<ResourceId>) {
        path.extend(self.service);
    }

    /// The wires with changing foreign traffic.
    pub(crate) fn restless(&self) -> impl Iterator<Item = u32> {
        let moving = self.all.iter().zip(0..).filter(|(wire, _)| wire.background.moves());
        moving.map(|(_, at)| at)
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
        let foreign = self
            .all
            .iter()
            .find(|wire| wire.resource == resource)
            .map(|wire| wire.foreign);
        self.set(resource, (capacity, foreign.unwrap_or_default()), network, now);
    }

    /// Gives a link's own wire this capacity, and traffic of others.
    pub(crate) fn break_link(&mut self, link: usize, to: (BitRate, BitRate), network: &mut Network, now: Timestamp) {
        if let Some(resource) = self.links[link] {
            self.set(resource, to, network, now);
        }
    }

    /// Gives a site's connection this capacity in one direction, and traffic of others.
    pub(crate) fn break_site(
        &mut self,
        site: usize,
        way: Way,
        to: (BitRate, BitRate),
        network: &mut Network,
        now: Timestamp,
    ) {
        if let Some(resource) = self.sites[site][usize::from(way == Way::Out)] {
            self.set(resource, to, network, now);
        }
    }

    /// Gives a segment this capacity, and traffic of others.
    pub(crate) fn break_segment(
        &mut self,
        segment: usize,
        to: (BitRate, BitRate),
        network: &mut Network,
        now: Timestamp,
    ) {
        self.set(self.segments[segment], to, network, now);
    }

    fn set(&mut self, resource: ResourceId, to: (BitRate, BitRate), network: &mut Network, now: Timestamp) {
        let Some(wire) = self.all.iter_mut().find(|wire| wire.resource == resource) else {
            return;
        };
        if (wire.capacity, wire.foreign) == to {
            return;
        }
        wire.before = (now, wire.capacity);
        (wire.capacity, wire.foreign) = to;
        let left = wire.left();
        network.set_capacity(now, resource, Rate::from(left));
    }

    /// Each wire as a place.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Place, ResourceId)> {
        self.all.iter().map(|wire| (&wire.place, wire.resource))
    }

    /// Name, resource and whole capacity of each: after a change the larger one for a while, since rates follow within
    /// the next tick.
    pub(crate) fn meters(&self, now: Timestamp, tick: Duration) -> impl Iterator<Item = (&str, ResourceId, BitRate)> {
        let most = move |wire: &Wire| match wire.before {
            (changed, before) if now < changed + 2 * tick => wire.capacity.max(before),
            _ => wire.capacity,
        };
        self.all
            .iter()
            .map(move |wire| (wire.name.as_str(), wire.resource, most(wire)))
    }
}

impl Wire {
    /// The capacity left to the run.
    fn left(&mut self) -> BitRate {
        let left = self.background.left(self.capacity);
        BitRate(left.0.saturating_sub(self.foreign.0))
    }
}
