//! The place that several paths have in common.

use weir_world::{CauseClass, Place, PlaceKind};

use super::cause::Cause;
use super::groups::Explained;
use super::view::{Link, View};

/// The fewest paths that can have a place in common.
const FEWEST: usize = 2;

/// An end of links: its name on a link, and its place where the paths there have a cause of this class.
type End = (for<'l, 'r> fn(&'l Link<'r>) -> &'r str, PlaceKind);

/// Gives stretches whose cause is at their paths the end that they share, if all links there are held back so, and no other end does.
pub(super) fn widen(view: &View<'_>, explained: &mut [Explained<'_>]) {
    for class in [CauseClass::SharedCapacity, CauseClass::Outage, CauseClass::PathQuality] {
        let held: Vec<usize> = explained
            .iter()
            .filter(|one| is_at_path(&one.cause, class))
            .map(|one| one.stretch.link)
            .collect();
        for one in explained.iter_mut().filter(|one| is_at_path(&one.cause, class)) {
            let link = &view.links[one.stretch.link];
            let shared: Vec<Cause> = ends(class)
                .iter()
                .filter(|(name, _)| is_shared(view, &held, *name, name(link)))
                .map(|(name, kind)| Cause {
                    class: widened(class),
                    place: Some(Place::new(*kind, name(link))),
                })
                .collect();
            if let [cause] = shared.as_slice() {
                one.adopt(cause);
            }
        }
    }
}

fn is_at_path(cause: &Cause, class: CauseClass) -> bool {
    cause.class == class && cause.place.as_ref().is_some_and(|place| place.kind == PlaceKind::Path)
}

fn ends(class: CauseClass) -> [End; 2] {
    match class {
        // Each connection is slow at a storage: the network is none of its own.
        CauseClass::PathQuality => [
            (|link| link.source, PlaceKind::RseOut),
            (|link| link.destination, PlaceKind::RseIn),
        ],
        _ => [
            (|link| link.source_site, PlaceKind::SiteOut),
            (|link| link.destination_site, PlaceKind::SiteIn),
        ],
    }
}

fn widened(class: CauseClass) -> CauseClass {
    match class {
        CauseClass::PathQuality => CauseClass::StorageDataPath,
        other => other,
    }
}

/// Whether every link at an end is held back, and they are several.
fn is_shared(view: &View<'_>, held: &[usize], name: for<'l, 'r> fn(&'l Link<'r>) -> &'r str, end: &str) -> bool {
    let is_there = |link: &&Link<'_>| name(link) == end && link.bits.iter().any(|bits| bits.asked > 0.0);
    let all = view.links.iter().filter(is_there).count();
    let mut there: Vec<usize> = held
        .iter()
        .copied()
        .filter(|link| name(&view.links[*link]) == end)
        .collect();
    there.sort_unstable();
    there.dedup();
    all >= FEWEST && there.len() == all
}
