//! From the faults that are on to the rules of each relay: pure.
//!
//! A pair of storages is one direction of traffic. Its bytes cross one of two places where a relay may stand: that
//! of the source, downwards, if the destination pulls; that of the destination, upwards, if the source pushes. Storages
//! connect from their own addresses, so that either relay knows the other end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weir_grid::{CATALOG_DOOR, DiskFailure, ISSUER_DOOR, Obstacle, SlowDisk, TRANSFER_DOOR};
use weir_model::{Link, RseName};
use weir_network::relay::{Bucket, Damage, DamageKind, Direction, Rule};
use weir_plan::Mode;
use weir_plan::fault::{Amount, Fault, FaultKind, FaultPlace, Level, Service, Way};
use weir_units::BitRate;

use super::ground::{NetworkGround, SharedPath};

/// A segment of TCP on Ethernet, in bytes, and the constant of Mathis and others (1997).
const SEGMENT: f64 = 1_448.0;
const MATHIS: f64 = 1.22;
/// Bytes of an issuer's answer, about.
const ANSWER: f64 = 2_000.0;
/// Nothing that is reset always is reset quite always: e^-14 is a millionth.
const SURELY: f64 = 14.0;

/// The ways of the bytes of a pair: down from the source where the destination pulls, and up to the destination where the source pushes.
const BYTES: [(bool, Option<Direction>); 2] = [(true, Some(Direction::Down)), (false, Some(Direction::Up))];

/// A storage of the run.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) name: RseName,
    pub(super) site: String,
    /// The address that everybody knows.
    pub(super) door: SocketAddr,
    /// Whether it is another program's. Then it connects from an address that the system chooses.
    pub(super) is_foreign: bool,
}

impl End {
    /// The addresses that its connections may come from.
    fn peers(&self) -> Vec<IpAddr> {
        let ip = self.door.ip();
        let chosen = (self.is_foreign && ip.is_loopback()).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        std::iter::once(ip).chain(chosen).collect()
    }
}

/// Storages, the network between them, and the size of files.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) ends: Vec<End>,
    pub(super) network: NetworkGround,
    /// Whether packets can be lost and queue: then relays leave that to them.
    pub(super) has_packets: bool,
    /// Sizes of the files that each link is asked for.
    pub(super) file_sizes: BTreeSet<(Link, u64)>,
}

impl Ground {
    fn link(&self, (source, destination): (usize, usize)) -> Link {
        Link {
            source: self.ends[source].name.clone(),
            destination: self.ends[destination].name.clone(),
        }
    }

    /// The size of the smallest files of a pair above this one.
    fn file_above(&self, pair: (usize, usize), size: u64) -> Option<u64> {
        let link = self.link(pair);
        let sizes = self
            .file_sizes
            .iter()
            .filter(|(of, larger)| *of == link && *larger > size);
        sizes.map(|(_, size)| *size).min()
    }

    /// The pairs whose traffic passes the place of a fault.
    pub(super) fn pairs(&self, fault: &Fault) -> Vec<(usize, usize)> {
        let way = fault.place.way().unwrap_or(Way::Both);
        let segment = match &fault.place {
            FaultPlace::Segment(name) => self
                .network
                .shared(name)
                .map(|path| path.links.clone())
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        let is_at = |from: &End, to: &End| match &fault.place {
            FaultPlace::Rse(pattern, _) => {
                way.is_out() && pattern.fits(from.name.as_str()) || way.is_in() && pattern.fits(to.name.as_str())
            }
            FaultPlace::Site(pattern, _) => {
                from.site != to.site
                    && (way.is_out() && pattern.fits(&from.site) || way.is_in() && pattern.fits(&to.site))
            }
            FaultPlace::Link(pattern) => {
                pattern.source.fits(from.name.as_str()) && pattern.destination.fits(to.name.as_str())
            }
            FaultPlace::Segment(_) => segment
                .iter()
                .any(|link| link.source == from.name && link.destination == to.name),
            FaultPlace::Service(_) | FaultPlace::Workload(_) => false,
        };
        self.all_pairs()
            .filter(|(from, to)| is_at(&self.ends[*from], &self.ends[*to]))
            .collect()
    }

    fn pairs_of(&self, links: &[Link]) -> Vec<(usize, usize)> {
        self.all_pairs()
            .filter(|pair| links.contains(&self.link(*pair)))
            .collect()
    }

    fn all_pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let n_ends = self.ends.len();
        (0..n_ends)
            .flat_map(move |from| (0..n_ends).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
    }
}

/// Rates that connections share, by the fault or the path that sets them: kept from one set of rules to the next.
#[derive(Debug, Default)]
pub(super) struct Buckets(BTreeMap<String, Arc<Bucket>>);

impl Buckets {
    fn get(&mut self, name: &str, rate: BitRate) -> Arc<Bucket> {
        let bytes = (rate.0 / 8).max(1);
        let bucket = self
            .0
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Bucket::new(bytes)));
        bucket.set(bytes);
        bucket.clone()
    }
}

