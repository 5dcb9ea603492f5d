//! A running storage element: connections, servers, and capacities that change.

use std::collections::VecDeque;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use weir_units::{BitRate, Timestamp};

use crate::draw;
use crate::network::{Network, Rate, ResourceId, Sharing};
use crate::scene::Storage;
use crate::slab::Key;
use crate::spec::CurvePoint;
use crate::unlimited::UNLIMITED;

/// A capacity that moved by less than one part in this many is left as it is, so that the network is not solved for nothing.
const FINE: u64 = 128;

/// The direction of bytes at one end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Out of the storage.
    Read,
    /// Into it.
    Write,
}

/// Places that are taken in turn.
#[derive(Debug)]
struct Line {
    places: u32,
    taken: u32,
    waiting: VecDeque<Key>,
}

impl Line {
    fn new(places: u32) -> Self {
        Self {
            places,
            taken: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Takes a place, or a number in the queue.
    fn take(&mut self, attempt: Key) -> bool {
        if self.taken < self.places {
            self.taken += 1;
            return true;
        }
        self.waiting.push_back(attempt);
        false
    }

    /// Gives a place back; it goes at once to the one it gives, unless there are fewer places now.
    fn give_back(&mut self) -> Option<Key> {
        let next = if self.taken <= self.places {
            self.waiting.pop_front()
        } else {
            None
        };
        self.taken -= u32::from(next.is_none());
        next
    }

    fn leave(&mut self, attempt: Key) {
        self.waiting.retain(|waiting| *waiting != attempt);
    }
}

#[derive(Debug)]
struct Server {
    /// The rate that the balancer believes in.
    nominal: BitRate,
    rate: BitRate,
    resource: ResourceId,
    lines: [Line; 2],
}

/// The part of a storage element that a resource models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoragePart {
    /// Its disks.
    Disk,
    /// A limit on bandwidth that it is configured with.
    Limiter,
    /// One of its servers, by number.
    Server(usize),
}

/// One storage element; see the module.
#[derive(Debug)]
pub(crate) struct Doors {
    connections: [Line; 2],
    servers: Vec<Server>,
    read: Option<ResourceId>,
    write: Option<ResourceId>,
    disk: Option<ResourceId>,
    limiter: Option<ResourceId>,
    /// Flows that read, and that write.
    flows: [u32; 2],
    /// Outages under way, and outages so far.
    outages: (u32, u32),
    stale: bool,
    shown: [u64; 3],
    random: ChaCha8Rng,
}

impl Doors {
    pub(crate) fn new(storage: &Storage, network: &mut Network, random: ChaCha8Rng) -> Self {
        let model = &storage.model;
        let breaks = model.outages.as_ref().is_some_and(|outages| !outages.is_empty());
        let mut resource = |needed: bool| needed.then(|| network.add_resource(UNLIMITED.into(), Sharing::Shared));
        let read = resource(model.read.is_some() || model.read_curve.is_some() || breaks);
        let write = resource(model.write.is_some() || model.write_curve.is_some() || breaks);
        let disk = resource(model.disk.is_some());
        let limiter = storage.bandwidth;
        let limiter = limiter.map(|most| network.add_resource(most.into(), Sharing::Shared));
        let server = |(rate, slots): &(BitRate, u32)| Server {
            nominal: *rate,
            rate: *rate,
            resource: network.add_resource((*rate).into(), Sharing::Shared),
            lines: [Line::new(*slots), Line::new(*slots)],
        };
        Self {
            connections: [model.read_connections, model.write_connections]
                .map(|most| Line::new(most.unwrap_or(u32::MAX))),
            servers: storage.servers.iter().map(server).collect(),
            read,
            write,
            disk,
            limiter,
            flows: [0, 0],
            outages: (0, 0),
            stale: true,
            shown: [UNLIMITED.0; 3],
            random,
        }
    }

    /// Takes a connection, or waits for one.
    pub(crate) fn connect(&mut self, way: Way, attempt: Key) -> bool {
        self.connections[way as usize].take(attempt)
    }

    /// Chooses a server: the least busy one for its rate, or, as far as the storage balances badly, any.
    pub(crate) fn choose(&mut self, imbalance: f64, way: Way) -> Option<u8> {
        let n_servers = self.servers.len();
        if n_servers < 2 {
            return (n_servers == 1).then_some(0);
        }
        if imbalance > 0.0 && draw::draw(&mut self.random) < imbalance {
            return Some(draw::index(&mut self.random, n_servers) as u8);
        }
        let load = |server: &Server| {
            let busy: usize = server.lines.iter().map(|line| line.taken as usize).sum();
            let waiting = server.lines[way as usize].waiting.len();
            // Transfers per Tb/s, so that a server of twice the rate gets twice as many.
            (busy + waiting + 1) as u128 * 1_000_000_000_000 / u128::from(server.nominal.0.max(1))
        };
        let least = (0..n_servers).min_by_key(|at| load(&self.servers[*at]));
        least.map(|at| at as u8)
    }

