//! One cause after the other: a stretch is divided where its cause changes.

use std::ops::Range;

use weir_world::CauseClass;

use super::cause::Cause;
use super::reference::References;
use super::root::{Parts, Scene};
use super::runs::runs;
use super::stretch::Stretch;
use super::view::View;

/// Bins after a stretch in which late signals are still its own.
pub(super) const LATE: usize = 3;
/// The part of a stretch that a cause must explain to have bins of its own.
const PART: f64 = 0.12;
/// The same of a workload: a little is not injected in time in any case.
const UNASKED: f64 = 0.3;
/// The part of its bits that a cause must explain in bins of its own.
const CLEAR: f64 = 0.75;

/// The parts of the missing bits of a stretch.
pub(super) fn parts(view: &View<'_>, usual: &References<'_>, stretch: &Stretch, late: usize) -> Parts {
    let scene = Scene {
        view,
        usual,
        stretch,
        late,
    };
    scene.parts()
}

/// Divides a stretch where its cause changes.
pub(super) fn split(view: &View<'_>, usual: &References<'_>, stretch: &Stretch) -> Vec<Stretch> {
    let whole = parts(view, usual, stretch, LATE);
    let large = whole.causes.iter().filter(|(cause, bits)| {
        let part = match cause.class {
            CauseClass::Other => return false,
            CauseClass::Workload | CauseClass::OtherController => UNASKED,
            _ => PART,
        };
        **bits >= part * stretch.missing
    });
    let causes: Vec<&Cause> = large.map(|(cause, _)| cause).collect();
    if causes.len() < 2 {
        return vec![stretch.clone()];
    }
    let link = &view.links[stretch.link];
    let of = |bins: Range<usize>| {
        let sum = link.sum(bins.clone());
        Stretch {
            link: stretch.link,
            bins,
            missing: (sum.asked - sum.achieved).max(0.0),
        }
    };
    let window = |bin: usize| {
        let near = of(bin.saturating_sub(1).max(stretch.bins.start)..(bin + 2).min(stretch.bins.end));
        let parts = parts(view, usual, &near, 0);
        causes
            .iter()
            .map(|cause| parts.causes.get(*cause).copied().unwrap_or_default())
            .collect::<Vec<f64>>()
    };
    let bits: Vec<Vec<f64>> = stretch.bins.clone().map(window).collect();
    let runs = runs(&bits);
    if runs.len() < 2 {
        return vec![stretch.clone()];
    }
    let at = stretch.bins.start;
    let divided: Vec<Stretch> = runs
        .into_iter()
        .map(|(bins, _)| of(at + bins.start..at + bins.end))
        .filter(|part| part.missing > 0.0)
        .collect();
    let is_clear = |part: &Stretch| {
        let parts = parts(view, usual, part, 0);
        parts.largest().is_some_and(|(_, bits)| bits >= CLEAR * part.missing)
    };
    if divided.iter().all(is_clear) {
        divided
    } else {
        vec![stretch.clone()]
    }
}