/// Rules by the name of the door.
pub(super) type RulesByDoor = BTreeMap<String, Vec<Rule>>;

/// The rules of every relay while these faults are on.
pub(super) fn rules(ground: &Ground, on: &[(&Fault, Level)], buckets: &mut Buckets) -> RulesByDoor {
    let mut rules = RulesByDoor::new();
    let mut builder = Builder {
        ground,
        rules: &mut rules,
    };
    builder.network(on, buckets);
    for (fault, level) in on {
        if !(ground.has_packets && is_of_packets(fault.kind)) {
            builder.fault(fault, *level, on, buckets);
        }
    }
    rules
}

/// Whether a fault acts on packets where it can.
pub(super) fn is_of_packets(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::PacketLoss | FaultKind::Mtu | FaultKind::Capacity)
}

struct Builder<'r> {
    ground: &'r Ground,
    rules: &'r mut RulesByDoor,
}

impl Builder<'_> {
    /// Limits of the network, less what others take of them.
    fn network(&mut self, on: &[(&Fault, Level)], buckets: &mut Buckets) {
        for path in &self.ground.network.shared {
            let taken = on.iter().filter(|(fault, _)| fault.kind == FaultKind::ForeignLoad);
            let taken = taken
                .filter(|(fault, _)| is_path(fault, &path.name))
                .map(|(fault, level)| rate(fault, *level));
            let taken: u64 = taken.map(|rate| rate.0).sum();
            let left = BitRate(path.capacity.0.saturating_sub(taken).max(8));
            let shared = Some(buckets.get(&format!("path {}", path.name), left));
            self.on_pairs(
                &self.routed(path, on),
                &Rule {
                    shared,
                    ..Rule::default()
                },
            );
        }
        for (link, rate) in &self.ground.network.streams {
            let each = Some((rate.0 / 8).max(1));
            self.on_pairs(
                &self.ground.pairs_of(std::slice::from_ref(link)),
                &Rule {
                    each,
                    ..Rule::default()
                },
            );
        }
    }

    /// The pairs whose traffic takes a path: its own, less those on a detour, and those whose detour it is.
    fn routed(&self, path: &SharedPath, on: &[(&Fault, Level)]) -> Vec<(usize, usize)> {
        let mut pairs = self.ground.pairs_of(&path.links);
        for (fault, _) in on.iter().filter(|(fault, _)| fault.kind == FaultKind::Reroute) {
            let moved = self.ground.pairs(fault);
            if fault.details.to.as_ref() == Some(&path.name) {
                pairs.extend(
                    moved
                        .into_iter()
                        .filter(|pair| !pairs.contains(pair))
                        .collect::<Vec<_>>(),
                );
            } else if path.has_detours {
                pairs.retain(|pair| !moved.contains(pair));
            }
        }
        pairs
    }

    fn fault(&mut self, fault: &Fault, level: Level, on: &[(&Fault, Level)], buckets: &mut Buckets) {
        let pairs = self.ground.pairs(fault);
        let rule = Rule::default();
        match fault.kind {
            FaultKind::Capacity => {
                let shared = Some(buckets.get(&format!("fault {}", fault.name), softened(fault, level)));
                self.on_pairs(&pairs, &Rule { shared, ..rule });
            }
            FaultKind::Window | FaultKind::PacketLoss => {
                for pair in pairs {
                    let each = Some(self.stream(fault, level, pair, on));
                    self.on_pairs(&[pair], &Rule { each, ..rule.clone() });
                }
            }
            FaultKind::RoundTrip => {
                let delay = delay(fault).mul_f64(level) / 2;
                self.both_ways(&pairs, &Rule { delay, ..rule });
            }
            FaultKind::Mtu => {
                let longest = match fault.amount {
                    Amount::Size(size) => Some(size.0),
                    _ => None,
                };
                self.on_pairs(&pairs, &Rule { longest, ..rule });
            }
            FaultKind::Failures => self.failures(fault, level, &pairs),
            FaultKind::Outage => self.outage(fault, &pairs),
            FaultKind::SlowIssuer => self.at(
                ISSUER_DOOR,
                Rule {
                    delay: delay(fault).mul_f64(level) / 2,
                    ..rule
                },
            ),
            FaultKind::FailingIssuer => self.at(
                ISSUER_DOOR,
                Rule {
                    damage: Some(Damage {
                        kind: DamageKind::Reset,
                        per_byte: hazard(fault, level) / ANSWER,
                        above: 0,
                    }),
                    ..rule
                },
            ),
            _ => {}
        }
    }

    /// Damage at such a chance for each byte that files of the usual size meet it as often as they should.
    fn failures(&mut self, fault: &Fault, level: Level, pairs: &[(usize, usize)]) {
        let Some(kind) = damage(fault) else { return };
        let above = fault.details.above.map_or(0, |size| size.0);
        let ways = match fault.details.mode {
            Some(Mode::Pull) => &BYTES[..1],
            Some(Mode::Push) => &BYTES[1..],
            _ => &BYTES[..],
        };
        for pair in pairs {
            let Some(size) = self.ground.file_above(*pair, above) else {
                continue;
            };
            let per_byte = hazard(fault, level) / (size - above) as f64;
            let rule = Rule {
                damage: Some(Damage { kind, per_byte, above }),
                ..Rule::default()
            };
            self.spread(&[*pair], &rule, ways);
        }
    }

    fn outage(&mut self, fault: &Fault, pairs: &[(usize, usize)]) {
        let cut = Rule {
            is_cut: true,
            ..Rule::default()
        };
        match &fault.place {
            FaultPlace::Service(Service::Issuer) => self.at(ISSUER_DOOR, cut),
            FaultPlace::Service(Service::Transfer) => self.at(TRANSFER_DOOR, cut),
            FaultPlace::Service(Service::Catalog) => self.at(CATALOG_DOOR, cut),
            FaultPlace::Rse(pattern, _) => {
                for end in self.ground.ends.iter().filter(|end| pattern.fits(end.name.as_str())) {
                    self.at(end.name.as_str(), cut.clone());
                }
                self.both_ways(pairs, &cut);
            }
            _ => self.both_ways(pairs, &cut),
        }
    }

    /// Bytes per second of one stream that a window or losses allow over the round trip.
    fn stream(&self, fault: &Fault, level: Level, pair: (usize, usize), on: &[(&Fault, Level)]) -> u64 {
        let link = self.ground.link(pair);
        let delays = on
            .iter()
            .filter(|(other, _)| other.kind == FaultKind::RoundTrip && self.ground.pairs(other).contains(&pair));
        let added: f64 = delays.map(|(other, level)| delay(other).as_secs_f64() * level).sum();
        let seconds = (self.ground.network.round_trip(&link).as_secs_f64() + added).max(1e-4);
        let bytes = match fault.amount {
            Amount::Size(size) => size.0 as f64 / level / seconds,
            Amount::Share(share) => {
                self.ground.network.segment.unwrap_or(SEGMENT) / seconds * MATHIS / (share * level).sqrt()
            }
            _ => f64::MAX,
        };
        (bytes as u64).max(1)
    }

    /// A rule for the bytes of these pairs.
    fn on_pairs(&mut self, pairs: &[(usize, usize)], rule: &Rule) {
        self.spread(pairs, rule, &BYTES);
    }

    /// A rule for everything that the ends of these pairs say to each other.
    fn both_ways(&mut self, pairs: &[(usize, usize)], rule: &Rule) {
        self.spread(pairs, rule, &[(true, None), (false, None)]);
    }

    /// A rule at the ends of these pairs: at the source or at the destination, for a direction or for both.
    fn spread(&mut self, pairs: &[(usize, usize)], rule: &Rule, ways: &[(bool, Option<Direction>)]) {
        let mut peers: BTreeMap<(usize, bool), Vec<IpAddr>> = BTreeMap::new();
        for (from, to) in pairs {
            for (end, is_source, other) in [(*from, true, *to), (*to, false, *from)] {
                let other = &self.ground.ends[other];
                // The grid's services connect from the same address as other programs do: to cut it would cut them off.
                if !(rule.is_cut && other.is_foreign) {
                    peers.entry((end, is_source)).or_default().extend(other.peers());
                }
            }
        }
        for ((end, is_source), peers) in peers {
            let Some((_, direction)) = ways.iter().find(|(at_source, _)| *at_source == is_source) else {
                continue;
            };
            let rule = Rule {
                peers: Some(peers.into()),
                direction: *direction,
                ..rule.clone()
            };
            let name = self.ground.ends[end].name.to_string();
            self.at(&name, rule);
        }
    }

    fn at(&mut self, door: &str, rule: Rule) {
        self.rules.entry(door.to_owned()).or_default().push(rule);
    }
}

