//! The diagnosis: what held links back.

use std::collections::BTreeMap;

use weir_world::{CauseClass, Place, PlaceKind, Wait};

use super::cause::Cause;
use super::findings::findings;
use super::reference::References;
use super::root::{Parts, Scene};
use super::statement::{Alternative, Statement};
use super::stretch::{Stretch, stretches};
use super::view::View;
use crate::report::Report;

/// The share of the asked bits from its begin to the end of the hold that a stretch must cost.
const COSTS: f64 = 0.05;

/// The part of the largest cause of a stretch that another needs to count instead.
const LARGE: f64 = 0.5;
/// The part of the mean deficit that a bin at an edge needs.
const EDGE: f64 = 0.35;

/// A stretch with its cause.
struct Explained<'s> {
    stretch: &'s Stretch,
    parts: Parts,
    cause: Cause,
}

impl Explained<'_> {
    /// The part of its missing bits that its cause explains.
    fn share(&self) -> f64 {
        self.parts.causes.get(&self.cause).copied().unwrap_or_default() / self.stretch.missing.max(1.0)
    }
}

/// Statements about what held links back; none for a run that was well.
pub fn diagnose(report: &Report) -> Vec<Statement> {
    let view = View::of(report);
    let stretches = stretches(&view);
    let usual = References::of(&view, &stretches);
    let mut explained = Vec::new();
    for stretch in &stretches {
        let scene = Scene {
            view: &view,
            usual: &usual,
            stretch,
        };
        let parts = scene.parts();
        if let Some((cause, _)) = parts.largest() {
            let cause = cause.clone();
            explained.push(Explained { stretch, parts, cause });
        }
    }
    prefer(&mut explained);
    adopt(&view, &mut explained);
    controllers(&view, &mut explained);
    let mut groups: BTreeMap<Cause, Vec<Explained<'_>>> = BTreeMap::new();
    for one in explained {
        groups.entry(one.cause.clone()).or_default().push(one);
    }
    let groups = held_by_service(&view, merged(groups));
    let costly = groups
        .into_iter()
        .filter(|(_, group)| group.iter().any(|one| is_costly(&view, one.stretch)));
    let mut statements: Vec<Statement> = costly.map(|(cause, group)| statement(&view, cause, &group)).collect();
    statements.extend(findings(&view, &statements));
    statements.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    statements
}

/// Whether a link missed enough from the begin of a stretch to the end of the hold, after all that it caught up.
fn is_costly(view: &View<'_>, stretch: &Stretch) -> bool {
    let sum = view.links[stretch.link].sum(stretch.bins.start..view.hold.end);
    sum.asked - sum.achieved >= COSTS * sum.asked
}

/// Where two causes have large parts of a stretch, that one counts which holds more of the whole run.
fn prefer(explained: &mut [Explained<'_>]) {
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
fn adopt(view: &View<'_>, explained: &mut [Explained<'_>]) {
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
        one.cause = match most {
            Some((cause, _)) => cause.clone(),
            None => Cause::at(CauseClass::StorageDataPath, PlaceKind::RseIn, link.destination),
        };
    }
}

/// Whether a place may be on the way of a link. Of segments and sites only their links know.
fn is_on_the_way(place: &Place, link: &super::view::Link<'_>) -> bool {
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

/// A workload that stops again and again, and makes nothing up, is stopped by somebody.
fn controllers(view: &View<'_>, explained: &mut [Explained<'_>]) {
    for one in explained
        .iter_mut()
        .filter(|one| one.cause.class == CauseClass::Workload)
    {
        if stops(view, one.stretch.link) >= 2 {
            one.cause.class = CauseClass::OtherController;
        }
    }
}

/// How often the injection of a link stopped, each time but the first after a while without a catch-up.
fn stops(view: &View<'_>, link: usize) -> usize {
    let link = &view.links[link];
    let mut stops = 0;
    let mut bin = view.hold.start;
    let is_still = |bin: usize| link.bits[bin].injected <= 0.0;
    while bin < view.hold.end {
        let begin = bin;
        while bin < view.hold.end && is_still(bin) {
            bin += 1;
        }
        let length = bin - begin;
        let on = bin;
        while bin < view.hold.end && !is_still(bin) {
            bin += 1;
        }
        let sum = link.sum(on..bin);
        let is_short = bin - on <= 4 && sum.injected <= 1.5 * sum.asked + link.file;
        if length >= 3 && (is_short || bin == view.hold.end) {
            stops += 1;
        }
        bin = bin.max(begin + 1);
    }
    stops
}

