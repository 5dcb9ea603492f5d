//! The parts of the bits that a link missed: those not injected, those that failed, and the waits, followed to their root.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_world::{CauseClass, ErrorClass, Place, PlaceKind, Wait, WaitPhase};

use super::cause::Cause;
use super::reference::{Key, Load, References, divide_data};
use super::stretch::Stretch;
use super::view::{Link, View};
use crate::signals::Holder;

/// The part of the time in slots that must be unusual, so that the holders of slots count as slow.
const SLOW: f64 = 0.25;
/// The part of its asked bits below which a link is dead.
const DEAD: f64 = 0.08;
/// Bins in which nothing moves and nothing fails, at most.
const PATIENCE: usize = 8;
/// The part of the missing bits that must be missing while the link was dead.
const DEAD_SHARE: f64 = 0.5;
/// The part of the attempts of a stretch that must fail, so that failures hold it back.
const FAILING: f64 = 0.15;
/// Transfers that wait, from which the injector may hold back for them.
const WAITING: f64 = 0.8;
/// The part of a controller in an injection that stops again and again: one in three was, of drawn cases.
const CONTROLLED: f64 = 0.35;
/// The part of their usual size below which files are small.
const SMALL: f64 = 0.4;

/// The parts of the bits that a stretch misses.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) causes: BTreeMap<Cause, f64>,
    pub(super) unexplained: f64,
}

impl Parts {
    fn add(&mut self, cause: Cause, bits: f64) {
        if bits > 0.0 {
            *self.causes.entry(cause).or_default() += bits;
        }
    }

    pub(super) fn largest(&self) -> Option<(&Cause, f64)> {
        let largest = self.causes.iter().max_by(|one, other| one.1.total_cmp(other.1));
        largest.map(|(cause, bits)| (cause, *bits))
    }
}

/// A stretch, and what is known around it.
pub(super) struct Scene<'v, 'r> {
    pub(super) view: &'v View<'r>,
    pub(super) usual: &'v References<'r>,
    pub(super) stretch: &'v Stretch,
    /// Bins after it in which late signals are still its own.
    pub(super) late: usize,
}

impl<'v, 'r> Scene<'v, 'r> {
    fn link(&self) -> &'v Link<'r> {
        &self.view.links[self.stretch.link]
    }

    /// The bins in which its signals are.
    fn bins(&self) -> Range<usize> {
        self.stretch.bins.start..(self.stretch.bins.end + self.late).min(self.link().bits.len())
    }

    /// Divides the missing bits.
    pub(super) fn parts(&self) -> Parts {
        let (link, bins) = (self.link(), self.stretch.bins.clone());
        let mut parts = Parts::default();
        let sum = link.sum(bins.clone());
        let mut rest = self.stretch.missing;
        if let Some(cause) = self.other_files() {
            parts.add(cause, rest);
            return parts;
        }
        let not_injected = self.not_injected().min(rest);
        rest -= not_injected;
        // A comb of injections and a controller that stops them look alike.
        let stopped = if stops(self.view, link) >= 2 { CONTROLLED } else { 0.0 };
        for (class, share) in [
            (CauseClass::Workload, 1.0 - stopped),
            (CauseClass::OtherController, stopped),
        ] {
            let place = self.workload();
            parts.add(Cause { class, place }, share * not_injected);
        }
        let failure = self.failure(FAILING);
        if let Some(cause) = failure.clone() {
            let failed = sum.lost.min(rest);
            rest -= failed;
            parts.add(cause, failed);
        }
        let mut weights = self.weights();
        if weights.values().all(|weight| *weight <= 0.0) {
            weights = self.raw_weights();
        }
        let whole: f64 = weights.values().sum();
        if whole <= 0.0 {
            parts.unexplained = rest;
            return parts;
        }
        for (cause, weight) in weights {
            parts.add(cause, rest * weight / whole);
        }
        parts
    }