/// The rule of a server that has died: its connections break, and new ones are not answered.
pub(super) fn dead() -> Rule {
    Rule {
        is_broken: true,
        is_cut: true,
        ..Rule::default()
    }
}

/// How the disks of each storage are slow while these faults are on.
pub(super) fn disks(ground: &Ground, on: &[(&Fault, Level)], buckets: &mut Buckets) -> BTreeMap<String, SlowDisk> {
    let mut disks: BTreeMap<String, SlowDisk> = BTreeMap::new();
    for (rse, rates) in &ground.network.disks {
        let disk = disks.entry(rse.to_string()).or_default();
        let mut bucket = |way: &str, rate: Option<BitRate>| {
            let name = format!("{way} {rse}");
            rate.map(|rate| buckets.get(&name, rate))
        };
        let both = bucket("disk", rates.both);
        disk.reads
            .extend(bucket("reads", rates.read).into_iter().chain(both.clone()));
        disk.writes
            .extend(bucket("writes", rates.write).into_iter().chain(both));
    }
    for (fault, level) in on {
        let FaultPlace::Rse(pattern, way) = &fault.place else {
            continue;
        };
        for end in ground.ends.iter().filter(|end| pattern.fits(end.name.as_str())) {
            let disk = disks.entry(end.name.to_string()).or_default();
            let mut bucket = || buckets.get(&format!("fault {} {}", fault.name, end.name), softened(fault, *level));
            match fault.kind {
                FaultKind::SlowRead => disk.reads.push(bucket()),
                FaultKind::SlowWrite => disk.writes.push(bucket()),
                FaultKind::SlowDisk => {
                    let both = bucket();
                    disk.reads.push(both.clone());
                    disk.writes.push(both);
                }
                FaultKind::SlowStream => {
                    let rate = Some((softened(fault, *level).0 / 8).max(1));
                    let slower = |other: Option<u64>| rate.min(other.or(rate));
                    if way.is_out() {
                        disk.streams[0] = slower(disk.streams[0]);
                    }
                    if way.is_in() {
                        disk.streams[1] = slower(disk.streams[1]);
                    }
                }
                FaultKind::Failures => {
                    let failing = disk_failure(fault).map(|why| (share(fault) * level, why));
                    for (at, is_meant) in [way.is_out(), way.is_in()].into_iter().enumerate() {
                        disk.failing[at] = failing.filter(|_| is_meant).or(disk.failing[at]);
                    }
                }
                FaultKind::Mixing => disk.mixing = share(fault) * level,
                FaultKind::ReadBack => disk.reads_back = true,
                FaultKind::SlowClose => disk.close += delay(fault).mul_f64(*level),
                FaultKind::Corrupt => disk.corrupt = share(fault) * level,
                FaultKind::Vanish => disk.vanish = share(fault) * level,
                FaultKind::Connections => {
                    let limit = limit(fault, *level);
                    disk.connections = [limit.filter(|_| way.is_out()), limit.filter(|_| way.is_in())];
                }
                FaultKind::Quota => disk.quota = size(fault),
                FaultKind::Overload => disk.overload = overload(fault, *level),
                FaultKind::Overwrite => disk.overwrites = share(fault) * level,
                FaultKind::SlowDelete => disk.deletion += delay(fault).mul_f64(*level),
                _ => {}
            }
        }
    }
    disks
}