    /// Takes a slot of a server, or waits for one.
    pub(crate) fn enter(&mut self, server: u8, way: Way, attempt: Key) -> bool {
        self.servers[usize::from(server)].lines[way as usize].take(attempt)
    }

    /// Gives a connection back; the attempt that gets it goes on.
    pub(crate) fn disconnect(&mut self, way: Way) -> Option<Key> {
        self.connections[way as usize].give_back()
    }

    /// Gives a slot back; the attempt that gets it goes on.
    pub(crate) fn exit(&mut self, server: u8, way: Way) -> Option<Key> {
        self.servers[usize::from(server)].lines[way as usize].give_back()
    }

    /// Forgets an attempt that waits for a connection or for a slot.
    pub(crate) fn give_up(&mut self, way: Way, server: Option<u8>, attempt: Key) {
        match server {
            Some(server) => self.servers[usize::from(server)].lines[way as usize].leave(attempt),
            None => self.connections[way as usize].leave(attempt),
        }
    }

    /// The resources that bytes pass, in this way and by this server.
    pub(crate) fn path(&self, way: Way, server: Option<u8>, path: &mut Vec<ResourceId>) {
        let own = match way {
            Way::Read => self.read,
            Way::Write => self.write,
        };
        path.extend(own);
        path.extend(self.disk);
        path.extend(self.limiter);
        path.extend(server.map(|server| self.servers[usize::from(server)].resource));
    }

    /// The resources of the storage.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (ResourceId, StoragePart)> {
        let own = [self.read, self.write, self.disk].into_iter().flatten();
        let servers = self.servers.iter().enumerate();
        own.map(|resource| (resource, StoragePart::Disk))
            .chain(self.limiter.map(|resource| (resource, StoragePart::Limiter)))
            .chain(servers.map(|(number, server)| (server.resource, StoragePart::Server(number))))
    }

    /// Takes over the limits that a storage element has now; gives the attempts that get a place by it.
    pub(crate) fn adapt(&mut self, storage: &Storage, network: &mut Network, now: Timestamp) -> Vec<Key> {
        let places = [storage.model.read_connections, storage.model.write_connections];
        let mut freed = Vec::new();
        for (line, places) in self.connections.iter_mut().zip(places) {
            line.places = places.unwrap_or(u32::MAX);
            while line.taken < line.places
                && let Some(next) = line.waiting.pop_front()
            {
                line.taken += 1;
                freed.push(next);
            }
        }
        for (server, (rate, _)) in self.servers.iter_mut().zip(&storage.servers) {
            if server.rate != *rate {
                server.rate = *rate;
                network.set_capacity(now, server.resource, Rate::from(*rate));
            }
        }
        self.stale = true;
        freed
    }

    pub(crate) fn begin(&mut self, way: Way) {
        self.flows[way as usize] += 1;
        self.stale = true;
    }

    pub(crate) fn end(&mut self, way: Way) {
        self.flows[way as usize] -= 1;
        self.stale = true;
    }

    /// Files being read and written.
    pub(crate) fn flows(&self) -> u32 {
        self.flows[0] + self.flows[1]
    }

    /// Files being written.
    pub(crate) fn writes(&self) -> u32 {
        self.flows[Way::Write as usize]
    }

    /// Begins or ends an outage; returns the number of a new one.
    pub(crate) fn outage(&mut self, begins: bool) -> Option<u32> {
        self.stale = true;
        if begins {
            self.outages = (self.outages.0 + 1, self.outages.1 + 1);
            return Some(self.outages.1);
        }
        self.outages.0 = self.outages.0.saturating_sub(1);
        None
    }

    /// The number of the last outage, if one lasts.
    pub(crate) fn lasting(&self) -> Option<u32> {
        (self.outages.0 > 0).then_some(self.outages.1)
    }

