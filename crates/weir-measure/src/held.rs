//! The limit that kept a site below its asked rate.

use serde::Serialize;
use weir_units::BitRate;

/// A share above which something counts as full.
const FULL: f64 = 0.95;
/// The same of a storage, which loses a little whenever transfers come and go.
const NEARLY: f64 = 0.85;

/// A limit that kept a site below its asked rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The site got the largest rate that any schedule can give it.
    Possible,
    /// Its wide-area link was full.
    WideAreaLink,
    /// A resource that it shares with others was full.
    Shared,
    /// Its storage received as much as it can.
    Storage,
    /// All slots into it were taken.
    SlotsTaken,
    /// Its sources, or the links from them, had no more to give.
    Sources,
    /// There were free slots into it.
    SlotsFree,
}

impl Cause {
    /// Every cause, from fixed limits to decisions of the scheduler.
    pub const ALL: [Cause; 7] = [
        Cause::Possible,
        Cause::WideAreaLink,
        Cause::Shared,
        Cause::Storage,
        Cause::SlotsTaken,
        Cause::Sources,
        Cause::SlotsFree,
    ];

    /// Its meaning, in words that follow "so many sites".
    pub fn sentence(self) -> &'static str {
        match self {
            Cause::Possible => "got all of the estimated optimum",
            Cause::WideAreaLink => "had a full wide-area link",
            Cause::Shared => "had a full shared resource",
            Cause::Storage => "had storage that takes in no more",
            Cause::SlotsTaken => "had all slots taken, by transfers too slow",
            Cause::Sources => "had links or sources at their limits",
            Cause::SlotsFree => "had slots free: too few transfers ran, or failed",
        }
    }
}

/// Share of the asked or possible rate from which on a site counts as not held back.
const CLOSE: f64 = 0.95;

/// Figures of a site with an asked rate: means over the time in which a rate was asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteUse {
    /// Achieved ÷ asked.
    pub ratio: Option<f64>,
    /// Achieved ÷ estimated optimum.
    pub of_optimum: Option<f64>,
    /// Achieved rate into the site, in bit/s.
    pub achieved_bps: Option<BitRate>,
    /// Rate that its storage elements can receive together, in bit/s; `None` if unbounded.
    pub storage_bps: Option<BitRate>,
    /// Its storage elements.
    pub storages: Vec<StorageUse>,
    /// The links into it.
    pub links: Vec<LinkUse>,
}

/// Used shares of the resources that lead into a storage element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StorageUse {
    /// Of its site's wide-area link.
    pub wide: f64,
    /// Of resources shared with others: the fullest.
    pub shared: f64,
    /// Of its slots.
    pub slots: f64,
    /// Transfers into it that may run at once.
    pub slots_most: u32,
}

/// A link into a site.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkUse {
    /// Asked, in bit/s.
    pub asked_bps: Option<BitRate>,
    /// Achieved, in bit/s.
    pub achieved_bps: Option<BitRate>,
    /// Share of its slots that were taken.
    pub slots: f64,
    /// Used share of the resource that leads out of its source.
    pub source: f64,
}

/// Returns the limit that held a site back, as a kind and in words: a full resource on its way, or else too few running
/// transfers. `None` if it got almost the asked rate.
pub fn held_back(site: &SiteUse) -> Option<(Cause, String)> {
    if site.ratio? >= CLOSE {
        return None;
    }
    if site.of_optimum.is_some_and(|share| share >= CLOSE) {
        return Some((Cause::Possible, "all of the estimated optimum".to_owned()));
    }
    let fullest = |pick: fn(&StorageUse) -> f64| site.storages.iter().map(pick).fold(0.0, f64::max);
    if fullest(|storage| storage.wide) > FULL {
        return Some((Cause::WideAreaLink, "its wide-area link was full".to_owned()));
    }
    if fullest(|storage| storage.shared) > FULL {
        return Some((
            Cause::Shared,
            "a resource that it shares with others was full".to_owned(),
        ));
    }
    if let Some(text) = at_the_storage(site) {
        return Some((Cause::Storage, text));
    }
    let fullest = site
        .storages
        .iter()
        .max_by(|one, other| one.slots.total_cmp(&other.slots))?;
    let most = fullest.slots_most;
    if fullest.slots > FULL {
        return Some((Cause::SlotsTaken, format!("its {most} slots were taken")));
    }
    if let Some(text) = at_the_sources(site) {
        return Some((Cause::Sources, text));
    }
    let used = [
        (fullest.slots, format!("its {most} slots were")),
        (fullest.shared, "a resource that it shares with others was".to_owned()),
        (fullest.wide, "its wide-area link was".to_owned()),
    ];
    let (share, what) = used.into_iter().rev().max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((Cause::SlotsFree, format!("{:.0} % of {what} used", share * 100.0)))
}