/// The copies that each storage takes at once while these faults are on, where they bound it.
///
/// Disks bound reads; they alone would receive small files that wait for their turn.
pub(super) fn copies(ground: &Ground, on: &[(&Fault, Level)]) -> BTreeMap<String, u32> {
    let mut copies = BTreeMap::new();
    for (fault, level) in on.iter().filter(|(fault, _)| fault.kind == FaultKind::Connections) {
        let (FaultPlace::Rse(pattern, way), Some(limit)) = (&fault.place, limit(fault, *level)) else {
            continue;
        };
        for end in ground
            .ends
            .iter()
            .filter(|end| way.is_in() && pattern.fits(end.name.as_str()))
        {
            let least = copies.entry(end.name.to_string()).or_insert(limit);
            *least = limit.min(*least);
        }
    }
    copies
}

/// The damage of a relay that brings the errors of a fault, if one does.
pub(super) fn damage(fault: &Fault) -> Option<DamageKind> {
    match fault.details.error.as_deref()? {
        "network" => Some(DamageKind::Reset),
        "timeout" => Some(DamageKind::Stall),
        "tls" => Some(DamageKind::Change),
        _ => None,
    }
}

/// The failure of a disk that brings the errors of a fault, if one does.
pub(super) fn disk_failure(fault: &Fault) -> Option<DiskFailure> {
    let (FaultKind::Failures, FaultPlace::Rse(..)) = (fault.kind, &fault.place) else {
        return None;
    };
    if fault.details.mode.is_some() || fault.details.above.is_some() {
        return None;
    }
    match fault.details.error.as_deref()? {
        "permission" => Some(DiskFailure::Refused(Obstacle::Permission)),
        "not-found" => Some(DiskFailure::Refused(Obstacle::Missing)),
        "no-space" => Some(DiskFailure::Refused(Obstacle::NoSpace)),
        "protocol" => Some(DiskFailure::Refused(Obstacle::Io)),
        "overload" => Some(DiskFailure::Refused(Obstacle::Busy)),
        "checksum" => Some(DiskFailure::Changed),
        _ => None,
    }
}