    /// Updates the storage's capacities in the network, if they have changed.
    pub(crate) fn show(&mut self, storage: &Storage, network: &mut Network, now: Timestamp) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let capacities = self.capacities(storage);
        for (at, resource) in [self.read, self.write, self.disk].into_iter().enumerate() {
            let (Some(resource), new, old) = (resource, capacities[at].0, self.shown[at]) else {
                continue;
            };
            if new == old || (new != 0 && old != 0 && new.abs_diff(old) < old / FINE) {
                continue;
            }
            self.shown[at] = new;
            network.set_capacity(now, resource, Rate::from(BitRate(new)));
        }
    }

    /// Its capacities: read, write, and total.
    pub(crate) fn capacities(&self, storage: &Storage) -> [BitRate; 3] {
        if self.outages.0 > 0 {
            return [BitRate::ZERO, BitRate::ZERO, storage.model.disk.unwrap_or(UNLIMITED)];
        }
        let model = &storage.model;
        let [reads, writes] = self.flows;
        let disk = mixed(model.disk, model.mixing_loss.unwrap_or(0.0), reads, writes);
        [
            curve(model.read, model.read_curve.as_deref(), reads),
            curve(model.write, model.write_curve.as_deref(), writes),
            storage
                .broken
                .overload
                .map_or(disk, |(limit, rate)| disk.min(overloaded(rate, limit, reads + writes))),
        ]
    }
}

/// The total rate of so many transfers: linear between the points.
pub(crate) fn curve(most: Option<BitRate>, points: Option<&[CurvePoint]>, active: u32) -> BitRate {
    let most = most.unwrap_or(UNLIMITED);
    let points = points.unwrap_or_default();
    let above = points.iter().position(|point| active <= point.active);
    match (above, points) {
        (_, []) => most,
        // Before the first point the storage is not the bottleneck: the transfers' own rates are.
        (Some(0), [first, ..]) => most.min(first.rate),
        (Some(at), _) => most.min(between(points[at - 1], points[at], active)),
        (None, [.., last]) => most.min(last.rate),
    }
}

fn between(low: CurvePoint, high: CurvePoint, active: u32) -> BitRate {
    let (span, step) = (i128::from(high.active - low.active), i128::from(active - low.active));
    let (from, to) = (i128::from(low.rate.0), i128::from(high.rate.0));
    BitRate((from + (to - from) * step / span) as u64)
}

/// The total rate of a storage that gives way under more transfers than its limit.
fn overloaded(rate: BitRate, limit: u32, active: u32) -> BitRate {
    if active <= limit {
        return rate;
    }
    rate.scale(f64::from(limit) / f64::from(active))
}

/// Total rate of a disk for reads and writes together: it loses most when their numbers are equal.
pub(crate) fn mixed(disk: Option<BitRate>, loss: f64, reads: u32, writes: u32) -> BitRate {
    let disk = disk.unwrap_or(UNLIMITED);
    let (fewer, all) = (reads.min(writes), reads + writes);
    if fewer == 0 || loss == 0.0 {
        return disk;
    }
    let mix = 2.0 * f64::from(fewer) / f64::from(all);
    disk.scale(1.0 - loss * mix)
}

/// Gives out tokens, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    free: u64,
}

impl Tokens {
    /// How long an attempt waits for its tokens.
    pub(crate) fn wait(&mut self, model: &crate::spec::TokenModel, now: Timestamp) -> Duration {
        let each = (1e9 / model.rate) as u64;
        let begin = self.free.max(now.0);
        self.free = begin.saturating_add(each.saturating_mul(u64::from(model.per_attempt)));
        Duration::from_nanos(self.free - now.0) + model.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A storage would not have the knee that was measured.
    #[test]
    fn curves_bend_at_their_points() {
        let point = |active, rate| CurvePoint {
            active,
            rate: BitRate(rate),
        };
        let points = [point(40, 1_000), point(100, 400)];
        let at = |active| curve(Some(BitRate(2_000)), Some(&points), active).0;
        assert_eq!(
            [at(0), at(40), at(70), at(100), at(1_000)],
            [1_000, 1_000, 700, 400, 400]
        );
        assert_eq!(curve(None, None, 7), UNLIMITED);
        assert_eq!(curve(Some(BitRate(500)), Some(&points), 40), BitRate(500));
    }

    /// Reads and writes would not be in each other's way.
    #[test]
    fn mixing_costs_most_in_the_middle() {
        let at = |reads, writes| mixed(Some(BitRate(1_000)), 0.5, reads, writes).0;
        assert_eq!([at(10, 0), at(10, 10), at(30, 10), at(0, 0)], [1_000, 500, 750, 1_000]);
    }

    /// Tokens would come faster than the service makes them.
    #[test]
    fn tokens_queue() {
        let model = crate::spec::TokenModel {
            rate: 10.0,
            latency: Duration::ZERO,
            per_attempt: 2,
        };
        let mut tokens = Tokens::default();
        let waits = [0, 0, 1_000].map(|millis| tokens.wait(&model, Timestamp::from_millis(millis)).as_millis());
        assert_eq!(waits, [200, 400, 200]);
    }
}
