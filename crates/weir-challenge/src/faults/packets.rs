//! From the faults that are on to rules for packets, in a run with a network namespace of its own: pure.

use weir_network::packets::{PacketAct, PacketRule};
use weir_plan::fault::{Amount, Fault, FaultKind, Level};

use super::rules::{Ground, softened};

/// Bytes of the longest packet that passes a black hole: a path whose tunnel takes a hundred bytes of Ethernet's.
const LONGEST: u32 = 1_400;

/// The name of the counter of a fault, by its place among all.
pub(super) fn counter(at: usize) -> String {
    format!("fault{at}")
}

/// The rules for packets while these faults have these levels.
pub(super) fn packet_rules<'f>(ground: &Ground, faults: impl Iterator<Item = (&'f Fault, Level)>) -> Vec<PacketRule> {
    let rule = |(at, (fault, level)): (usize, (&Fault, Level))| {
        let act = match (fault.kind, fault.amount) {
            _ if level <= 0.0 => return None,
            (FaultKind::PacketLoss, Amount::Share(share)) => PacketAct::Lose(share * level),
            (FaultKind::Mtu, _) => PacketAct::Shorten(LONGEST),
            (FaultKind::Capacity, Amount::Rate(_)) => PacketAct::Queue(softened(fault, level)),
            _ => return None,
        };
        let pairs = ground.pairs(fault).into_iter();
        Some(PacketRule {
            name: counter(at),
            pairs: pairs
                .map(|(from, to)| (ground.ends[from].door, ground.ends[to].door))
                .collect(),
            act,
        })
    };
    faults.enumerate().filter_map(rule).collect()
}
