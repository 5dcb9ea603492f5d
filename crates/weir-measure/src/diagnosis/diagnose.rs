//! The diagnosis: statements about the causes that held links back.

use std::collections::BTreeMap;

use weir_world::{CauseClass, Place, PlaceKind};

use super::cause::Cause;
use super::confidence::probability;
use super::elsewhere::relocate;
use super::evidence::evidence;
use super::findings::findings;
use super::groups::{Explained, adopt, groups, prefer};
use super::ledger::ledgers;
use super::moment::Moment;
use super::reference::References;
use super::scope::widen;
use super::split::{LATE, parts, split};
use super::statement::{Alternative, LinkLedger, Statement};
use super::stretch::{Stretch, stretches};
use super::view::{Link, View};
use super::words::spell;
use crate::report::Report;

/// The share of the asked bits from its begin to the end of the hold that a cause must cost a link.
const COSTS: f64 = 0.05;
/// The part of the mean deficit that a bin at an edge needs.
const EDGE: f64 = 0.12;

/// The causes that held the links of a run back.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The causes, the surest first; none for a run that was well.
    pub statements: Vec<Statement>,
    /// The missing bits of the links that were held back.
    pub ledger: Vec<LinkLedger>,
}

/// Names what held links back.
pub fn diagnose(report: &Report) -> Diagnosis {
    of(&View::of(report))
}

/// Names what held links back up to a moment of the run.
pub fn diagnose_at(report: &Report, moment: Moment) -> Diagnosis {
    of(&View::of(report).at(moment))
}

fn of(view: &View<'_>) -> Diagnosis {
    let stretches = stretches(view);
    let usual = References::of(view, &stretches);
    let divide = |stretch: &Stretch| split(view, &usual, stretch);
    let divided: Vec<Stretch> = stretches.iter().flat_map(divide).collect();
    let explain = |stretch| {
        let parts = parts(view, &usual, stretch, LATE);
        let cause = parts.largest()?.0.clone();
        Some(Explained {
            stretch,
            parts,
            cause,
            is_guess: false,
        })
    };
    let mut explained: Vec<Explained<'_>> = divided.iter().filter_map(explain).collect();
    prefer(&mut explained);
    relocate(view, &mut explained);
    widen(view, &mut explained);
    adopt(view, &mut explained);
    let all: f64 = divided.iter().map(|stretch| stretch.missing).sum();
    let groups = groups(view, explained);
    let ledger = ledgers(view, groups.values().flatten());
    let of = |(cause, group): (Cause, Vec<Explained<'_>>)| statement((view, &usual), cause, &group, all);
    let mut statements: Vec<Statement> = groups.into_iter().filter_map(of).collect();
    statements.extend(findings(view, &statements));
    statements.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    Diagnosis {
        statements: statements.into_iter().map(spell).collect(),
        ledger,
    }
}

/// The links of a group that missed enough from their first stretch to the end of the hold, after all that they caught up.
fn costly_links(view: &View<'_>, group: &[Explained<'_>]) -> Vec<usize> {
    let mut first: BTreeMap<usize, usize> = BTreeMap::new();
    for one in group {
        let begin = first.entry(one.stretch.link).or_insert(usize::MAX);
        *begin = one.stretch.bins.start.min(*begin);
    }
    let is_costly = |(link, begin): &(usize, usize)| {
        let sum = view.links[*link].sum(*begin..view.hold.end);
        sum.asked - sum.achieved >= COSTS * sum.asked
    };
    first.into_iter().filter(is_costly).map(|(link, _)| link).collect()
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

fn statement(
    (view, usual): (&View<'_>, &References<'_>),
    cause: Cause,
    group: &[Explained<'_>],
    all: f64,
) -> Option<Statement> {
    let links = costly_links(view, group);
    if links.is_empty() {
        return None;
    }
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
    let is_open = group.iter().all(|one| one.is_guess);
    let share = others.remove(&cause).unwrap_or_default() / whole.max(1.0);
    let of = |(cause, bits): (&Cause, f64)| Alternative {
        class: cause.class,
        place: cause.place.clone(),
        probability: bits / whole,
    };
    let mut others: Vec<Alternative> = others.into_iter().map(of).collect();
    others.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    others.truncate(3);
    let probability = probability(cause.class, share, whole / all.max(1.0));
    let (probability, others) = if is_open {
        guess(&view.links[links[0]])
    } else {
        (probability, others)
    };
    let (evidence, via) = evidence(view, usual, &links, &(from..until));
    // A limit of the service is its own cause.
    let is_behind = cause.class != CauseClass::SchedulerPolicy;
    let span = (from as f64 * view.bin_s, until as f64 * view.bin_s);
    Some(Statement {
        links: links.iter().map(|link| view.links[*link].name.to_owned()).collect(),
        asked_bps: asked / seconds,
        held_bps: achieved / seconds,
        probability,
        others,
        is_open,
        evidence,
        via: if is_behind { via } else { Vec::new() },
        ..Statement::bare(cause.class, cause.place, span)
    })
}

/// Causes that may hold a link of which nothing is told, beside its path.
fn guess(link: &Link<'_>) -> (f64, Vec<Alternative>) {
    let other = |class: CauseClass, kind: PlaceKind, name: &str, probability: f64| Alternative {
        class,
        place: Some(Place::new(kind, name)),
        probability,
    };
    let others = vec![
        other(CauseClass::StorageDataPath, PlaceKind::RseIn, link.destination, 0.2),
        other(CauseClass::Admission, PlaceKind::RseIn, link.destination, 0.2),
        other(
            CauseClass::SharedCapacity,
            PlaceKind::SiteIn,
            link.destination_site,
            0.15,
        ),
        other(CauseClass::UnevenServers, PlaceKind::RseIn, link.destination, 0.15),
    ];
    (0.3, others)
}
