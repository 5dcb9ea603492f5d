//! The usual state of each link: how long its transfers wait in each state when it is well, and how many bits are outstanding.

use std::collections::BTreeMap;

use weir_world::{Place, PlaceKind, Wait, WaitPhase};

use super::stretch::Stretch;
use super::view::{Link, View, Waited};

/// A state with its place.
pub(super) type Key<'r> = (Wait, Option<&'r Place>);

/// Bins after a stretch that are not looked at: signals come late.
const MARGIN: usize = 4;
/// The fewest good bins that say what is usual.
const LEAST_BINS: usize = 5;
/// The part of the time of moving data whose reason is told, from which it stands for the rest.
const TOLD: f64 = 0.2;
/// The part of its asked bits that a link must get during the ramp to count as well.
const FOLLOWS: f64 = 0.85;
/// Bins of asked bits that are outstanding where no link was ever well.
const OUTSTANDING: f64 = 0.5;

/// The usual state of one link.
#[derive(Default)]
struct Usual<'r> {
    /// Seconds for each bit by state and place; `None` for a link that was never well.
    waits: Option<BTreeMap<Key<'r>, f64>>,
    /// Outstanding bits on average.
    outstanding: Option<f64>,
    /// Bits of a file.
    size: Option<f64>,
    /// Seconds of slots for each bit.
    slots: Option<f64>,
}

/// Copies that wait for the disk of a storage in a bin, with the bits of their links.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) seconds: f64,
    pub(super) achieved: f64,
    pub(super) asked: f64,
}

/// The usual states of all links.
pub(super) struct References<'r> {
    links: Vec<Usual<'r>>,
    /// Bits of each link that are injected and neither delivered nor given up, at the end of each bin.
    outstanding: Vec<Vec<f64>>,
    /// Of links that were well, the middle one: seconds for each file by state, and of slots; outstanding bits in bins of asked ones.
    peers: BTreeMap<Wait, f64>,
    slots: Option<f64>,
    ahead: f64,
    /// The load of each disk that copies waited for, by bin.
    loads: BTreeMap<&'r Place, Vec<Load>>,
}

impl<'r> References<'r> {
    pub(super) fn of(view: &View<'r>, stretches: &[Stretch]) -> Self {
        let outstanding: Vec<Vec<f64>> = view.links.iter().map(outstanding).collect();
        let good = good_bins(view, stretches);
        let both = view.links.iter().zip(&outstanding).zip(&good);
        let links: Vec<Usual<'r>> = both
            .map(|((link, all), good)| {
                if good.asked.len() < LEAST_BINS {
                    usual_of_streams(link, &good.catching_up)
                } else {
                    usual(link, all, &good.asked)
                }
            })
            .collect();
        let mut by_wait: BTreeMap<Wait, Vec<f64>> = BTreeMap::new();
        let (mut slots, mut ahead) = (Vec::new(), Vec::new());
        for (link, usual) in view.links.iter().zip(&links) {
            let mut sums: BTreeMap<Wait, f64> = BTreeMap::new();
            for ((wait, _), seconds) in usual.waits.iter().flatten() {
                *sums.entry(*wait).or_default() += seconds * link.file;
            }
            for (wait, seconds) in sums {
                by_wait.entry(wait).or_default().push(seconds);
            }
            slots.extend(usual.slots.map(|seconds| seconds * link.file));
            ahead.extend(usual.outstanding.map(|bits| bits.max(0.0) / asked(view, link).max(1.0)));
        }
        let peers = by_wait
            .into_iter()
            .filter_map(|(wait, seconds)| Some((wait, middle(seconds)?)));
        Self {
            links,
            outstanding,
            peers: peers.collect(),
            slots: middle(slots),
            ahead: middle(ahead).unwrap_or(OUTSTANDING),
            loads: loads(view),
        }
    }

    /// Bits that are outstanding at the end of each bin.
    pub(super) fn outstanding(&self, link: usize) -> &[f64] {
        &self.outstanding[link]
    }

    /// Bits that are usually outstanding; of a link that was never well, as many as its peers' seconds.
    pub(super) fn usually_outstanding(&self, view: &View<'r>, link: usize) -> f64 {
        let known = self.links[link].outstanding.map(|bits| bits.max(0.0));
        known.unwrap_or_else(|| self.ahead * asked(view, &view.links[link]))
    }

