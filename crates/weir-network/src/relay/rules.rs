//! Rules of a relay.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::bucket::Bucket;

/// The direction of bytes, as seen from the peer that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer to the door.
    Up,
    /// From the door to the peer.
    Down,
}

/// Damage that some bytes meet, drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Damage {
    /// Its effect.
    pub kind: DamageKind,
    /// Damages for each byte, on average: a connection that passes n bytes meets one with the probability 1 − e^(−n × this).
    pub per_byte: f64,
    /// Bytes of each piece of data, from its begin, that meet none: those without an answer in between.
    pub above: u64,
}

/// The effect of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// The connection is reset.
    Reset,
    /// Nothing passes any more while such a rule holds.
    Stall,
    /// A bit is another one: TLS notices.
    Change,
}

/// One rule; without any effect unless its fields say so.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// The peers that it is for, by the address that they connect from; all if absent.
    pub peers: Option<Arc<[IpAddr]>>,
    /// The direction that it is for; both if absent.
    pub direction: Option<Direction>,
    /// A rate that all connections of the rule share, wherever the bucket is used.
    pub shared: Option<Arc<Bucket>>,
    /// Bytes per second of each connection.
    pub each: Option<u64>,
    /// Time that bytes are on their way.
    pub delay: Duration,
    /// Larger pieces of data than this many bytes stop: those without an answer in between.
    pub longest: Option<u64>,
    /// Damage by chance.
    pub damage: Option<Damage>,
    /// Nothing passes, and new connections are not answered.
    pub is_cut: bool,
    /// Open connections are reset.
    pub is_broken: bool,
}

impl Rule {
    fn is_for(&self, peer: IpAddr, direction: Direction) -> bool {
        let is_meant = self.direction.is_none_or(|of| of == direction);
        is_meant && self.peers.as_ref().is_none_or(|peers| peers.contains(&peer))
    }
}

/// Rules for one connection and direction, joined.
#[derive(Debug, Clone, Default)]
pub(super) struct Effect {
    pub(super) shared: Vec<Arc<Bucket>>,
    pub(super) each: Option<u64>,
    pub(super) delay: Duration,
    pub(super) longest: Option<u64>,
    pub(super) damages: Vec<Damage>,
    pub(super) is_cut: bool,
    pub(super) is_broken: bool,
}

/// Rules in force, for every connection to see.
pub(super) type Rules = Arc<Vec<Rule>>;

impl Effect {
    /// Joins the rules for one peer and direction.
    pub(super) fn of(rules: &[Rule], peer: IpAddr, direction: Direction) -> Self {
        let meant = rules.iter().filter(|rule| rule.is_for(peer, direction));
        meant.fold(Self::default(), Self::with)
    }

    /// Adds a rule: the stricter limit counts, delays and damage add up.
    fn with(mut self, rule: &Rule) -> Self {
        let stricter = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        self.shared.extend(rule.shared.clone());
        self.each = stricter(self.each, rule.each);
        self.longest = stricter(self.longest, rule.longest);
        self.delay += rule.delay;
        self.damages.extend(rule.damage);
        self.is_cut |= rule.is_cut;
        self.is_broken |= rule.is_broken;
        self
    }

    /// Whether connections may stall.
    pub(super) fn stalls(&self) -> bool {
        self.damages.iter().any(|damage| damage.kind == DamageKind::Stall)
    }

    pub(super) fn is_paced(&self) -> bool {
        self.each.is_some() || !self.shared.is_empty()
    }
}