    /// Whether files are much smaller than usual: the time of each is spent on all but its bytes.
    fn other_files(&self) -> Option<Cause> {
        let link = self.link();
        let now = link.sum(self.stretch.bins.clone());
        let usual = self.usual.size(self.stretch.link)?;
        let is_small = now.files >= 10.0 && now.injected / now.files < SMALL * usual;
        is_small.then(|| Cause {
            class: CauseClass::Workload,
            place: self.workload(),
        })
    }

    fn workload(&self) -> Option<Place> {
        let first = self.view.report.workloads.first()?;
        Some(Place::new(PlaceKind::Workload, first.name.as_str()))
    }

    /// Bits that no workload had asked for, though nothing held it back.
    pub(super) fn not_injected(&self) -> f64 {
        let link = self.link();
        let all = self.usual.outstanding(self.stretch.link);
        let normal = self.usual.usually_outstanding(self.view, self.stretch.link);
        let least = 1.2 * normal + 0.7 * link.file;
        let of = |bin: usize| {
            let bits = link.bits[bin];
            let more = all[bin].max(all[bin.saturating_sub(1)]);
            if !link.tells_injected || more > least || self.waiting(bin) > WAITING {
                0.0
            } else {
                (bits.asked - bits.injected.max(bits.achieved)).max(0.0)
            }
        };
        self.stretch.bins.clone().map(of).sum()
    }

