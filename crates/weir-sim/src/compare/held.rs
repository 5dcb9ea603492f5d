//! What held a site back.

use serde::Serialize;
use weir_units::BitRate;

use super::CLOSE;
use super::text::rate;
use crate::scene::Scene;
use crate::world::{Outcome, Usage};

/// A share above which something counts as full.
const FULL: f64 = 0.95;
/// The same of a storage, which loses a little whenever transfers come and go.
const NEARLY: f64 = 0.85;

/// What held a site back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It got what it can get, whoever decides.
    Possible,
    /// Its wide-area link was full.
    WideAreaLink,
    /// What it shares with others was full.
    Shared,
    /// Its storage took in what it can.
    Storage,
    /// All slots into it were taken.
    SlotsTaken,
    /// Its sources, or the links from them, had no more to give.
    Sources,
    /// There were free slots into it.
    SlotsFree,
}

impl Cause {
    /// Every cause, from what nobody can change to what the scheduler decides.
    pub const ALL: [Cause; 7] = [
        Cause::Possible,
        Cause::WideAreaLink,
        Cause::Shared,
        Cause::Storage,
        Cause::SlotsTaken,
        Cause::Sources,
        Cause::SlotsFree,
    ];

    /// What it means, in words that follow "so many sites".
    pub fn sentence(self) -> &'static str {
        match self {
            Cause::Possible => "got all that is possible",
            Cause::WideAreaLink => "had a full wide-area link",
            Cause::Shared => "had full what they share with others",
            Cause::Storage => "had storage that takes in no more",
            Cause::SlotsTaken => "had all slots taken, by transfers too slow",
            Cause::Sources => "had links or sources at their limits",
            Cause::SlotsFree => "had slots free: too few transfers ran, or failed",
        }
    }
}

/// What held a site back: what leads into it and was full, or else that too few transfers ran. `None` if it got at least a
/// close share of what is asked.
pub(super) fn held_back(
    scene: &Scene,
    outcome: &Outcome,
    site: usize,
    ratio: Option<f64>,
    of_optimum: Option<f64>,
) -> Option<(Cause, String)> {
    if ratio? >= CLOSE {
        return None;
    }
    if of_optimum.is_some_and(|share| share >= CLOSE) {
        return Some((Cause::Possible, "all that is possible".to_owned()));
    }
    let storages = scene.storages.iter().zip(&outcome.usage);
    let of_site: Vec<_> = storages.filter(|(storage, _)| storage.site == site).collect();
    let fullest = |pick: fn(&Usage) -> f64| of_site.iter().map(|(_, usage)| pick(usage)).fold(0.0, f64::max);
    if fullest(|usage| usage.wide) > FULL {
        return Some((Cause::WideAreaLink, "its wide-area link was full".to_owned()));
    }
    if fullest(|usage| usage.shared) > FULL {
        return Some((Cause::Shared, "what it shares with others was full".to_owned()));
    }
    if let Some(text) = at_the_storage(scene, outcome, site) {
        return Some((Cause::Storage, text));
    }
    let fullest = of_site
        .iter()
        .max_by(|(_, one), (_, other)| one.slots.total_cmp(&other.slots));
    let (storage, usage) = fullest?;
    let most = storage.max_active[0];
    if usage.slots > FULL {
        return Some((Cause::SlotsTaken, format!("its {most} slots were taken")));
    }
    if let Some(text) = at_the_sources(scene, outcome, site) {
        return Some((Cause::Sources, text));
    }
    let used = [
        (usage.slots, format!("its {most} slots were")),
        (usage.shared, "what it shares with others was".to_owned()),
        (usage.wide, "its wide-area link was".to_owned()),
    ];
    let (share, what) = used.into_iter().rev().max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((Cause::SlotsFree, format!("{:.0} % of {what} used", share * 100.0)))
}

/// Says what the storage elements of a site took in, if that is about what they can.
fn at_the_storage(scene: &Scene, outcome: &Outcome, site: usize) -> Option<String> {
    let mut most = 0;
    for storage in scene.storages.iter().filter(|storage| storage.site == site) {
        let model = &storage.model;
        let plateau = model.write_curve.iter().flatten().map(|point| point.rate).max();
        let servers: BitRate = storage.servers.iter().map(|server| server.0).sum();
        let servers = Some(servers).filter(|_| !storage.servers.is_empty());
        let bounds = [model.write, model.disk, plateau, servers];
        most += bounds.into_iter().flatten().min()?.0;
    }
    let achieved = outcome.measured.figures.sites[site].achieved_bps?;
    let text = format!("its storage took in {} of {}", rate(achieved), rate(most));
    (achieved as f64 > NEARLY * most as f64).then_some(text)
}

/// Says how many links into a site had no free slot, or a source that had nothing left to give, if half of what is missing is
/// missing there.
fn at_the_sources(scene: &Scene, outcome: &Outcome, site: usize) -> Option<String> {
    let (mut missing, mut missing_there, mut n_links, mut n_there) = (0, 0, 0, 0);
    for (at, (link, report)) in scene.links.iter().zip(&outcome.measured.figures.links).enumerate() {
        if scene.storages[link.destination].site != site {
            continue;
        }
        let (Some(asked), Some(achieved)) = (report.asked_bps, report.achieved_bps) else {
            continue;
        };
        let missed = asked.saturating_sub(achieved);
        let is_full = outcome.link_usage[at] > FULL || outcome.usage[link.source].outward > FULL;
        (missing, n_links) = (missing + missed, n_links + 1);
        if is_full {
            (missing_there, n_there) = (missing_there + missed, n_there + 1);
        }
    }
    let text = format!("{n_there} of {n_links} links into it, or their sources, had all slots taken or were full");
    (missing_there * 2 > missing).then_some(text)
}