    /// Whether a link was ever well.
    pub(super) fn is_known(&self, link: usize) -> bool {
        self.links[link].waits.is_some()
    }

    /// The usual seconds for each bit in a state; 0 for a link that was never well.
    pub(super) fn known(&self, link: usize, key: Key<'r>) -> f64 {
        let waits = self.links[link].waits.as_ref();
        waits.and_then(|waits| waits.get(&key)).copied().unwrap_or_default()
    }

    /// Bits of a file, as a rule.
    pub(super) fn size(&self, link: usize) -> Option<f64> {
        self.links[link].size
    }

    /// The usual seconds of slots for so many bits; infinite where nobody knows.
    pub(super) fn slots(&self, view: &View<'r>, link: usize, bits: f64) -> f64 {
        let files = bits / view.links[link].file.max(1.0);
        match (self.links[link].slots, self.slots) {
            (Some(slots), _) => slots * bits,
            (None, Some(peers)) => peers * files,
            (None, None) => f64::INFINITY,
        }
    }

    /// The usual seconds for so many bits in a state.
    pub(super) fn usual(&self, view: &View<'r>, link: usize, key: Key<'r>, bits: f64) -> f64 {
        if self.is_known(link) {
            return self.known(link, key) * bits;
        }
        match key.0 {
            wait if wait.phase() == WaitPhase::Queue => 0.0,
            // How fast one stream is, only the link itself tells.
            Wait::Window | Wait::Network if self.peers.is_empty() && is_path(key.1) => f64::INFINITY,
            wait => {
                let files = bits / view.links[link].file.max(1.0);
                self.peers.get(&wait).copied().unwrap_or_default() * files
            }
        }
    }

    /// The load of a disk in each bin.
    pub(super) fn load(&self, place: &Place) -> &[Load] {
        self.loads.get(place).map_or(&[], Vec::as_slice)
    }
}

/// The usual state of single streams of a link that was never well while anything was asked of it. While it catches up, disks and networks
/// may be as full as before, but a window and a handshake take what they always take.
fn usual_of_streams<'r>(link: &Link<'r>, bins: &[usize]) -> Usual<'r> {
    let achieved: f64 = bins.iter().map(|bin| link.bits[*bin].achieved).sum();
    if bins.len() < LEAST_BINS || achieved <= 0.0 {
        return Usual::default();
    }
    let is_own = |wait: Wait| matches!(wait, Wait::Window | Wait::Resolve | Wait::Connect | Wait::Tls);
    let for_each_bit = |waited: &Waited<'r>| {
        let seconds: f64 = bins.iter().map(|bin| waited.seconds[*bin]).sum();
        ((waited.wait, waited.place), seconds / achieved)
    };
    let own = link.waits.iter().filter(|waited| is_own(waited.wait));
    Usual {
        waits: Some(own.map(for_each_bit).collect()),
        ..Usual::default()
    }
}

fn usual<'r>(link: &Link<'r>, outstanding: &[f64], bins: &[usize]) -> Usual<'r> {
    let sum = |of: &dyn Fn(usize) -> f64| bins.iter().map(|bin| of(*bin)).sum::<f64>();
    let achieved = sum(&|bin| link.bits[bin].achieved);
    let files = sum(&|bin| link.bits[bin].files);
    let for_each_bit = |waited: &Waited<'r>| {
        let seconds = sum(&|bin| waited.seconds[bin]);
        ((waited.wait, waited.place), seconds / achieved)
    };
    let has_moved = achieved > 0.0;
    Usual {
        waits: has_moved.then(|| link.waits.iter().map(for_each_bit).collect()),
        outstanding: Some(sum(&|bin| outstanding[bin]) / bins.len() as f64),
        size: (files > 0.0).then(|| sum(&|bin| link.bits[bin].injected) / files),
        slots: has_moved.then(|| sum(&|bin| link.slots.get(bin).copied().unwrap_or_default()) / achieved),
    }
}

fn is_path(place: Option<&Place>) -> bool {
    place.is_none_or(|place| place.kind == PlaceKind::Path)
}

/// Bits that are asked of a link in a bin.
fn asked(view: &View<'_>, link: &Link<'_>) -> f64 {
    link.sum(view.hold.clone()).asked / view.hold.len().max(1) as f64
}

