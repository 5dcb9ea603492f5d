//! Stretches of links with one cause, put together.

use std::collections::{BTreeMap, BTreeSet};

use weir_world::{CauseClass, Place, PlaceKind, Wait};

use super::cause::Cause;
use super::root::Parts;
use super::stretch::Stretch;
use super::view::{Link, View, Waited};

/// The part of the largest cause of a stretch that another needs to count instead.
const LARGE: f64 = 0.5;
/// The part of its time that a group shares with another, so that they cannot be told apart.
const TOGETHER: f64 = 0.6;

/// Stretches by their cause.
pub(super) type Groups<'s> = BTreeMap<Cause, Vec<Explained<'s>>>;

/// A stretch with its cause.
pub(super) struct Explained<'s> {
    pub(super) stretch: &'s Stretch,
    pub(super) parts: Parts,
    pub(super) cause: Cause,
    /// Whether nothing is told that could name it.
    pub(super) is_guess: bool,
}

impl Explained<'_> {
    /// Its bits of which nothing is told have this cause.
    pub(super) fn adopt(&mut self, cause: &Cause) {
        let untold = self.parts.causes.remove(&self.cause).unwrap_or_default();
        *self.parts.causes.entry(cause.clone()).or_default() += untold;
        self.cause = cause.clone();
    }

    /// The part of its missing bits that its cause explains.
    fn share(&self) -> f64 {
        self.parts.causes.get(&self.cause).copied().unwrap_or_default() / self.stretch.missing.max(1.0)
    }
}

/// Puts stretches with one cause together.
pub(super) fn groups<'s>(view: &View<'_>, explained: Vec<Explained<'s>>) -> Groups<'s> {
    let mut groups = Groups::new();
    for one in explained {
        groups.entry(one.cause.clone()).or_default().push(one);
    }
    inseparable(held_by_service(view, merged(groups)))
}

/// Where two causes have large parts of a stretch, that one counts which holds more of the whole run.
pub(super) fn prefer(explained: &mut [Explained<'_>]) {
    let mut totals: BTreeMap<Cause, f64> = BTreeMap::new();
    for one in explained.iter() {
        for (cause, bits) in &one.parts.causes {
            *totals.entry(cause.clone()).or_default() += bits;
        }
    }
    for one in explained.iter_mut() {
        let Some((_, most)) = one.parts.largest() else { continue };
        let large = one
            .parts
            .causes
            .iter()
            .filter(|(cause, bits)| **bits >= LARGE * most && cause.class != CauseClass::Other);
        let total = |cause: &Cause| totals.get(cause).copied().unwrap_or_default();
        let best = large.max_by(|one, other| total(one.0).total_cmp(&total(other.0)));
        if let Some((cause, _)) = best {
            one.cause = cause.clone();
        }
    }
}

/// A link that does not tell what its transfers wait for is held by what holds others at the same time, where it is on its way.
pub(super) fn adopt(view: &View<'_>, explained: &mut [Explained<'_>]) {
    let known: Vec<(Cause, Stretch)> = explained
        .iter()
        .filter(|one| one.cause.class != CauseClass::Other && one.share() >= LARGE)
        .map(|one| (one.cause.clone(), one.stretch.clone()))
        .collect();
    for one in explained.iter_mut().filter(|one| one.cause.class == CauseClass::Other) {
        let link = &view.links[one.stretch.link];
        let near = known.iter().filter(|(cause, stretch)| {
            let both = stretch
                .bins
                .end
                .min(one.stretch.bins.end)
                .saturating_sub(stretch.bins.start.max(one.stretch.bins.start));
            both * 2 >= one.stretch.bins.len() && cause.place.as_ref().is_some_and(|place| is_on_the_way(place, link))
        });
        let most = near.max_by(|one, other| one.1.missing.total_cmp(&other.1.missing));
        if let Some((cause, _)) = most {
            one.adopt(cause);
        } else {
            one.cause = Cause::at(CauseClass::PathQuality, PlaceKind::Path, link.name);
            one.is_guess = true;
        }
    }
}

/// Whether a place may be on the way of a link. Of segments and sites only their links know.
fn is_on_the_way(place: &Place, link: &Link<'_>) -> bool {
    let server = |name: &str| place.name.split_once('#').is_some_and(|(rse, _)| rse == name);
    match place.kind {
        PlaceKind::RseIn => place.name == link.destination,
        PlaceKind::RseOut => place.name == link.source,
        PlaceKind::Server => server(link.source) || server(link.destination),
        PlaceKind::Path => place.name == link.name,
        PlaceKind::SiteIn => place.name == link.destination_site,
        PlaceKind::SiteOut => place.name == link.source_site,
        _ => true,
    }
}