/// Where a service has one limit for all, whoever holds its slots: links that wait for it belong to it.
fn held_by_service<'s>(
    view: &View<'_>,
    mut groups: BTreeMap<Cause, Vec<Explained<'s>>>,
) -> BTreeMap<Cause, Vec<Explained<'s>>> {
    let service = Cause::at(CauseClass::SchedulerPolicy, PlaceKind::Service, "transfer");
    let Some(mut all) = groups.remove(&service) else {
        return groups;
    };
    let waits = |one: &Explained<'_>| {
        let link = &view.links[one.stretch.link];
        let unplaced = link
            .waits
            .iter()
            .filter(|waited| waited.wait == Wait::Slots && waited.place.is_none());
        unplaced.map(|waited| waited.sum(one.stretch.bins.clone())).sum::<f64>()
            > one.stretch.bins.len() as f64 * view.bin_s
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
    known.class == cause.class && rse(known).is_some() && rse(known) == rse(cause)
}

/// When the links of a group together began and ceased to miss bits: noise of one link is none of all.
fn edges(view: &View<'_>, links: &[usize], group: &[Explained<'_>]) -> (usize, usize) {
    let own = || group.iter().filter(|one| links.contains(&one.stretch.link));
    let first = own().map(|one| one.stretch.bins.start).min().unwrap_or(0);
    let end = own().map(|one| one.stretch.bins.end).max().unwrap_or(0);
    let bin = |bin: usize| {
        links
            .iter()
            .map(|link| view.links[*link].bits[bin])
            .fold((0.0, 0.0), |sum, bits| {
                (sum.0 + bits.asked, sum.1 + bits.asked - bits.achieved)
            })
    };
    let shares: Vec<f64> = (first..end)
        .map(bin)
        .map(|(asked, missing)| missing / asked.max(1.0))
        .collect();
    let mut sorted: Vec<f64> = shares.iter().copied().filter(|share| *share > COSTS).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let is_in = |share: &f64| *share >= EDGE * middle;
    let from = shares.iter().position(is_in).unwrap_or(0);
    let until = shares.iter().rposition(is_in).map_or(shares.len(), |last| last + 1);
    (first + from, first + until)
}

fn statement(view: &View<'_>, cause: Cause, group: &[Explained<'_>]) -> Statement {
    let mut links: Vec<usize> = group
        .iter()
        .filter(|one| is_costly(view, one.stretch))
        .map(|one| one.stretch.link)
        .collect();
    links.sort_unstable();
    links.dedup();
    let (from, until) = edges(view, &links, group);
    let seconds = (until - from).max(1) as f64 * view.bin_s;
    let (mut asked, mut achieved) = (0.0, 0.0);
    for link in &links {
        let sum = view.links[*link].sum(from..until);
        asked += sum.asked;
        achieved += sum.achieved;
    }
    let mut others: BTreeMap<&Cause, f64> = BTreeMap::new();
    let mut whole = 0.0;
    for one in group {
        whole += one.parts.causes.values().sum::<f64>() + one.parts.unexplained;
        for (cause, bits) in &one.parts.causes {
            *others.entry(cause).or_default() += bits;
        }
    }
    let share = others.remove(&cause).unwrap_or_default() / whole.max(1.0);
    let of = |(cause, bits): (&Cause, f64)| Alternative {
        class: cause.class,
        place: cause.place.clone(),
        probability: bits / whole,
    };
    let mut others: Vec<Alternative> = others.into_iter().map(of).collect();
    others.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    others.truncate(3);
    Statement {
        class: cause.class,
        place: cause.place,
        links: links.iter().map(|link| view.links[*link].name.to_owned()).collect(),
        from_s: from as f64 * view.bin_s,
        until_s: until as f64 * view.bin_s,
        asked_bps: asked / seconds,
        held_bps: achieved / seconds,
        probability: share,
        others,
        is_open: false,
    }
}
