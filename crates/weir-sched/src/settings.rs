//! Settings of operators: limits, shares, targets, and the freedom of the optimiser.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::BitRate;

use crate::{ActivityId, GroupId, Link, SeId, VoId};

/// The default weight or share.
pub(crate) const SHARE: u32 = 100;

/// Something that transfers hold while they run, and that has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// A link.
    Link(Link),
    /// A storage element as destination.
    Inbound(SeId),
    /// A storage element as source.
    Outbound(SeId),
    /// One virtual organisation at a storage element as destination.
    VoInbound(SeId, VoId),
    /// One virtual organisation at a storage element as source.
    VoOutbound(SeId, VoId),
    /// A resource that several storage elements share: a wide-area link, a set of gateways.
    Group(GroupId),
    /// Files that are brought online at a storage element.
    Staging(SeId),
    /// One virtual organisation's files that are brought online at a storage element.
    VoStaging(SeId, VoId),
}

/// A direction of a storage element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// As destination.
    In,
    /// As source.
    Out,
}

/// The way in which the number of a link's transfers is decided, up to its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The optimiser.
    #[default]
    Auto,
    /// No optimiser: the limit alone holds.
    Off,
    /// The operator: so many.
    Fixed(u32),
}

/// One setting. `None` restores the default. Numbers of storage elements mean nothing after a restart, so a store keeps
/// settings by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Transfers at once on every link without a limit of its own.
    EveryLink(u32),
    /// Transfers at once into every storage element without a limit of its own.
    EveryInbound(u32),
    /// Transfers at once out of every storage element without a limit of its own.
    EveryOutbound(u32),
    /// Files brought online at once at every storage element without a limit of its own.
    EveryStaging(u32),
    /// Transfers at once on one resource. Zero holds back everything.
    Slots(Resource, Option<u32>),
    /// Bandwidth of one resource. Zero holds back everything.
    Rate(Resource, Option<BitRate>),
    /// One direction of a storage element passes through a shared resource, or no longer does.
    Member(GroupId, SeId, Direction, bool),
    /// Weight of a link against others at the ends that they share; 100 if not set.
    Weight(Link, Option<u32>),
    /// Rate up to which a link is served before others of the same priority.
    Target(Link, Option<BitRate>),
    /// Share of a VO against others on the same link; 100 if not set, 0 for slots that others leave free.
    VoShare(VoId, Option<u32>),
    /// The same on one link; there it outweighs the share on all.
    LinkVoShare(Link, VoId, Option<u32>),
    /// Share of an activity against others of the same VO on the same link; 100 if not set, 0 for slots that others
    /// leave free.
    ActivityShare(VoId, ActivityId, Option<u32>),
    /// A queue that was not served for so long rises by one priority, until it is; `None`: never.
    Ageing(Option<Duration>),
    /// The optimiser of all links and storage elements. `Fixed` is for links; storage elements then have none.
    Optimiser(Mode),
    /// The optimiser of one link.
    LinkOptimiser(Link, Option<Mode>),
    /// Nothing starts until the hold is lifted: running transfers come to their end, new ones are queued.
    Hold(bool),
}

/// All settings together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Transfers at once per link, unless `slots` says otherwise.
    pub link: u32,
    /// Transfers at once per storage element as destination, unless `slots` says otherwise.
    pub inbound: u32,
    /// Transfers at once per storage element as source, unless `slots` says otherwise.
    pub outbound: u32,
    /// Files brought online at once per storage element, unless `slots` says otherwise.
    pub staging: u32,
    /// Resources with a limit of their own.
    pub slots: BTreeMap<Resource, u32>,
    /// Resources with limited bandwidth.
    pub rates: BTreeMap<Resource, BitRate>,
    /// Shared resources that a direction of a storage element passes.
    pub members: BTreeMap<(SeId, Direction), BTreeSet<GroupId>>,
    /// Links with a weight of their own.
    pub weights: BTreeMap<Link, u32>,
    /// Links with a target rate.
    pub targets: BTreeMap<Link, BitRate>,
    /// VOs with a share of their own.
    pub vo_shares: BTreeMap<VoId, u32>,
    /// VOs with a share of their own on one link.
    pub link_vo_shares: BTreeMap<(Link, VoId), u32>,
    /// Activities with a share of their own.
    pub activity_shares: BTreeMap<(VoId, ActivityId), u32>,
    /// After how long without service a queue rises by one priority.
    pub ageing: Option<Duration>,
    /// The optimiser of links without a mode of their own.
    pub optimiser: Mode,
    /// Links with a mode of their own.
    pub optimisers: BTreeMap<Link, Mode>,
    /// Whether nothing starts.
    pub hold: bool,
}

impl Default for Settings {
    /// At most 20 per link, 100 in and 100 out per storage element (safe on a laptop). The optimiser on below that.
    /// 50,000 files brought online (half of the number that tape endpoints are known to bear). Ageing after 30 minutes.
    fn default() -> Self {
        Self {
            link: 20,
            inbound: 100,
            outbound: 100,
            staging: 50_000,
            slots: BTreeMap::new(),
            rates: BTreeMap::new(),
            members: BTreeMap::new(),
            weights: BTreeMap::new(),
            targets: BTreeMap::new(),
            vo_shares: BTreeMap::new(),
            link_vo_shares: BTreeMap::new(),
            activity_shares: BTreeMap::new(),
            ageing: Some(Duration::from_secs(1800)),
            optimiser: Mode::Auto,
            optimisers: BTreeMap::new(),
            hold: false,
        }
    }
}

