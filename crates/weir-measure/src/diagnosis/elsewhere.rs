//! Causes at one end of a link that the other links there contradict.

use std::ops::Range;

use weir_world::{CauseClass, Place, PlaceKind, Wait};

use super::cause::Cause;
use super::groups::Explained;
use super::view::{Link, View};

/// The fewest other links that speak for or against an end.
const FEWEST: usize = 2;
/// The part of the time in the slots of a link from which a disk counts as slow.
const SLOW_DISK: f64 = 0.02;

/// Moves an outage from an end of a link where most links are well to the other end, if none is well there.
///
/// A link on which nothing moves does not tell which of its ends is silent. Its neighbours do.
pub(super) fn relocate(view: &View<'_>, explained: &mut [Explained<'_>]) {
    let held: Vec<(usize, Range<usize>)> = explained
        .iter()
        .map(|one| (one.stretch.link, one.stretch.bins.clone()))
        .collect();
    for one in explained.iter_mut().filter(|one| one.cause.class == CauseClass::Outage) {
        let (number, bins) = (one.stretch.link, &one.stretch.bins);
        let link = &view.links[number];
        let Some(other) = one.cause.place.as_ref().and_then(|place| other_end(place, link)) else {
            continue;
        };
        let is_held = |at: usize| {
            held.iter()
                .any(|(link, other)| *link == at && 2 * common(other, bins) >= bins.len())
        };
        let of = |is_there: &dyn Fn(&Link<'_>) -> bool| {
            let all = view.links.iter().enumerate();
            let there = all.filter(|(at, link)| *at != number && is_there(link) && is_asked(link, bins));
            let (held, well): (Vec<usize>, Vec<usize>) = there.map(|(at, _)| at).partition(|at| is_held(*at));
            (held.len(), well.len())
        };
        let is_source = other == PlaceKind::RseOut;
        let (here_held, here_well) = of(&|other| {
            if is_source {
                other.destination == link.destination
            } else {
                other.source == link.source
            }
        });
        let end = if is_source { link.source } else { link.destination };
        let (there_held, there_well) = of(&|other| other.source == end || other.destination == end);
        if here_well >= FEWEST && here_well > here_held && there_held >= FEWEST && there_well == 0 {
            let class = if is_disk_slow(view, end, bins) {
                CauseClass::StorageDataPath
            } else {
                CauseClass::Outage
            };
            one.adopt(&Cause::at(class, other, end));
        }
    }
}

/// The end of a link at which a place is not; `None` of a place that is at no end.
fn other_end(place: &Place, link: &Link<'_>) -> Option<PlaceKind> {
    match place.kind {
        PlaceKind::RseIn if place.name == link.destination => Some(PlaceKind::RseOut),
        PlaceKind::SiteIn if place.name == link.destination_site => Some(PlaceKind::RseOut),
        PlaceKind::RseOut if place.name == link.source => Some(PlaceKind::RseIn),
        PlaceKind::SiteOut if place.name == link.source_site => Some(PlaceKind::RseIn),
        _ => None,
    }
}

fn is_asked(link: &Link<'_>, bins: &Range<usize>) -> bool {
    link.sum(bins.clone()).asked > 0.0
}

fn common(one: &Range<usize>, other: &Range<usize>) -> usize {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

/// Whether transfers wait for the disk of a storage.
fn is_disk_slow(view: &View<'_>, rse: &str, bins: &Range<usize>) -> bool {
    let waited = view.links.iter().flat_map(|link| &link.waits);
    let is_disk = |place: &Place| matches!(place.kind, PlaceKind::RseIn | PlaceKind::RseOut) && place.name == rse;
    let at_disk = waited.filter(|waited| waited.wait == Wait::Disk && waited.place.is_some_and(is_disk));
    let seconds: f64 = at_disk.map(|waited| waited.sum(bins.clone())).sum();
    let there = view
        .links
        .iter()
        .filter(|link| link.source == rse || link.destination == rse);
    let slots: f64 = there
        .flat_map(|link| {
            link.slots
                .get(bins.start..bins.end.min(link.slots.len()))
                .unwrap_or_default()
        })
        .sum();
    seconds > SLOW_DISK * slots
}

#[cfg(test)]
mod tests {
    use super::super::coarse::Bits;
    use super::super::root::Parts;
    use super::super::stretch::Stretch;
    use super::super::view::Waited;
    use super::*;

    /// Links between A, B and C in ten bins. All that begin or end at A stand still.
    fn links(disk: &Place) -> Vec<Link<'_>> {
        const PAIRS: [(&str, &str, &str); 6] = [
            ("A→B", "A", "B"),
            ("A→C", "A", "C"),
            ("B→A", "B", "A"),
            ("C→A", "C", "A"),
            ("B→C", "B", "C"),
            ("C→B", "C", "B"),
        ];
        let link = |(name, source, destination): (&'static str, &'static str, &'static str)| {
            let is_held = name.contains('A');
            let bits = Bits {
                asked: 100.0,
                achieved: if is_held { 1.0 } else { 100.0 },
                ..Bits::default()
            };
            let waited = Waited {
                wait: Wait::Disk,
                place: Some(disk),
                seconds: vec![if name == "B→A" { 5.0 } else { 0.0 }; 10],
                holders: &[],
            };
            Link {
                name,
                source,
                destination,
                source_site: source,
                destination_site: destination,
                bits: vec![bits; 10],
                file: 10.0,
                transfers: 10.0,
                failures: Vec::new(),
                waits: vec![waited],
                slots: vec![10.0; 10],
                tells: true,
                tells_injected: true,
            }
        };
        let more = [("D→B", "D", "B"), ("D→C", "D", "C")];
        PAIRS.into_iter().chain(more).map(link).collect()
    }

    fn relocated(disk: &str, cause: &Cause) -> Cause {
        let place = Place::new(PlaceKind::RseIn, disk);
        let view = View::with(links(&place), 10);
        let stretch = |link| Stretch {
            link,
            bins: 2..10,
            missing: 99.0 * 8.0,
        };
        let stretches: Vec<Stretch> = (0..4).map(stretch).collect();
        let mut explained: Vec<Explained<'_>> = stretches
            .iter()
            .map(|stretch| Explained {
                stretch,
                parts: Parts {
                    causes: [(cause.clone(), stretch.missing)].into(),
                    unexplained: 0.0,
                },
                cause: cause.clone(),
                is_guess: false,
            })
            .collect();
        relocate(&view, &mut explained);
        explained.swap_remove(0).cause
    }

    #[test]
    fn an_end_whose_other_links_are_well_is_not_the_silent_one() {
        let at = |class, kind, name| Cause::at(class, kind, name);
        let said = at(CauseClass::Outage, PlaceKind::SiteIn, "B");
        // A→B stands still, and C→B and D→B are well; all other links of A stand still, too.
        assert_eq!(relocated("X", &said), at(CauseClass::Outage, PlaceKind::RseOut, "A"));
        assert_eq!(
            relocated("A", &said),
            at(CauseClass::StorageDataPath, PlaceKind::RseOut, "A")
        );
        // Nothing contradicts a place that is at the silent end, at no end, or another class.
        for said in [
            at(CauseClass::Outage, PlaceKind::RseOut, "A"),
            at(CauseClass::Outage, PlaceKind::Segment, "core"),
            at(CauseClass::PathQuality, PlaceKind::SiteIn, "B"),
        ] {
            assert_eq!(relocated("A", &said), said);
        }
    }
}