/// Whether a fault is at a shared path of the network.
fn is_path(fault: &Fault, path: &str) -> bool {
    match &fault.place {
        FaultPlace::Segment(name) => name == path,
        FaultPlace::Site(pattern, way) => {
            let site = |end: &str| path.strip_prefix("site ").and_then(|rest| rest.strip_suffix(end));
            way.is_in() && site(" in").is_some_and(|site| pattern.fits(site))
                || way.is_out() && site(" out").is_some_and(|site| pattern.fits(site))
        }
        FaultPlace::Link(pattern) => {
            let link = path.strip_prefix("link ").and_then(|link| link.parse::<Link>().ok());
            link.is_some_and(|link| pattern.fits(&link))
        }
        _ => false,
    }
}

fn rate(fault: &Fault, level: Level) -> BitRate {
    match fault.amount {
        Amount::Rate(rate) => rate.scale(level),
        _ => BitRate::ZERO,
    }
}

/// A limit that a fault sets: at a part of its level it is so much less hard.
pub(super) fn softened(fault: &Fault, level: Level) -> BitRate {
    match fault.amount {
        Amount::Rate(rate) => rate.scale(1.0 / level),
        _ => BitRate(u64::MAX),
    }
}

fn share(fault: &Fault) -> f64 {
    match fault.amount {
        Amount::Share(share) => share,
        _ => 0.0,
    }
}

fn limit(fault: &Fault, level: Level) -> Option<u32> {
    match fault.amount {
        Amount::Limit(limit) => Some((f64::from(limit) / level).round() as u32),
        _ => None,
    }
}

fn size(fault: &Fault) -> Option<u64> {
    match fault.amount {
        Amount::Size(size) => Some(size.0),
        _ => None,
    }
}

/// The limit, and the bytes per second of those within it.
fn overload(fault: &Fault, level: Level) -> Option<(u32, u64)> {
    let Amount::Limit(limit) = fault.amount else {
        return None;
    };
    let rate = fault.details.rate?.scale(1.0 / level);
    Some((limit, rate.0 / 8))
}

fn delay(fault: &Fault) -> Duration {
    match fault.amount {
        Amount::Delay(delay) => delay,
        _ => Duration::ZERO,
    }
}

/// Damages of one file, on average, so that this share of files meets one.
fn hazard(fault: &Fault, level: Level) -> f64 {
    match fault.amount {
        Amount::Share(share) => (-(1.0 - share * level).ln()).min(SURELY),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
