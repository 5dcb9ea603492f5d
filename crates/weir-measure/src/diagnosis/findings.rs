//! Findings where no rate is low: counters that differ, files that are gone or changed, attempts that fail.

use std::collections::BTreeMap;

use weir_world::{CauseClass, Place, PlaceKind};

use super::cause::Cause;
use super::statement::Statement;
use super::view::{Link, View};
use crate::crosscheck::TOLERANCE;
use crate::report::CrossCheck;

/// The share of all attempts that must fail.
const FAILED: f64 = 0.005;
/// The share of failed attempts from which their bytes make counters differ.
const BROKEN: f64 = 0.01;
/// The same where few attempts were made at all.
const FEW: f64 = 0.1;
/// The fewest failures that say something.
const LEAST: f64 = 5.0;

/// Statements about findings that no other statement explains.
pub(super) fn findings(view: &View<'_>, said: &[Statement]) -> Vec<Statement> {
    let mut found = Vec::new();
    if view.is_over {
        found.extend(counters(view));
        found.extend(audit(view));
    }
    // Attempts of links that are held back anyway may fail for that.
    let held: Vec<&str> = said
        .iter()
        .flat_map(|statement| statement.links.iter().map(String::as_str))
        .collect();
    if found.is_empty() {
        let is_said = |one: &Statement| {
            said.iter()
                .any(|other| (other.class, &other.place) == (one.class, &one.place))
        };
        found.extend(failures(view, &held).filter(|one| !is_said(one)));
    }
    found
}

fn counters(view: &View<'_>) -> Vec<Statement> {
    let failed: f64 = view
        .links
        .iter()
        .flat_map(|link| &link.failures)
        .map(|failed| failed.sum(0..usize::MAX))
        .sum();
    let transfers: f64 = view.links.iter().map(|link| link.transfers).sum();
    let do_fail = failed >= BROKEN * transfers;
    let differ = view
        .report
        .crosschecks
        .iter()
        .filter(|check| check.subject != "all" && is_wrong(check))
        .filter(|check| !do_fail || differs_of_itself(check));
    let mut places: BTreeMap<&str, &str> = BTreeMap::new();
    for check in differ {
        places.entry(&check.subject).or_insert(&check.quantity);
    }
    let of = |(rse, quantity): (&str, &str)| {
        let kind = if quantity.contains("sent") {
            PlaceKind::RseOut
        } else {
            PlaceKind::RseIn
        };
        statement(view, Cause::at(CauseClass::Measurement, kind, rse), 0.95)
    };
    places.into_iter().take(1).map(of).collect()
}

/// Whether counters contradict each other, or one lapsed. A storage that has none is not wrong, and bytes of broken attempts may explain
/// a difference that is left open.
fn is_wrong(check: &CrossCheck) -> bool {
    check.pass == Some(false) || check.lapsed
}

/// Whether a receiving storage and the transfer service count other bytes: those of attempts that failed are in neither.
fn differs_of_itself(check: &CrossCheck) -> bool {
    let both = check.receiving_storage.zip(check.transfer_service);
    let Some((storage, service)) = both else {
        return check.sending_storage.is_none();
    };
    storage.abs_diff(service) as f64 > TOLERANCE * service as f64
}

fn audit(view: &View<'_>) -> Option<Statement> {
    let audit = view.report.audit.as_ref().filter(|audit| audit.failed > 0)?;
    let (most, _) = audit.failed_at.iter().max_by_key(|(_, files)| **files)?;
    Some(statement(
        view,
        Cause::at(CauseClass::Software, PlaceKind::RseIn, most),
        0.9,
    ))
}

/// The failure of most attempts, and the place that they have in common.
fn failures(view: &View<'_>, held: &[&str]) -> Option<Statement> {
    let mut causes: BTreeMap<Cause, f64> = BTreeMap::new();
    let all = 0..usize::MAX;
    let mut attempts = 0.0;
    let mut failing: Vec<&str> = Vec::new();
    for link in view.links.iter().filter(|link| !held.contains(&link.name)) {
        attempts += link.transfers;
        for failed in &link.failures {
            if let Some(cause) = Cause::of_failure(failed.class, failed.party, link, false) {
                *causes.entry(cause).or_default() += failed.sum(all.clone());
                failing.push(link.name);
            }
        }
    }
    let failed: f64 = causes.values().sum();
    let (mut cause, most) = causes.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let are_few = failed < LEAST && failed < FEW * attempts;
    if are_few || failed < FAILED * attempts || most < 0.5 * failed {
        return None;
    }
    if let Some(path) = only_path(view, &cause, &failing) {
        cause.place = Some(Place::new(PlaceKind::Path, path));
    }
    // A storage that refuses a few while it serves all others is not overloaded.
    if cause.class == CauseClass::Admission {
        cause.class = CauseClass::Software;
    }
    if cause.class == CauseClass::Workload {
        let first = view.report.workloads.first()?;
        cause.place = Some(Place::new(PlaceKind::Workload, first.name.as_str()));
    }
    Some(statement(view, cause, 0.8))
}

/// The one path of a storage on which attempts fail, where it serves others without a failure.
fn only_path<'r>(view: &View<'r>, cause: &Cause, failing: &[&'r str]) -> Option<&'r str> {
    let place = cause.place.as_ref()?;
    let is_there = |link: &&Link<'r>| match place.kind {
        PlaceKind::RseIn => link.destination == place.name,
        PlaceKind::RseOut => link.source == place.name,
        _ => false,
    };
    let there = view.links.iter().filter(is_there).filter(|link| link.transfers > 0.0);
    let (bad, good): (Vec<&str>, Vec<&str>) = there.map(|link| link.name).partition(|name| failing.contains(name));
    match (bad.as_slice(), good.is_empty()) {
        ([path], false) => Some(path),
        _ => None,
    }
}

/// A statement about the whole hold.
fn statement(view: &View<'_>, cause: Cause, probability: f64) -> Statement {
    let hold = (view.hold.start as f64 * view.bin_s, view.hold.end as f64 * view.bin_s);
    Statement {
        probability,
        ..Statement::bare(cause.class, cause.place, hold)
    }
}