fn set<K: Ord, V>(own: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => own.insert(key, value),
        None => own.remove(&key),
    };
}

impl Settings {
    /// Makes one change.
    pub fn apply(&mut self, setting: Setting) {
        match setting {
            Setting::EveryLink(slots) => self.link = slots,
            Setting::EveryInbound(slots) => self.inbound = slots,
            Setting::EveryOutbound(slots) => self.outbound = slots,
            Setting::EveryStaging(slots) => self.staging = slots,
            Setting::Slots(resource, slots) => set(&mut self.slots, resource, slots),
            Setting::Rate(resource, rate) => set(&mut self.rates, resource, rate),
            Setting::Member(group, se, direction, true) => {
                self.members.entry((se, direction)).or_default().insert(group);
            }
            Setting::Member(group, se, direction, false) => {
                if let Some(groups) = self.members.get_mut(&(se, direction)) {
                    groups.remove(&group);
                }
            }
            Setting::Weight(link, weight) => set(&mut self.weights, link, weight),
            Setting::Target(link, rate) => set(&mut self.targets, link, rate),
            Setting::VoShare(vo, share) => set(&mut self.vo_shares, vo, share),
            Setting::LinkVoShare(link, vo, share) => set(&mut self.link_vo_shares, (link, vo), share),
            Setting::ActivityShare(vo, activity, share) => set(&mut self.activity_shares, (vo, activity), share),
            Setting::Ageing(after) => self.ageing = after,
            Setting::Optimiser(mode) => self.optimiser = mode,
            Setting::LinkOptimiser(link, mode) => set(&mut self.optimisers, link, mode),
            Setting::Hold(hold) => self.hold = hold,
        }
    }

    /// Transfers at once on a resource; `u32::MAX` if there is no limit.
    pub fn slots(&self, resource: Resource) -> u32 {
        self.slots.get(&resource).copied().unwrap_or(match resource {
            Resource::Link(_) => self.link,
            Resource::Inbound(_) => self.inbound,
            Resource::Outbound(_) => self.outbound,
            Resource::Staging(_) => self.staging,
            Resource::VoInbound(..) | Resource::VoOutbound(..) | Resource::VoStaging(..) | Resource::Group(_) => {
                u32::MAX
            }
        })
    }

    /// Bandwidth of a resource, if it is limited.
    pub fn rate(&self, resource: Resource) -> Option<BitRate> {
        self.rates.get(&resource).copied()
    }

    /// Tells whether a resource without natural limits has one.
    pub(crate) fn limits(&self, resource: Resource) -> bool {
        self.slots.contains_key(&resource) || self.rates.contains_key(&resource)
    }

    /// Shared resources that a direction of a storage element passes, in the order of their numbers.
    pub(crate) fn groups(&self, se: SeId, direction: Direction) -> impl Iterator<Item = GroupId> {
        self.members.get(&(se, direction)).into_iter().flatten().copied()
    }

    pub(crate) fn weight(&self, link: Link) -> u32 {
        self.weights.get(&link).copied().unwrap_or(SHARE)
    }

    pub(crate) fn vo_share(&self, link: Link, vo: VoId) -> u32 {
        let own = self.link_vo_shares.get(&(link, vo));
        own.or_else(|| self.vo_shares.get(&vo)).copied().unwrap_or(SHARE)
    }

    pub(crate) fn activity_share(&self, vo: VoId, activity: ActivityId) -> u32 {
        self.activity_shares.get(&(vo, activity)).copied().unwrap_or(SHARE)
    }

    /// The mode of a resource.
    pub(crate) fn mode(&self, resource: Resource) -> Mode {
        match (resource, self.optimiser) {
            (Resource::Link(link), mode) => self.optimisers.get(&link).copied().unwrap_or(mode),
            (Resource::Inbound(_) | Resource::Outbound(_) | Resource::Group(_), Mode::Auto) => Mode::Auto,
            _ => Mode::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_limit_falls_back_to_the_general_one() {
        let (mut settings, link) = (Settings::default(), Link::default());
        let resource = Resource::Link(link);
        for setting in [Setting::EveryLink(7), Setting::Slots(resource, Some(3))] {
            settings.apply(setting);
        }
        assert_eq!(settings.slots(resource), 3);
        settings.apply(Setting::Slots(resource, None));
        assert_eq!(settings.slots(resource), 7);
        assert_eq!(settings.slots(Resource::Group(GroupId(1))), u32::MAX);
    }

    #[test]
    fn the_off_switch_of_one_link_outweighs_the_one_for_all() {
        let (mut settings, link) = (Settings::default(), Link::default());
        settings.apply(Setting::LinkOptimiser(link, Some(Mode::Fixed(5))));
        settings.apply(Setting::Optimiser(Mode::Off));
        assert_eq!(settings.mode(Resource::Link(link)), Mode::Fixed(5));
        assert_eq!(settings.mode(Resource::Inbound(SeId(1))), Mode::Off);
        settings.apply(Setting::LinkOptimiser(link, None));
        assert_eq!(settings.mode(Resource::Link(link)), Mode::Off);
    }
}