/// A service with one limit for all lets any link hold its slots: links that wait for it belong to it.
fn held_by_service<'s>(
    view: &View<'_>,
    mut groups: BTreeMap<Cause, Vec<Explained<'s>>>,
) -> BTreeMap<Cause, Vec<Explained<'s>>> {
    let service = Cause::at(CauseClass::SchedulerPolicy, PlaceKind::Service, "transfer");
    let Some(mut all) = groups.remove(&service) else {
        return groups;
    };
    // All links that it lets wait, and those that share an end with them.
    let ends = |link: &Link<'_>| [(true, link.source.to_owned()), (false, link.destination.to_owned())];
    let held: BTreeSet<(bool, String)> = all.iter().flat_map(|one| ends(&view.links[one.stretch.link])).collect();
    let waits = |one: &Explained<'_>| {
        let link = &view.links[one.stretch.link];
        let is_unplaced = |waited: &Waited<'_>| waited.wait == Wait::Slots && waited.place.is_none();
        link.waits.iter().any(is_unplaced) && ends(link).iter().any(|end| held.contains(end))
    };
    let mut rest = BTreeMap::new();
    for (cause, group) in groups {
        let (own, others): (Vec<_>, Vec<_>) = group.into_iter().partition(|one| waits(one));
        all.extend(own);
        if !others.is_empty() {
            rest.insert(cause, others);
        }
    }
    rest.insert(service, all);
    rest
}

/// Two causes of the same links at the same time cannot be told apart: the larger one counts.
fn inseparable(groups: BTreeMap<Cause, Vec<Explained<'_>>>) -> BTreeMap<Cause, Vec<Explained<'_>>> {
    let mut sorted: Vec<_> = groups.into_iter().collect();
    let missing = |group: &[Explained<'_>]| group.iter().map(|one| one.stretch.missing).sum::<f64>();
    sorted.sort_by(|one, other| missing(&other.1).total_cmp(&missing(&one.1)));
    let mut kept: Vec<(Cause, Vec<Explained<'_>>)> = Vec::new();
    for (cause, group) in sorted {
        match kept.iter_mut().find(|(_, larger)| are_together(larger, &group)) {
            Some((_, larger)) => larger.extend(group),
            None => kept.push((cause, group)),
        }
    }
    kept.into_iter().collect()
}

/// Whether most links of one group are those of another, and so is their time.
fn are_together(larger: &[Explained<'_>], group: &[Explained<'_>]) -> bool {
    let span = |group: &[Explained<'_>]| {
        let from = group.iter().map(|one| one.stretch.bins.start).min().unwrap_or(0);
        from..group.iter().map(|one| one.stretch.bins.end).max().unwrap_or(0)
    };
    let (long, short) = (span(larger), span(group));
    let both = long.end.min(short.end).saturating_sub(long.start.max(short.start));
    let links = |group: &[Explained<'_>]| group.iter().map(|one| one.stretch.link).collect::<BTreeSet<usize>>();
    let (many, few) = (links(larger), links(group));
    let common = few.intersection(&many).count();
    both as f64 >= TOGETHER * short.len() as f64 && 2 * common > many.len()
}

/// Puts causes together that are one: both directions of a storage, and slots that others hold.
fn merged(groups: BTreeMap<Cause, Vec<Explained<'_>>>) -> BTreeMap<Cause, Vec<Explained<'_>>> {
    let mut merged: BTreeMap<Cause, Vec<Explained<'_>>> = BTreeMap::new();
    let weight = |group: &[Explained<'_>]| group.iter().map(|one| one.stretch.missing).sum::<f64>();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|one, other| weight(&other.1).total_cmp(&weight(&one.1)));
    for (cause, group) in groups {
        let same = merged.keys().find(|known| is_one(known, &cause)).cloned();
        merged.entry(same.unwrap_or(cause)).or_default().extend(group);
    }
    merged
}

fn is_one(known: &Cause, cause: &Cause) -> bool {
    let rse = |cause: &Cause| {
        let place = cause.place.as_ref()?;
        matches!(place.kind, PlaceKind::RseIn | PlaceKind::RseOut).then(|| place.name.clone())
    };
    // A storage that is slow, and one that gives way, are one storage.
    let is_slow = |cause: &Cause| matches!(cause.class, CauseClass::StorageDataPath | CauseClass::Admission);
    let is_like = known.class == cause.class || is_slow(known) && is_slow(cause);
    is_like && rse(known).is_some() && rse(known) == rse(cause)
}