    /// How many transfers wait beyond the usual number in a bin.
    fn waiting(&self, bin: usize) -> f64 {
        let link = self.link();
        let bits = link.bits[bin].achieved;
        let of = |waited: &super::view::Waited<'r>| {
            let usual = self
                .usual
                .usual(self.view, self.stretch.link, (waited.wait, waited.place), bits);
            (waited.seconds[bin] - usual).max(0.0)
        };
        let waits: f64 = link.waits.iter().map(of).sum();
        let slots =
            link.slots.get(bin).copied().unwrap_or_default() - self.usual.slots(self.view, self.stretch.link, bits);
        waits.max(slots) / self.view.bin_s
    }

    /// Whether most bits are missing from bins in which nothing moved, though there was something to move.
    fn is_dead(&self) -> bool {
        let link = self.link();
        let all = self.usual.outstanding(self.stretch.link);
        let dead = self.stretch.bins.clone().filter(|bin| {
            let bits = link.bits[*bin];
            bits.achieved < DEAD * bits.asked && (all[*bin] > 0.5 * link.file || !link.tells_injected)
        });
        let dead: Vec<usize> = dead.collect();
        let missing: f64 = dead.iter().map(|bin| link.bits[*bin].asked).sum();
        // Attempts on which nothing moves fail in time; attempts that only take long do not.
        let fail = link.failures.iter().any(|failed| failed.sum(self.bins()) > 0.0);
        let is_long = dead.len() > PATIENCE;
        missing >= DEAD_SHARE * self.stretch.missing && (fail || !is_long || self.is_unanswered())
    }

    /// Whether most of the unusual time in attempts is spent before data move: nothing answers.
    fn is_unanswered(&self) -> bool {
        let (slow, _) = self.in_slots(self.stretch.link);
        let sum = |is: &dyn Fn(Wait) -> bool| {
            slow.iter()
                .filter(|((wait, _), _)| is(*wait))
                .map(|(_, time)| time)
                .sum::<f64>()
        };
        let before = sum(&|wait| {
            matches!(
                wait,
                Wait::Resolve | Wait::Connect | Wait::Tls | Wait::Look | Wait::FirstByte
            )
        });
        before > 0.0 && before >= 0.5 * sum(&|_| true)
    }

    /// The failure of most attempts, where many failed.
    fn failure(&self, least: f64) -> Option<Cause> {
        let (link, bins) = (self.link(), self.bins());
        let done = link.sum(bins.clone()).achieved / link.file.max(1.0);
        let of = |failed: &super::view::Failed| failed.sum(bins.clone());
        let failed: f64 = link.failures.iter().map(of).sum();
        if failed < least * (failed + done) || failed <= 0.0 {
            return None;
        }
        let most = link
            .failures
            .iter()
            .max_by(|one, other| of(one).total_cmp(&of(other)))?;
        let is_all = failed >= 0.9 * (failed + done);
        if most.class == ErrorClass::NotFound {
            return Some(Cause {
                class: CauseClass::Workload,
                place: self.workload(),
            });
        }
        let mut cause = Cause::of_failure(most.class, most.party, link, is_all)?;
        let is_full = link
            .waits
            .iter()
            .any(|waited| waited.wait == Wait::Place && waited.sum(bins.clone()) > self.view.bin_s);
        if most.class == ErrorClass::Overload && link.tells && !is_full {
            cause.class = CauseClass::Software;
        }
        if most.class == ErrorClass::Network && come_together(&most.counts, bins) {
            cause.class = CauseClass::Admission;
        }
        Some(cause)
    }

    /// The time in attempts where nobody knows what is usual.
    fn raw_weights(&self) -> BTreeMap<Cause, f64> {
        let link = self.link();
        let mut weights = BTreeMap::new();
        let inside =
            |waited: &&super::view::Waited<'_>| !matches!(waited.wait.phase(), WaitPhase::Queue | WaitPhase::Catalogue);
        for waited in link.waits.iter().filter(inside) {
            let cause = Cause::of_wait(waited.wait, waited.place, link);
            *weights.entry(cause).or_insert(0.0) += waited.sum(self.bins());
        }
        weights
    }

    /// The time that transfers waited longer than usual, by its root.
    fn weights(&self) -> BTreeMap<Cause, f64> {
        let failure = self.failure(0.0);
        let link = self.link();
        let unusual = self.excess(self.stretch.link);
        let is_dead = self.is_dead();
        let mut weights = BTreeMap::new();
        let mut add = |cause: Cause, seconds: f64| *weights.entry(cause).or_insert(0.0) += seconds;
        let mut idle = 0.0;
        for ((wait, place), seconds) in &unusual {
            match wait {
                Wait::Slots | Wait::Optimiser | Wait::BandwidthLimit => {}
                Wait::Pause | Wait::Retry => idle += seconds,
                // A catalogue waits between its tries, too.
                Wait::Catalogue if failure.is_some() => idle += seconds,
                _ => add(self.cause(*wait, *place, self.stretch.link, is_dead), *seconds),
            }
        }
        if idle > 0.0 {
            let at = Self::dead_place(&unusual);
            let cause = match failure {
                Some(failure) if failure.class != CauseClass::Outage && failure.class != CauseClass::PathQuality => {
                    failure
                }
                _ if is_dead && Self::stands_still(&unusual) => {
                    Cause::at(CauseClass::PathQuality, PlaceKind::Path, link.name)
                }
                _ if is_dead => Cause {
                    class: CauseClass::Outage,
                    place: at.or_else(|| Some(Place::new(PlaceKind::SiteIn, link.destination_site))),
                },
                Some(failure) => failure,
                None => Cause {
                    class: CauseClass::Outage,
                    place: at,
                },
            };
            let place = cause
                .place
                .or_else(|| Some(Place::new(PlaceKind::RseIn, link.destination)));
            add(Cause { place, ..cause }, idle);
        }
        let untold = self.untold(self.stretch.link);
        if untold > 0.0 {
            add(self.cause(Wait::Data, None, self.stretch.link, false), untold);
        }
        if !link.slots.is_empty() {
            let time = |wait: Wait| {
                unusual
                    .iter()
                    .filter(|((of, _), _)| *of == wait)
                    .map(|(_, time)| time)
                    .sum::<f64>()
            };
            // A service holds transfers back whose issuer grants nothing, and counts them nowhere.
            let silent = if time(Wait::Token) > time(Wait::Store) + time(Wait::Turn) {
                Cause::at(CauseClass::Authorisation, PlaceKind::Issuer, "tokens")
            } else {
                Cause::at(CauseClass::ControlPlane, PlaceKind::Service, "transfer")
            };
            add(silent, self.unaccounted(self.stretch.link));
        }
        for waited in &link.waits {
            if !matches!(waited.wait, Wait::Slots | Wait::Optimiser | Wait::BandwidthLimit) {
                continue;
            }
            let seconds = unusual.get(&(waited.wait, waited.place)).copied().unwrap_or_default();
            if seconds <= 0.0 {
                continue;
            }
            let holders = holders(waited.holders, |name| self.view.number(name));
            for (holder, share) in holders.unwrap_or_else(|| vec![(self.stretch.link, 1.0)]) {
                let (slow, whole) = self.in_slots(holder);
                let time: f64 = slow.values().sum();
                // A limit of the service itself: whatever holds its slots, it lets that happen.
                if waited.wait == Wait::Slots && waited.place.is_none() {
                    let own = slow.into_values().sum::<f64>();
                    if own < 0.5 * whole || !link.tells {
                        add(Cause::of_wait(waited.wait, None, link), seconds * share);
                    }
                    continue;
                }
                if whole > 0.0 && time >= SLOW * whole {
                    for ((wait, place), part) in slow {
                        add(self.cause(wait, place, holder, is_dead), seconds * share * part / time);
                    }
                } else {
                    add(Cause::of_wait(waited.wait, waited.place, link), seconds * share);
                }
            }
        }
        weights
    }

    /// Whether data stand still after connections were made, and no place is told.
    fn stands_still(unusual: &BTreeMap<Key<'r>, f64>) -> bool {
        let of = |is: &dyn Fn(&Key<'r>) -> bool| {
            unusual
                .iter()
                .filter(|(key, _)| is(key))
                .map(|(_, time)| time)
                .sum::<f64>()
        };
        let still = of(&|(wait, place)| *wait == Wait::Data && place.is_some());
        still > of(&|(wait, _)| matches!(wait, Wait::Disk | Wait::Network))
    }

    /// The place at which data stood still.
    fn dead_place(unusual: &BTreeMap<Key<'r>, f64>) -> Option<Place> {
        let still = unusual
            .iter()
            .filter(|((wait, place), _)| place.is_some() && matches!(wait, Wait::Disk | Wait::Network));
        let most = still.max_by(|one, other| one.1.total_cmp(other.1))?;
        most.0.1.cloned()
    }

    fn cause(&self, wait: Wait, place: Option<&Place>, holder: usize, is_dead: bool) -> Cause {
        let mut cause = Cause::of_wait(wait, place, &self.view.links[holder]);
        if cause.class == CauseClass::StorageDataPath
            && wait == Wait::Disk
            && place.is_some_and(|place| self.gives_way(place))
        {
            cause.class = CauseClass::Admission;
        }
        let is_still = matches!(
            wait,
            Wait::Disk
                | Wait::Network
                | Wait::Data
                | Wait::Resolve
                | Wait::Connect
                | Wait::Tls
                | Wait::FirstByte
                | Wait::Look
        );
        if is_dead && is_still {
            // Connections that stand and then carry nothing: packets of full size are lost.
            let is_path = wait == Wait::Data && place.is_some();
            cause.class = if is_path {
                CauseClass::PathQuality
            } else {
                CauseClass::Outage
            };
            if place.is_none() && wait != Wait::Data {
                cause.place = Some(self.silent_place(wait, holder));
            }
        }
        if wait == Wait::Network && self.is_rerouted(place) {
            cause.class = CauseClass::Outage;
        }
        cause
    }

    /// The place that does not answer: a site where no connection is made or no data come from, a storage that takes connections and says
    /// nothing.
    fn silent_place(&self, wait: Wait, holder: usize) -> Place {
        let link = &self.view.links[holder];
        match wait {
            Wait::Resolve | Wait::Connect | Wait::FirstByte => Place::new(PlaceKind::SiteIn, link.destination_site),
            _ => Place::new(PlaceKind::RseIn, link.destination),
        }
    }

    /// Whether a storage carries the less the more copies there are.
    fn gives_way(&self, place: &Place) -> bool {
        let load = self.usual.load(place);
        let bins = (self.stretch.bins.start + 2).min(load.len())..self.stretch.bins.end.min(load.len());
        let is_held = |load: &&Load| load.seconds > 0.0 && load.achieved < 0.9 * load.asked;
        let point = |load: &Load| (load.seconds, load.achieved);
        let slice = load.get(bins).unwrap_or_default();
        let mut points: Vec<(f64, f64)> = slice.iter().filter(is_held).map(point).collect();
        if points.len() < 9 {
            return false;
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let third = points.len() / 3;
        let mean = |points: &[(f64, f64)]| {
            let sum = points
                .iter()
                .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            (sum.0 / points.len() as f64, sum.1 / points.len() as f64)
        };
        let (few, many) = (mean(&points[..third]), mean(&points[points.len() - third..]));
        many.0 >= 1.3 * few.0 && many.1 <= 0.85 * few.1
    }

    /// Whether the link's data usually wait at another segment, and no longer do.
    fn is_rerouted(&self, place: Option<&Place>) -> bool {
        let Some(place) = place.filter(|place| place.kind == PlaceKind::Segment) else {
            return false;
        };
        let (link, bins) = (self.link(), self.bins());
        let core = bins.start + 1..(self.stretch.bins.end.saturating_sub(1)).max(bins.start + 2);
        let has_moved = link.waits.iter().any(|waited| {
            let is_other = waited.wait == Wait::Network
                && waited
                    .place
                    .is_some_and(|other| other.kind == PlaceKind::Segment && other != place);
            let usual = self.usual.known(self.stretch.link, (waited.wait, waited.place));
            let seconds = waited.sum(core.clone());
            let bits = link.sum(core.clone()).achieved;
            is_other && usual > 0.0 && seconds < 0.3 * usual * bits
        });
        (has_moved || self.usual.is_known(self.stretch.link))
            && self.usual.known(self.stretch.link, (Wait::Network, Some(place))) <= 0.0
    }

    /// Time beyond the usual by state and place.
    fn excess(&self, link: usize) -> BTreeMap<Key<'r>, f64> {
        let of = &self.view.links[link];
        let bins = self.bins();
        let bits = of.sum(bins.clone()).achieved;
        let mut excess = BTreeMap::new();
        for waited in &of.waits {
            let key = (waited.wait, waited.place);
            let more = waited.sum(bins.clone()) - self.usual.usual(self.view, link, key, bits);
            if more > 0.0 {
                *excess.entry(key).or_insert(0.0) += more;
            }
        }
        divide_data(&mut excess);
        excess
    }

    /// Time that transfers were there and neither waited in a state nor held a slot (Little's law): nobody tells of them.
    fn unaccounted(&self, link: usize) -> f64 {
        let of = &self.view.links[link];
        let all = self.usual.outstanding(link);
        let in_bin = |bin: usize| {
            let there = all[bin].min(all[bin.saturating_sub(1)]).max(0.0) / of.file.max(1.0) * self.view.bin_s;
            let is_told =
                |wait: Wait| of.slots.is_empty() || matches!(wait.phase(), WaitPhase::Queue | WaitPhase::Catalogue);
            let told = of.waits.iter().filter(|waited| is_told(waited.wait));
            let told: f64 = told.map(|waited| waited.seconds[bin]).sum();
            (there - told - of.slots.get(bin).copied().unwrap_or_default() - self.view.bin_s).max(0.0)
        };
        self.stretch.bins.clone().map(in_bin).sum()
    }

    /// Time in slots of which no state is told, beyond the usual.
    fn untold(&self, link: usize) -> f64 {
        let of = &self.view.links[link];
        if of.tells {
            return 0.0;
        }
        let bins = self.bins();
        if of.slots.is_empty() {
            return self.unaccounted(link);
        }
        let bits = of.sum(bins.clone()).achieved;
        let slots: f64 = of.slots[bins.start.min(of.slots.len())..bins.end.min(of.slots.len())]
            .iter()
            .sum();
        (slots - self.usual.slots(self.view, link, bits)).max(0.0)
    }

    /// The unusual time within the attempts of a link, and all of it.
    fn in_slots(&self, link: usize) -> (BTreeMap<Key<'r>, f64>, f64) {
        let is_inside = |wait: Wait| !matches!(wait.phase(), WaitPhase::Queue | WaitPhase::Catalogue);
        let mut slow = self.excess(link);
        slow.retain(|(wait, _), _| is_inside(*wait));
        let of = &self.view.links[link];
        let inside = of.waits.iter().filter(|waited| is_inside(waited.wait));
        let told: f64 = inside.map(|waited| waited.sum(self.bins())).sum();
        if of.tells {
            return (slow, told);
        }
        let untold = self.untold(link);
        if untold > 0.0 {
            slow.insert((Wait::Data, None), untold);
        }
        let bins = self.bins();
        (
            slow,
            of.slots
                .get(bins.start..bins.end.min(of.slots.len()))
                .unwrap_or_default()
                .iter()
                .sum(),
        )
    }
}

