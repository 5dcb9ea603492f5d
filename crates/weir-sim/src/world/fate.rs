//! The end of an attempt, which is drawn when it begins.

use rand_chacha::ChaCha8Rng;
use weir_units::Timestamp;
use weir_world::{CopyMode, ErrorClass, Party};

use super::World;
use super::attempt_state::Fate;
use crate::draw;

/// Bytes that pass before a path that drops large packets is noticed: a first window of ten segments.
const FIRST_BYTES: u64 = 14_600;

/// An attempt whose end is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    pub(super) link: usize,
    pub(super) size: u64,
    pub(super) mode: CopyMode,
    pub(super) workload: usize,
    pub(super) injected: Timestamp,
}

impl World {
    /// The end of an attempt that a fault decides; `None` where none does.
    pub(super) fn broken_fate(&mut self, of: &Drawn) -> Option<Fate> {
        self.breaking.base.as_ref()?;
        let now = &self.breaking.conditions;
        let is_old = now
            .token_lifetime
            .is_some_and(|life| self.now.since(of.injected) > life);
        if now.no_issuer || is_old {
            return Some(Fate::Refused(ErrorClass::Token, Party::Issuer));
        }
        let (refused, missing) = (now.without_token(self.scene.tokens), now.workloads[of.workload].missing);
        let random = &mut self.random[of.link];
        if refused > 0.0 && draw::draw(random) < refused {
            return Some(Fate::Refused(ErrorClass::Token, Party::Issuer));
        }
        if missing > 0.0 && draw::draw(random) < missing {
            return Some(Fate::Refused(ErrorClass::NotFound, Party::Source));
        }
        let link = &self.scene.links[of.link];
        if link.broken.mtu.is_some_and(|largest| of.size > largest.0) {
            return Some(Fate::Stalls(of.size.min(FIRST_BYTES)));
        }
        let [source, destination] = [link.source, link.destination].map(|end| &self.scene.storages[end].broken.rules);
        let rules = (link.broken.rules.iter().map(|rule| (rule, Party::Network)))
            .chain(
                source
                    .iter()
                    .filter(|rule| rule.way.is_out())
                    .map(|rule| (rule, Party::Source)),
            )
            .chain(
                destination
                    .iter()
                    .filter(|rule| rule.way.is_in())
                    .map(|rule| (rule, Party::Destination)),
            );
        for (rule, party) in rules {
            let is_meant =
                rule.mode.is_none_or(|mode| mode == of.mode) && rule.above.is_none_or(|size| of.size > size.0);
            if is_meant && draw::draw(random) < rule.share {
                return Some(fate_of(rule.class, party, random, of.size));
            }
        }
        None
    }

    pub(super) fn draw_fate(&mut self, link: usize, size: u64) -> Fate {
        let scene = &self.scene.links[link];
        let [source, destination] = [scene.source, scene.destination].map(|end| &self.scene.storages[end].failures);
        if scene.failures.is_empty() && source.is_empty() && destination.is_empty() && scene.stalls == 0.0 {
            return Fate::Well;
        }
        let random = &mut self.random[link];
        if draw::draw(random) < scene.stalls {
            return Fate::Stalls(part(random, size));
        }
        let places = [
            (&scene.failures, Party::Network),
            (source, Party::Source),
            (destination, Party::Destination),
        ];
        for (shares, party) in places {
            if shares.is_empty() {
                continue;
            }
            let drawn = draw::pick(draw::draw(random), shares.iter().map(|(_, share)| *share));
            if let Some(which) = drawn {
                return fate_of(shares[which].0, party, random, size);
            }
        }
        Fate::Well
    }
}

fn part(random: &mut ChaCha8Rng, size: u64) -> u64 {
    ((u128::from(size) * draw::index(random, 1 << 16) as u128) >> 16) as u64
}

/// Where in its life an attempt of this class of error fails.
fn fate_of(class: ErrorClass, party: Party, random: &mut ChaCha8Rng, size: u64) -> Fate {
    match class {
        ErrorClass::Checksum | ErrorClass::Size => Fate::Corrupt(class, party),
        ErrorClass::Network | ErrorClass::Timeout | ErrorClass::NoSpace | ErrorClass::Stall => {
            Fate::Breaks(class, party, part(random, size))
        }
        _ => Fate::Refused(class, party),
    }
}
