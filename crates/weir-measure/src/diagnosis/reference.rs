//! How long transfers of a link wait in each state when it is well.

use std::collections::BTreeMap;

use weir_world::{Place, Wait, WaitPhase};

use super::stretch::Stretch;
use super::view::View;

/// A state with its place.
pub(super) type Key<'r> = (Wait, Option<&'r Place>);

/// Bins before and after a stretch that are not looked at: signals come late.
const MARGIN: usize = 4;
/// The fewest good bins that say what is usual.
const LEAST_BINS: usize = 5;

/// The usual waits of each link.
pub(super) struct References<'r> {
    /// Seconds for each bit by state and place; `None` for a link that was never well.
    links: Vec<Option<BTreeMap<Key<'r>, f64>>>,
    /// Outstanding bits on average, when well.
    outstanding: Vec<Option<f64>>,
    /// Bits of a file, and seconds of slots for each bit.
    sizes: Vec<Option<f64>>,
    slots: Vec<Option<f64>>,
    /// Seconds for each file by state, on links that are well: the middle one.
    peers: BTreeMap<Wait, f64>,
}

impl<'r> References<'r> {
    pub(super) fn of(view: &View<'r>, stretches: &[Stretch]) -> Self {
        let good = good_bins(view, stretches);
        let of_link = |(link, bins): (&super::view::Link<'r>, &Vec<usize>)| {
            let bits: f64 = bins.iter().map(|bin| link.bits[*bin].achieved).sum();
            if bins.len() < LEAST_BINS || bits <= 0.0 {
                return None;
            }
            let of = |waited: &super::view::Waited<'r>| {
                let seconds: f64 = bins.iter().map(|bin| waited.seconds[*bin]).sum();
                ((waited.wait, waited.place), seconds / bits)
            };
            Some(link.waits.iter().map(of).collect::<BTreeMap<_, _>>())
        };
        let links: Vec<_> = view.links.iter().zip(&good).map(of_link).collect();
        let outstanding = view
            .links
            .iter()
            .zip(&good)
            .map(|(link, bins)| {
                if bins.len() < LEAST_BINS {
                    return None;
                }
                let all = outstanding(link);
                Some(bins.iter().map(|bin| all[*bin]).sum::<f64>() / bins.len() as f64)
            })
            .collect();
        let mut by_wait: BTreeMap<Wait, Vec<f64>> = BTreeMap::new();
        for (link, reference) in view.links.iter().zip(&links) {
            let Some(reference) = reference else { continue };
            let mut sums: BTreeMap<Wait, f64> = BTreeMap::new();
            for ((wait, _), seconds) in reference {
                *sums.entry(*wait).or_default() += seconds * link.file;
            }
            for (wait, seconds) in sums {
                by_wait.entry(wait).or_default().push(seconds);
            }
        }
        let peers = by_wait
            .into_iter()
            .map(|(wait, mut seconds)| {
                seconds.sort_by(f64::total_cmp);
                (wait, seconds[seconds.len() / 2])
            })
            .collect();
        let of_good = |of: &dyn Fn(&super::view::Link<'r>, usize) -> (f64, f64)| -> Vec<Option<f64>> {
            let ratio = |(link, bins): (&super::view::Link<'r>, &Vec<usize>)| {
                let sums = bins
                    .iter()
                    .map(|bin| of(link, *bin))
                    .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                (bins.len() >= LEAST_BINS && sums.1 > 0.0).then(|| sums.0 / sums.1)
            };
            view.links.iter().zip(&good).map(ratio).collect()
        };
        let sizes = of_good(&|link, bin| (link.bits[bin].injected, link.bits[bin].files));
        let slots = of_good(&|link, bin| {
            (
                link.slots.get(bin).copied().unwrap_or_default(),
                link.bits[bin].achieved,
            )
        });
        Self {
            links,
            outstanding,
            sizes,
            slots,
            peers,
        }
    }

    /// Bits that are usually outstanding; of a link that was never well, as many as its peers' seconds.
    pub(super) fn outstanding(&self, view: &View<'r>, link: usize) -> f64 {
        let rate = |link: usize| view.links[link].sum(view.hold.clone()).asked / view.hold.len().max(1) as f64;
        if let Some(known) = self.outstanding[link] {
            return known.max(0.0);
        }
        let mut bins: Vec<f64> = (0..self.outstanding.len())
            .filter_map(|peer| Some(self.outstanding[peer]?.max(0.0) / rate(peer).max(1.0)))
            .collect();
        bins.sort_by(f64::total_cmp);
        bins.get(bins.len() / 2).map_or(0.5, |bins| *bins) * rate(link)
    }

    /// Whether a link was ever well.
    pub(super) fn is_known(&self, link: usize) -> bool {
        self.links[link].is_some()
    }

    /// The usual seconds for each bit in a state; 0 for a link that was never well.
    pub(super) fn known(&self, link: usize, key: Key<'r>) -> f64 {
        self.links[link]
            .as_ref()
            .and_then(|reference| reference.get(&key))
            .copied()
            .unwrap_or_default()
    }

    /// Bits of a file, as a rule.
    pub(super) fn size(&self, link: usize) -> Option<f64> {
        self.sizes[link]
    }

    /// The usual seconds of slots for so many bits.
    pub(super) fn slots(&self, view: &View<'r>, link: usize, bits: f64) -> f64 {
        let mut peers: Vec<f64> = (0..self.slots.len())
            .filter_map(|peer| Some(self.slots[peer]? * view.links[peer].file))
            .collect();
        peers.sort_by(f64::total_cmp);
        match self.slots[link] {
            Some(slots) => slots * bits,
            // Nobody knows.
            None if peers.is_empty() => f64::INFINITY,
            None => peers[peers.len() / 2] * bits / view.links[link].file.max(1.0),
        }
    }

    /// The usual seconds for so many bits in a state.
    pub(super) fn usual(&self, view: &View<'r>, link: usize, key: Key<'r>, bits: f64) -> f64 {
        match &self.links[link] {
            Some(reference) => reference.get(&key).copied().unwrap_or_default() * bits,
            None if key.0.phase() == WaitPhase::Queue => 0.0,
            // How fast one stream is, only the link itself tells.
            None if key.0 == Wait::Window && self.peers.is_empty() => f64::INFINITY,
            None => {
                let files = bits / view.links[link].file.max(1.0);
                self.peers.get(&key.0).copied().unwrap_or_default() * files
            }
        }
    }
}

/// Bits that are injected and neither delivered nor given up, at the end of each bin.
pub(super) fn outstanding(link: &super::view::Link<'_>) -> Vec<f64> {
    let mut sum = 0.0;
    link.bits
        .iter()
        .map(|bits| {
            sum += bits.injected - bits.lost - bits.achieved;
            sum
        })
        .collect()
}

fn good_bins(view: &View<'_>, stretches: &[Stretch]) -> Vec<Vec<usize>> {
    let mut good: Vec<Vec<bool>> = view
        .links
        .iter()
        .map(|_| (0..view.hold.end).map(|bin| bin >= view.hold.start / 2).collect())
        .collect();
    for stretch in stretches {
        let bins = stretch.bins.start.saturating_sub(1)..(stretch.bins.end + MARGIN).min(view.hold.end);
        for bin in bins {
            good[stretch.link][bin] = false;
        }
    }
    good.into_iter()
        .map(|bins| {
            bins.iter()
                .enumerate()
                .filter(|(_, good)| **good)
                .map(|(bin, _)| bin)
                .collect()
        })
        .collect()
}
