//! Placement: the choice of RSEs for the copies of a rule.
//!
//! A rule is placed in units: the whole rule with grouping `ALL`, each dataset with `DATASET`, each file with `NONE`.
//! Every copy of a unit goes to another RSE. RSEs that hold data of the unit come first, the fullest before the others.
//! Then the draw is random, weighted by an attribute of the RSEs if the rule names one.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore as _, SeedableRng as _},
};
use weir_units::Bytes;

use crate::ids::RseId;

/// An RSE that the rule's expression means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The RSE.
    pub rse: RseId,
    /// Its share of the draw; an RSE of weight 0 keeps only files that it holds already.
    pub weight: Weight,
    /// The bytes that the account may still store there; `None` without a limit.
    pub quota_left: Option<Bytes>,
    /// The bytes that still fit there; `None` if that is not known. Files on their way count as stored.
    pub room: Option<Bytes>,
}

/// A weight in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u64);

impl Weight {
    /// The weight of every RSE where the rule names no attribute.
    pub const ONE: Self = Self(1_000_000);

    /// Reads the value of an attribute: a number from 0 to 1,000,000.
    pub fn read(text: &str) -> Option<Self> {
        let number = text.trim().parse::<f64>().ok()?;
        (0.0..=1e6).contains(&number).then_some(Self((number * 1e6) as u64))
    }
}

/// Files that are placed together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// The size of all its files.
    pub bytes: Bytes,
    /// The bytes of it that RSEs hold, or that are on their way there. No RSE twice.
    pub held: Vec<(RseId, Bytes)>,
}

impl Unit {
    fn held_at(&self, rse: RseId) -> Bytes {
        let found = self.held.iter().find(|(at, _)| *at == rse);
        found.map_or(Bytes(0), |(_, bytes)| *bytes)
    }

    /// The bytes that have to come to this RSE.
    fn missing_at(&self, rse: RseId) -> Bytes {
        Bytes(self.bytes.0.saturating_sub(self.held_at(rse).0))
    }
}

/// Says why a rule cannot be placed. Rucio's exceptions of these names have the first words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// The expression means fewer RSEs than the rule wants copies.
    #[error("Target RSE set not sufficient for number of copies. ({copies} copies requested, RSE set size {found})")]
    Rses {
        /// The copies that the rule wants.
        copies: usize,
        /// The RSEs that may get one.
        found: usize,
    },
    /// The account may not store that much.
    #[error(
        "There is insufficient quota on any of the target RSE's to fullfill the operation. ({bytes} needed at each, \
         {fitting} of {found} RSEs allow as much, {copies} copies requested)"
    )]
    Quota {
        /// The size of the unit.
        bytes: Bytes,
        /// The RSEs where the account may store as much.
        fitting: usize,
        /// The RSEs of the expression.
        found: usize,
        /// The copies that the rule wants.
        copies: usize,
    },
    /// The RSEs are too full.
    #[error("{fitting} of {found} target RSEs have room for {bytes} more. ({copies} copies requested)")]
    Room {
        /// The bytes that the unit needs at an RSE that holds nothing of it.
        bytes: Bytes,
        /// The RSEs that have as much room.
        fitting: usize,
        /// The RSEs of the expression.
        found: usize,
        /// The copies that the rule wants.
        copies: usize,
    },
}

/// Chooses RSEs for units, one after the other. Each unit reduces quota and room for the following ones.
#[derive(Debug, Clone)]
pub struct Placement {
    candidates: Vec<Candidate>,
    copies: usize,
    random: ChaCha8Rng,
}

impl Placement {
    /// Begins to place `copies` of each unit on `candidates`, which are without duplicates. The same seed gives the same choice.
    ///
    /// # Errors
    /// [`Shortage::Rses`].
    pub fn new(mut candidates: Vec<Candidate>, copies: usize, seed: u64) -> Result<Self, Shortage> {
        if candidates.len() < copies {
            let found = candidates.len();
            return Err(Shortage::Rses { copies, found });
        }
        candidates.sort_by_key(|candidate| candidate.rse);
        Ok(Self {
            candidates,
            copies,
            random: ChaCha8Rng::seed_from_u64(seed),
        })
    }

    /// Chooses the RSEs of a unit, in the order of the choice, and counts the room that the unit takes there.
    ///
    /// # Errors
    /// See [`Shortage`]; nothing was counted then.
    pub fn place(&mut self, unit: &Unit) -> Result<Vec<RseId>, Shortage> {
        let mut open = self.fitting(unit)?;
        // Holders first: they need the least. The rest is drawn.
        open.sort_by_key(|at| std::cmp::Reverse(unit.held_at(self.candidates[*at].rse)));
        let n_holders = open
            .iter()
            .take_while(|at| unit.held_at(self.candidates[**at].rse) > Bytes(0))
            .count();
        let mut chosen = open[..n_holders.min(self.copies)].to_vec();
        let mut rest = open.split_off(n_holders);
        while chosen.len() < self.copies {
            let at = self.draw(&rest);
            chosen.push(rest.remove(at));
        }
        for at in &chosen {
            let candidate = &mut self.candidates[*at];
            let missing = unit.missing_at(candidate.rse);
            let less = |left: &mut Option<Bytes>, taken: Bytes| {
                *left = left.map(|left| Bytes(left.0.saturating_sub(taken.0)));
            };
            less(&mut candidate.quota_left, unit.bytes);
            less(&mut candidate.room, missing);
        }
        Ok(chosen.iter().map(|at| self.candidates[*at].rse).collect())
    }

    /// The candidates that may take a unit, by place.
    fn fitting(&self, unit: &Unit) -> Result<Vec<usize>, Shortage> {
        let (copies, bytes, found) = (self.copies, unit.bytes, self.candidates.len());
        let all = self.candidates.iter().enumerate();
        let weighed = all.filter(|(_, one)| one.weight > Weight(0) || unit.held_at(one.rse) > Bytes(0));
        let weighed = weighed.collect::<Vec<_>>();
        if weighed.len() < copies {
            let found = weighed.len();
            return Err(Shortage::Rses { copies, found });
        }
        // The account is charged for all files of its rule; the RSE needs room only for files that are not there yet.
        let fits = |left: Option<Bytes>, needed: Bytes| left.is_none_or(|left| left >= needed);
        let allowed = weighed.into_iter().filter(|(_, one)| fits(one.quota_left, bytes));
        let allowed = allowed.collect::<Vec<_>>();
        if allowed.len() < copies {
            let fitting = allowed.len();
            return Err(Shortage::Quota {
                bytes,
                fitting,
                found,
                copies,
            });
        }
        let open = allowed
            .into_iter()
            .filter(|(_, one)| fits(one.room, unit.missing_at(one.rse)));
        let open = open.map(|(at, _)| at).collect::<Vec<_>>();
        if open.len() < copies {
            let fitting = open.len();
            return Err(Shortage::Room {
                bytes,
                fitting,
                found,
                copies,
            });
        }
        Ok(open)
    }

    /// Draws a place in `open`, which is not empty, by the weights of the candidates.
    fn draw(&mut self, open: &[usize]) -> usize {
        let weights = open.iter().map(|at| u128::from(self.candidates[*at].weight.0));
        let total = weights.clone().sum::<u128>();
        // Of 2^64 equally likely numbers, the share that falls to each is its weight's to within 2^-40.
        let mut drawn = (u128::from(self.random.next_u64()) * total) >> 64;
        for (place, weight) in weights.enumerate() {
            if drawn < weight {
                return place;
            }
            drawn -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests;