/// The links that held slots, with their shares of a wait; `None` where nobody tells, or so short a time that it rounds to nothing.
fn holders(told: &[Holder], number: impl Fn(&str) -> Option<usize>) -> Option<Vec<(usize, f64)>> {
    let held: f64 = told.iter().map(|holder| holder.waited_s).sum();
    let of = |holder: &Holder| Some((number(&holder.link)?, holder.waited_s / held));
    let holders: Vec<(usize, f64)> = told.iter().filter_map(of).collect();
    (held > 0.0 && !holders.is_empty()).then_some(holders)
}

/// How often the injection of a link stopped, each time but the first after a while without a catch-up: somebody stops it again and
/// again.
fn stops(view: &View<'_>, link: &Link<'_>) -> usize {
    let is_still = |bin: &usize| link.bits[*bin].injected <= 0.0;
    let mut stops = 0;
    let mut bin = view.hold.start;
    while bin < view.hold.end {
        let still = (bin..view.hold.end).take_while(is_still).count();
        let on = bin + still;
        let end = on + (on..view.hold.end).take_while(|bin| !is_still(bin)).count();
        let sum = link.sum(on..end);
        let cycle = link.sum(bin..end);
        let is_short = end - on <= 4 && sum.injected <= AGAIN * cycle.asked;
        if still >= 3 && (is_short || end == view.hold.end) {
            stops += 1;
        }
        bin = end;
    }
    stops
}

/// The part of the bits asked for since it stopped, that a workload injects before it is stopped again.
const AGAIN: f64 = 0.4;

/// Whether failures come many at a time, with none between: a server that dies takes all with it.
fn come_together(counts: &[f64], bins: Range<usize>) -> bool {
    let counts = &counts[bins.start.min(counts.len())..bins.end.min(counts.len())];
    let some: Vec<f64> = counts.iter().copied().filter(|count| *count > 0.0).collect();
    let sum: f64 = some.iter().sum();
    some.len() * 2 <= counts.len() && sum >= 3.0 * some.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_that_round_to_nothing_are_none() {
        let holder = |link: &str, waited_s: f64| Holder {
            link: link.to_owned(),
            waited_s,
        };
        let number = |name: &str| (name != "gone").then_some(name.len());
        let told = [holder("A→B", 3.0), holder("gone", 1.0)];
        assert_eq!(holders(&told, number), Some(vec![(5, 0.75)]));
        // Wrong: a share of nothing is no number, and takes all other causes with it.
        assert_eq!(holders(&[holder("A→B", 0.0)], number), None);
        assert_eq!(holders(&[], number), None);
    }
}
