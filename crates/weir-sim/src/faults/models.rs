//! The models of things while faults are on.

use std::time::Duration;

use weir_plan::fault::{Amount, Fault, FaultKind, FaultPlace, Level, Way};
use weir_units::{BitRate, Bytes};
use weir_world::{CopyMode, ErrorClass};

use super::scene_fault::SceneFault;
use super::state::{Counts, FailureRule};
use crate::scene::{LinkScene, Scene, Storage};
use crate::unlimited::UNLIMITED;

/// Difference of clocks that the check of a token forgives (`weir_auth::LEEWAY`).
const LEEWAY: Duration = Duration::from_secs(60);

/// The limits of a storage element that a kind changes: reads, writes, both together.
pub(super) fn needs(kind: FaultKind) -> [bool; 3] {
    match kind {
        FaultKind::SlowRead => [true, false, false],
        FaultKind::SlowWrite => [false, true, false],
        FaultKind::SlowDisk | FaultKind::Mixing | FaultKind::Overload => [false, false, true],
        FaultKind::Outage | FaultKind::Crash | FaultKind::FrozenSite | FaultKind::KilledSite => [true, true, false],
        _ => [false; 3],
    }
}

/// Whether a kind changes the capacity of a link.
pub(super) fn needs_wire(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Outage | FaultKind::Capacity | FaultKind::ForeignLoad)
}

/// A limit that a fault sets: at a part of its level it is so much less hard.
fn softened(rate: BitRate, level: Level) -> BitRate {
    rate.scale(1.0 / level).max(BitRate(1))
}

fn at_most(limit: &mut Option<BitRate>, most: BitRate) {
    *limit = Some(limit.map_or(most, |limit| limit.min(most)));
}

fn count(limit: u32, level: Level) -> u32 {
    (f64::from(limit) / level).round().min(f64::from(u32::MAX)) as u32
}

fn rule(fault: &Fault, share: f64, level: Level) -> Option<FailureRule> {
    let details = &fault.details;
    Some(FailureRule {
        class: ErrorClass::parse(details.error.as_deref()?)?,
        share: share * level,
        mode: details.mode.and_then(|mode| CopyMode::parse(mode.as_str())),
        above: details.above,
        way: fault.place.way().unwrap_or(Way::Both),
    })
}

/// A storage element whose clock is behind refuses every token, once the difference exceeds the leeway of its check.
fn skewed(behind: Duration) -> Option<FailureRule> {
    (behind > LEEWAY).then_some(FailureRule {
        class: ErrorClass::Token,
        share: 1.0,
        mode: None,
        above: None,
        way: Way::Both,
    })
}

/// A storage element with its faults.
pub(crate) fn storage(base: &Storage, at: usize, faults: &[SceneFault]) -> Storage {
    let mut now = base.clone();
    for on in faults.iter().filter(|on| on.is_on() && on.storages.contains(&at)) {
        break_storage(&mut now, on);
    }
    now
}

fn break_storage(storage: &mut Storage, on: &SceneFault) {
    let (fault, level) = (&on.fault, on.level);
    let (model, broken) = (&mut storage.model, &mut storage.broken);
    let way = fault.place.way().unwrap_or(Way::Both);
    match (fault.kind, fault.amount) {
        (FaultKind::SlowRead, Amount::Rate(rate)) => at_most(&mut model.read, softened(rate, level)),
        (FaultKind::SlowWrite, Amount::Rate(rate)) => at_most(&mut model.write, softened(rate, level)),
        (FaultKind::SlowDisk, Amount::Rate(rate)) => at_most(&mut model.disk, softened(rate, level)),
        (FaultKind::SlowStream, Amount::Rate(rate)) => at_most(&mut model.stream_rate, softened(rate, level)),
        (FaultKind::SlowClose, Amount::Delay(delay)) => broken.close += delay.mul_f64(level),
        (FaultKind::SlowDelete, Amount::Delay(delay)) => broken.deletion += delay.mul_f64(level),
        (FaultKind::ReadBack, _) => model.readback = Some(true),
        (FaultKind::Mixing, Amount::Share(share)) => model.mixing_loss = Some(share * level),
        (FaultKind::Uneven, Amount::Share(share)) => model.imbalance = Some(share * level),
        (FaultKind::Overwrite, Amount::Share(share)) => model.overwrite = Some(share * level),
        (FaultKind::Vanish, Amount::Share(share)) => broken.vanish = share * level,
        (FaultKind::Corrupt, Amount::Share(share)) => broken.corrupt = share * level,
        (FaultKind::Quota, Amount::Size(size)) => broken.quota = Some(size.0),
        (FaultKind::Connections, Amount::Limit(limit)) => {
            let limit = count(limit, level);
            for (most, is_meant) in [
                (&mut model.read_connections, way.is_out()),
                (&mut model.write_connections, way.is_in()),
            ] {
                if is_meant {
                    *most = Some(most.map_or(limit, |most| most.min(limit)));
                }
            }
        }
        (FaultKind::Overload, Amount::Limit(limit)) => {
            let rate = fault.details.rate.unwrap_or(UNLIMITED);
            broken.overload = Some((limit, softened(rate, level)));
        }
        (FaultKind::Crash, Amount::Limit(limit)) => {
            broken.crash = fault.details.delay.map(|delay| (count(limit, level), delay));
        }
        (FaultKind::SlowServer, Amount::Rate(rate)) => {
            let number = fault.details.server.unwrap_or(1) as usize - 1;
            if let Some((most, _)) = storage.servers.get_mut(number) {
                *most = (*most).min(softened(rate, level));
            }
        }
        (FaultKind::Slots, Amount::Limit(limit)) => {
            let limit = count(limit, level);
            for (most, is_meant) in storage.max_active.iter_mut().zip([way.is_in(), way.is_out()]) {
                if is_meant {
                    *most = (*most).min(limit);
                }
            }
        }
        (FaultKind::Failures, Amount::Share(share)) => broken.rules.extend(rule(fault, share, level)),
        (FaultKind::Outage | FaultKind::FrozenSite | FaultKind::KilledSite, _) => broken.is_down = true,
        (FaultKind::SkewedClock, Amount::Delay(behind)) => broken.rules.extend(skewed(behind.mul_f64(level))),
        (FaultKind::WrongCounters, Amount::Factor(factor)) => broken.counts = Counts::Times(factor),
        (FaultKind::LateCounters, Amount::Delay(delay)) => broken.counts = Counts::Late(delay.mul_f64(level)),
        (FaultKind::MissingCounters, _) => broken.counts = Counts::Nothing,
        _ => {}
    }
}