/// Describes the rate that a site's storage elements received, if that is close to their limit.
fn at_the_storage(site: &SiteUse) -> Option<String> {
    let (achieved, most) = site.achieved_bps.zip(site.storage_bps)?;
    let rate = BitRate::three_digits;
    let text = format!("its storage took in {} of {}", rate(achieved), rate(most));
    (achieved.as_f64() > NEARLY * most.as_f64()).then_some(text)
}

/// Counts the links into a site without a free slot, or with an exhausted source, if half of the shortfall is there.
fn at_the_sources(site: &SiteUse) -> Option<String> {
    let (mut missing, mut missing_there) = (BitRate::ZERO, BitRate::ZERO);
    let (mut n_links, mut n_there) = (0, 0);
    for link in &site.links {
        let Some((asked, achieved)) = link.asked_bps.zip(link.achieved_bps) else {
            continue;
        };
        let missed = asked - achieved;
        (missing, n_links) = (missing + missed, n_links + 1);
        if link.slots > FULL || link.source > FULL {
            (missing_there, n_there) = (missing_there + missed, n_there + 1);
        }
    }
    let text = format!("{n_there} of {n_links} links into it, or their sources, had all slots taken or were full");
    (missing_there + missing_there > missing).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of 10 Gb/s came in over a link with free slots, and all of it would be possible.
    fn site() -> SiteUse {
        SiteUse {
            ratio: Some(0.5),
            of_optimum: Some(0.5),
            achieved_bps: Some(BitRate(5_000_000_000)),
            storage_bps: Some(BitRate(20_000_000_000)),
            storages: vec![StorageUse {
                wide: 0.6,
                shared: 0.2,
                slots: 0.3,
                slots_most: 40,
            }],
            links: vec![LinkUse {
                asked_bps: Some(BitRate(10_000_000_000)),
                achieved_bps: Some(BitRate(5_000_000_000)),
                slots: 0.4,
                source: 0.5,
            }],
        }
    }

    fn told(change: impl FnOnce(&mut SiteUse)) -> Option<(Cause, String)> {
        let mut site = site();
        change(&mut site);
        held_back(&site)
    }

    /// An administrator would be sent to the wrong place.
    #[test]
    fn each_cause_is_told_from_the_others() {
        let cause = |change: fn(&mut SiteUse)| told(change).map(|(cause, _)| cause);
        assert_eq!(cause(|site| site.ratio = Some(0.96)), None);
        assert_eq!(cause(|site| site.ratio = None), None);
        assert_eq!(cause(|site| site.of_optimum = Some(0.99)), Some(Cause::Possible));
        assert_eq!(cause(|site| site.storages[0].wide = 0.97), Some(Cause::WideAreaLink));
        assert_eq!(cause(|site| site.storages[0].shared = 0.97), Some(Cause::Shared));
        assert_eq!(
            cause(|site| site.storage_bps = Some(BitRate(5_500_000_000))),
            Some(Cause::Storage)
        );
        assert_eq!(cause(|site| site.storages[0].slots = 0.97), Some(Cause::SlotsTaken));
        assert_eq!(cause(|site| site.links[0].source = 0.97), Some(Cause::Sources));
        assert_eq!(cause(|_| ()), Some(Cause::SlotsFree));
    }

    /// The words would be about another thing than the cause, or without their figures.
    #[test]
    fn the_words_have_the_figures() {
        let words = |change: fn(&mut SiteUse)| told(change).map(|(_, words)| words).unwrap_or_default();
        assert_eq!(words(|_| ()), "60 % of its wide-area link was used");
        assert_eq!(words(|site| site.storages[0].slots = 0.97), "its 40 slots were taken");
        assert_eq!(
            words(|site| site.storage_bps = Some(BitRate(5_500_000_000))),
            "its storage took in 5.00 Gb/s of 5.50 Gb/s"
        );
        assert!(words(|site| site.links[0].slots = 1.0).starts_with("1 of 1 links into it"));
    }
}