fn outstanding(link: &Link<'_>) -> Vec<f64> {
    let mut sum = 0.0;
    let after = |bits: &super::coarse::Bits| {
        sum += bits.injected - bits.lost - bits.achieved;
        sum
    };
    link.bits.iter().map(after).collect()
}

fn loads<'r>(view: &View<'r>) -> BTreeMap<&'r Place, Vec<Load>> {
    let mut loads: BTreeMap<&Place, Vec<Load>> = BTreeMap::new();
    for link in &view.links {
        for waited in link.waits.iter().filter(|waited| waited.wait == Wait::Disk) {
            let Some(place) = waited.place else { continue };
            let load = loads
                .entry(place)
                .or_insert_with(|| vec![Load::default(); link.bits.len()]);
            for ((load, bits), seconds) in load.iter_mut().zip(&link.bits).zip(&waited.seconds) {
                load.seconds += seconds;
                load.achieved += bits.achieved;
                load.asked += bits.asked;
            }
        }
    }
    loads
}

/// The middle one of some values.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The bins of a link outside its stretches.
struct GoodBins {
    /// In which something was asked of it.
    asked: Vec<usize>,
    /// In which nothing was.
    catching_up: Vec<usize>,
}

fn good_bins(view: &View<'_>, stretches: &[Stretch]) -> Vec<GoodBins> {
    let all = || vec![true; view.hold.end];
    let mut good: Vec<Vec<bool>> = view.links.iter().map(|_| all()).collect();
    for stretch in stretches {
        let bins = stretch.bins.start.saturating_sub(1)..(stretch.bins.end + MARGIN).min(view.hold.end);
        good[stretch.link][bins].fill(false);
    }
    // The first half of the ramp has too little traffic. In the second half a link is well that follows what is asked.
    let are_good = |(link, bins): (&Link<'_>, Vec<bool>)| {
        let around = |bin: usize| link.sum(bin.saturating_sub(1)..bin + 2);
        let follows = |bin: &usize| {
            let around = around(*bin);
            *bin >= view.hold.start || around.achieved >= FOLLOWS * around.asked
        };
        let bins = (view.hold.start / 2..view.hold.end).filter(|bin| bins[*bin]);
        let (asked, catching_up) = bins.filter(follows).partition(|bin| around(*bin).asked > 0.0);
        GoodBins { asked, catching_up }
    };
    view.links.iter().zip(good).map(are_good).collect()
}

/// Attempts that are cut off do not tell what they waited for while data moved: it is what the others of their link waited for.
pub(super) fn divide_data(excess: &mut BTreeMap<Key<'_>, f64>) {
    let is_told =
        |key: &Key<'_>| matches!(key.0, Wait::Disk | Wait::Network | Wait::Window | Wait::Processor) && key.1.is_some();
    let told: f64 = excess
        .iter()
        .filter(|(key, _)| is_told(key))
        .map(|(_, time)| time)
        .sum();
    let untold = excess.get(&(Wait::Data, None)).copied().unwrap_or_default();
    if told < TOLD * untold || told <= 0.0 {
        return;
    }
    excess.remove(&(Wait::Data, None));
    for (_, time) in excess.iter_mut().filter(|(key, _)| is_told(key)) {
        *time += untold * *time / told;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_attempts_that_are_cut_off_waited_for_is_what_others_wait_for() {
        let (disk, net) = (Place::new(PlaceKind::RseIn, "A"), Place::new(PlaceKind::SiteIn, "A"));
        let with = |untold: f64| -> BTreeMap<Key<'_>, f64> {
            [
                ((Wait::Disk, Some(&disk)), 30.0),
                ((Wait::Network, Some(&net)), 10.0),
                ((Wait::Slots, None), 7.0),
                ((Wait::Data, None), untold),
            ]
            .into()
        };
        let mut some = with(80.0);
        divide_data(&mut some);
        let told = [
            ((Wait::Disk, Some(&disk)), 90.0),
            ((Wait::Network, Some(&net)), 30.0),
            ((Wait::Slots, None), 7.0),
        ];
        assert_eq!(some, told.into());
        // A tenth does not stand for the rest.
        let mut much = with(400.0);
        divide_data(&mut much);
        assert_eq!(much, with(400.0));
        let mut none: BTreeMap<Key<'_>, f64> = [((Wait::Data, None), 5.0)].into();
        divide_data(&mut none);
        assert_eq!(none.len(), 1);
    }
}
