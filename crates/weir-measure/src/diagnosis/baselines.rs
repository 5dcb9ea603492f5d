//! Simple rules that name a cause. A diagnosis that does not beat them is not worth its code.
//!
//! Each looks at one thing alone, as people and tools of the field do. All of them take the time and the links from the same
//! [`episodes`], so that only the cause differs.

use std::collections::BTreeMap;

use weir_world::{CauseClass, Place, PlaceKind, Wait};

use super::episode::{Episode, episodes};
use super::statement::Statement;
use crate::report::{LinkReport, Report};

/// A rule with its name: from the report of a run to statements.
pub type Rule = (&'static str, fn(&Report) -> Vec<Statement>);

/// Every rule.
pub const BASELINES: [Rule; 6] = [
    ("majority", majority),
    ("error-class", error_class),
    ("largest-wait", largest_wait),
    ("fullest", fullest),
    ("tcp-triage", tcp_triage),
    ("votes", votes),
];

/// How sure a rule is that knows nothing about itself.
const UNSURE: f64 = 0.5;

/// States that follow from others.
const CONSEQUENCES: [Wait; 6] = [
    Wait::Slots,
    Wait::Optimiser,
    Wait::BandwidthLimit,
    Wait::Pause,
    Wait::Retry,
    Wait::Other,
];

/// Always the commonest cause: the storage that the worst link writes to.
fn majority(report: &Report) -> Vec<Statement> {
    of_each(report, |_, episode| {
        let (_, destination) = ends(episode.links.first()?)?;
        Some((
            CauseClass::StorageDataPath,
            Some(Place::new(PlaceKind::RseIn, destination)),
        ))
    })
}

/// The most frequent error: the knowledge of a monitor of failures.
fn error_class(report: &Report) -> Vec<Statement> {
    of_each(report, |report, episode| {
        let error = report.errors.first()?;
        let class = match error.class.as_str() {
            "token" | "permission" => CauseClass::Authorisation,
            "no-space" => CauseClass::Space,
            "overload" => CauseClass::Admission,
            "not-found" => CauseClass::Workload,
            "tls" | "protocol" | "checksum" => CauseClass::Software,
            "network" => CauseClass::Outage,
            "timeout" | "stall" => CauseClass::PathQuality,
            _ => CauseClass::Other,
        };
        let link = episode.links.first()?;
        let (source, destination) = ends(link)?;
        let place = match error.party.as_deref() {
            Some("source") => Place::new(PlaceKind::RseOut, source),
            Some("destination") => Place::new(PlaceKind::RseIn, destination),
            _ => Place::new(PlaceKind::Path, link.as_str()),
        };
        Some((class, Some(place)))
    })
}

/// The state in which the transfers spent most time.
fn largest_wait(report: &Report) -> Vec<Statement> {
    of_each(report, |report, episode| {
        let waits = waits(report, episode, |wait| !CONSEQUENCES.contains(&wait));
        let ((wait, place), _) = waits.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((wait.class(), place))
    })
}

/// The fullest resource: the place that most time was waited for, whatever for (utilisation, saturation, errors).
fn fullest(report: &Report) -> Vec<Statement> {
    of_each(report, |report, episode| {
        let mut places: BTreeMap<Place, f64> = BTreeMap::new();
        for ((_, place), time) in waits(report, episode, |_| true) {
            if let Some(place) = place {
                *places.entry(place).or_default() += time;
            }
        }
        let (place, _) = places.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((class_at(place.kind), Some(place)))
    })
}

/// The first question of TCP's triage: network, window, or one of the ends. It sees the data phase alone.
fn tcp_triage(report: &Report) -> Vec<Statement> {
    const DATA: [Wait; 5] = [Wait::Network, Wait::Window, Wait::Disk, Wait::Processor, Wait::Limiter];
    of_each(report, |report, episode| {
        let waits = waits(report, episode, |wait| DATA.contains(&wait));
        let ((wait, place), _) = waits.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((wait.class(), place))
    })
}

/// Votes of the bad links for all that is on their way, less those of the good ones (007).
fn votes(report: &Report) -> Vec<Statement> {
    of_each(report, |report, episode| {
        let mut votes: BTreeMap<Place, f64> = BTreeMap::new();
        for link in report.links.iter().filter(|link| link.asked_bps.is_some()) {
            let name = format!("{}→{}", link.source, link.destination);
            let vote = if episode.links.contains(&name) { 1.0 } else { -1.0 };
            for place in on_the_way(link) {
                *votes.entry(place).or_default() += vote;
            }
        }
        let (place, _) = votes.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((class_at(place.kind), Some(place)))
    })
}

/// A statement for each episode of which the rule names a cause.
fn of_each(report: &Report, rule: impl Fn(&Report, &Episode) -> Option<(CauseClass, Option<Place>)>) -> Vec<Statement> {
    let statement = |episode: Episode| {
        let (class, place) = rule(report, &episode)?;
        Some(Statement {
            links: episode.links,
            asked_bps: episode.asked_bps,
            held_bps: episode.held_bps,
            probability: UNSURE,
            ..Statement::bare(class, place, (episode.from_s, episode.until_s))
        })
    };
    episodes(report).into_iter().filter_map(statement).collect()
}

/// The time that the transfers of an episode's links waited in it, by state and place, seconds.
fn waits(report: &Report, episode: &Episode, is_meant: impl Fn(Wait) -> bool) -> BTreeMap<(Wait, Option<Place>), f64> {
    let mut sums = BTreeMap::new();
    let of_links = report
        .signals
        .iter()
        .filter(|link| episode.links.contains(&format!("{}→{}", link.source, link.destination)));
    for link in of_links {
        for series in link.waits.iter().filter(|series| is_meant(series.wait)) {
            let at = |bin: usize| (series.first_bin as usize + bin) as f64 * link.bin_s;
            let inside = series
                .seconds
                .iter()
                .enumerate()
                .filter(|(bin, _)| (episode.from_s..episode.until_s).contains(&at(*bin)));
            let time: f64 = inside.map(|(_, seconds)| seconds).sum();
            *sums.entry((series.wait, series.place.clone())).or_default() += time;
        }
    }
    sums
}

fn on_the_way(link: &LinkReport) -> Vec<Place> {
    let mut places = vec![
        Place::new(PlaceKind::RseOut, link.source.as_str()),
        Place::new(PlaceKind::RseIn, link.destination.as_str()),
        Place::new(PlaceKind::Path, format!("{}→{}", link.source, link.destination)),
    ];
    if link.source_site != link.destination_site {
        places.push(Place::new(PlaceKind::SiteOut, link.source_site.as_str()));
        places.push(Place::new(PlaceKind::SiteIn, link.destination_site.as_str()));
    }
    places
}

/// The commonest class at a place of this kind.
fn class_at(kind: PlaceKind) -> CauseClass {
    match kind {
        PlaceKind::RseIn | PlaceKind::RseOut => CauseClass::StorageDataPath,
        PlaceKind::Server => CauseClass::UnevenServers,
        PlaceKind::SiteIn | PlaceKind::SiteOut | PlaceKind::Segment => CauseClass::SharedCapacity,
        PlaceKind::Path => CauseClass::PathQuality,
        PlaceKind::Issuer => CauseClass::Authorisation,
        PlaceKind::Service => CauseClass::ControlPlane,
        PlaceKind::Workload => CauseClass::Workload,
        PlaceKind::Vo | PlaceKind::Activity => CauseClass::SchedulerPolicy,
    }
}

fn ends(link: &str) -> Option<(&str, &str)> {
    link.split_once('→')
}