/// A link with its faults, and those of its ends.
pub(crate) fn link(base: &LinkScene, at: usize, scene: &Scene, faults: &[SceneFault]) -> LinkScene {
    let mut now = base.clone();
    for on in faults.iter().filter(|on| on.is_on() && on.links.contains(&at)) {
        break_link(&mut now, on, scene);
    }
    now
}

fn break_link(link: &mut LinkScene, on: &SceneFault, scene: &Scene) {
    let (fault, level) = (&on.fault, on.level);
    if let (FaultKind::SlowStream, FaultPlace::Rse(_, way), Amount::Rate(rate)) =
        (fault.kind, &fault.place, fault.amount)
    {
        let [_, source, destination] = &mut link.stream_rates;
        if way.is_out() && on.storages.contains(&link.source) {
            at_most(source, softened(rate, level));
        }
        if way.is_in() && on.storages.contains(&link.destination) {
            at_most(destination, softened(rate, level));
        }
        link.set_stream();
        return;
    }
    if !matches!(fault.place, FaultPlace::Link(_)) {
        return;
    }
    match (fault.kind, fault.amount) {
        (FaultKind::RoundTrip, Amount::Delay(delay)) => link.rtt += delay.mul_f64(level),
        (FaultKind::Window, Amount::Size(size)) => link.window = link.window.min(Bytes((size.0 as f64 / level) as u64)),
        (FaultKind::PacketLoss, Amount::Share(share)) => link.loss = (link.loss + share * level).min(1.0),
        (FaultKind::Mtu, Amount::Size(size)) => link.broken.mtu = Some(size),
        (FaultKind::Capacity, Amount::Rate(rate)) => at_most(&mut link.capacity, softened(rate, level)),
        (FaultKind::ForeignLoad, Amount::Rate(rate)) => link.broken.foreign += rate.scale(level),
        (FaultKind::Slots, Amount::Limit(limit)) => link.max_active = link.max_active.min(count(limit, level)),
        (FaultKind::Failures, Amount::Share(share)) => link.broken.rules.extend(rule(fault, share, level)),
        (FaultKind::Outage, _) => link.broken.is_down = true,
        (FaultKind::Reroute, _) => reroute(link, fault, scene),
        _ => {}
    }
    link.set_stream();
}

/// Traffic takes one segment instead of those that the link names; groups of its ends it still passes.
fn reroute(link: &mut LinkScene, fault: &Fault, scene: &Scene) {
    let to = scene
        .segments
        .iter()
        .position(|segment| Some(&segment.name) == fault.details.to.as_ref());
    let groups = link.groups.iter().filter_map(|group| scene.groups[*group].segment);
    link.via = to.into_iter().chain(groups).collect();
}

/// Capacity, foreign traffic, and whether it is down, of a wire with faults: of a site in one direction, or of a segment.
pub(crate) fn wire(base: BitRate, faults: &[SceneFault], is_meant: impl Fn(&SceneFault) -> bool) -> (BitRate, BitRate) {
    let (mut capacity, mut foreign) = (base, BitRate::ZERO);
    for on in faults.iter().filter(|on| on.is_on() && is_meant(on)) {
        match (on.fault.kind, on.fault.amount) {
            (FaultKind::Capacity, Amount::Rate(rate)) => capacity = capacity.min(softened(rate, on.level)),
            (FaultKind::ForeignLoad, Amount::Rate(rate)) => foreign += rate.scale(on.level),
            (FaultKind::Outage, _) => capacity = BitRate::ZERO,
            _ => {}
        }
    }
    (capacity, foreign)
}
