//! The core's settings under names, as they are kept: numbers of storage elements mean nothing after a restart.

use std::{collections::BTreeMap, time::Duration};

use weir_sched::{Direction, Link, Mode, Names, Resource, Setting};
use weir_units::BitRate;

/// Source and destination, `scheme://host` each.
pub(super) type Pair = (String, String);

/// Something with limits, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A link.
    Link(Pair),
    /// A storage element as destination.
    Inbound(String),
    /// A storage element as source.
    Outbound(String),
    /// Storage element, VO.
    VoInbound(String, String),
    /// Storage element, VO.
    VoOutbound(String, String),
    /// A storage element whose files are brought online.
    Staging(String),
    /// Storage element, VO.
    VoStaging(String, String),
    /// Storage elements that share something.
    Group(String),
}

impl Place {
    fn resolve(&self, names: &mut Names) -> Resource {
        match self {
            Self::Link(pair) => Resource::Link(link(pair, names)),
            Self::Inbound(se) => Resource::Inbound(names.se(se)),
            Self::Outbound(se) => Resource::Outbound(names.se(se)),
            Self::VoInbound(se, vo) => Resource::VoInbound(names.se(se), names.vo(vo)),
            Self::VoOutbound(se, vo) => Resource::VoOutbound(names.se(se), names.vo(vo)),
            Self::Staging(se) => Resource::Staging(names.se(se)),
            Self::VoStaging(se, vo) => Resource::VoStaging(names.se(se), names.vo(vo)),
            Self::Group(group) => Resource::Group(names.group(group)),
        }
    }
}

fn link((source, destination): &Pair, names: &mut Names) -> Link {
    Link {
        source: names.se(source),
        destination: names.se(destination),
    }
}

/// A setting's key; each has one value, or none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Slots of links without a limit of their own.
    EveryLink,
    /// Slots of destinations without a limit of their own.
    EveryInbound,
    /// Slots of sources without a limit of their own.
    EveryOutbound,
    /// Files that are brought online at once, of storage elements without a limit of their own.
    EveryStaging,
    /// Active transfers.
    Slots(Place),
    /// Bytes in a second.
    Rate(Place),
    /// Group, storage element.
    Member(String, String, Direction),
    /// Weight of a link among the links of a storage element.
    Weight(Pair),
    /// The rate that is aimed at.
    Target(Pair),
    /// Of a VO on all links.
    VoShare(String),
    /// Of a VO on one link.
    LinkVoShare(Pair, String),
    /// VO, activity in lower case.
    ActivityShare(String, String),
    /// After which time a priority grows by one.
    Ageing,
    /// How limits are found.
    Optimiser,
    /// The same of one link.
    LinkOptimiser(Pair),
    /// Nothing new starts.
    Hold,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Of slots, shares and weights.
    Number(u32),
    /// Of bandwidth.
    Rate(BitRate),
    /// Of the optimiser.
    Mode(Mode),
    /// A time; `None` is never.
    After(Option<Duration>),
    /// Of members and of holding: it is so.
    Yes,
}

impl Worth {
    fn number(self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    fn rate(self) -> Option<BitRate> {
        match self {
            Self::Rate(rate) => Some(rate),
            _ => None,
        }
    }

    fn mode(self) -> Option<Mode> {
        match self {
            Self::Mode(mode) => Some(mode),
            _ => None,
        }
    }
}

/// All that is set.
pub type Plan = BTreeMap<Key, Worth>;

/// One change of a setting; `None` removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSetting {
    /// The key.
    pub key: Key,
    /// Its value.
    pub worth: Option<Worth>,
}

impl NamedSetting {
    /// The same for the core.
    pub fn resolve(&self, names: &mut Names) -> Setting {
        let worth = self.worth;
        let (number, rate) = (worth.and_then(Worth::number), worth.and_then(Worth::rate));
        let mode = worth.and_then(Worth::mode);
        let standard = weir_sched::Settings::default;
        match &self.key {
            Key::EveryLink => Setting::EveryLink(number.unwrap_or_else(|| standard().link)),
            Key::EveryInbound => Setting::EveryInbound(number.unwrap_or_else(|| standard().inbound)),
            Key::EveryOutbound => Setting::EveryOutbound(number.unwrap_or_else(|| standard().outbound)),
            Key::EveryStaging => Setting::EveryStaging(number.unwrap_or_else(|| standard().staging)),
            Key::Slots(place) => Setting::Slots(place.resolve(names), number),
            Key::Rate(place) => Setting::Rate(place.resolve(names), rate),
            Key::Member(group, se, direction) => {
                Setting::Member(names.group(group), names.se(se), *direction, worth.is_some())
            }
            Key::Weight(pair) => Setting::Weight(link(pair, names), number),
            Key::Target(pair) => Setting::Target(link(pair, names), rate),
            Key::VoShare(vo) => Setting::VoShare(names.vo(vo), number),
            Key::LinkVoShare(pair, vo) => Setting::LinkVoShare(link(pair, names), names.vo(vo), number),
            Key::ActivityShare(vo, activity) => Setting::ActivityShare(names.vo(vo), names.activity(activity), number),
            Key::Ageing => Setting::Ageing(match worth {
                Some(Worth::After(time)) => time,
                _ => standard().ageing,
            }),
            Key::Optimiser => Setting::Optimiser(mode.unwrap_or_default()),
            Key::LinkOptimiser(pair) => Setting::LinkOptimiser(link(pair, names), mode),
            Key::Hold => Setting::Hold(worth.is_some()),
        }
    }
}

/// The changes that lead from one plan to another.
pub fn difference(from: &Plan, to: &Plan) -> Vec<NamedSetting> {
    let gone = from.keys().filter(|key| !to.contains_key(key)).map(|key| NamedSetting {
        key: key.clone(),
        worth: None,
    });
    let set = to
        .iter()
        .filter(|(key, worth)| from.get(key) != Some(worth))
        .map(|(key, worth)| NamedSetting {
            key: key.clone(),
            worth: Some(*worth),
        });
    gone.chain(set).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = Key> {
        let pair = || ("[ab]", "[ab]");
        let place = prop_oneof![
            pair().prop_map(Place::Link),
            "[ab]".prop_map(Place::Inbound),
            pair().prop_map(|(se, vo)| Place::VoOutbound(se, vo)),
            "[ab]".prop_map(Place::Group),
        ];
        prop_oneof![
            Just(Key::EveryLink),
            Just(Key::Optimiser),
            place.prop_map(Key::Slots),
            pair().prop_map(Key::LinkOptimiser),
            pair().prop_map(|(group, se)| Key::Member(group, se, Direction::In)),
        ]
    }

    fn worth(key: &Key, number: u32) -> Worth {
        match key {
            Key::Optimiser | Key::LinkOptimiser(_) => Worth::Mode(Mode::Fixed(number)),
            Key::Member(..) => Worth::Yes,
            _ => Worth::Number(number),
        }
    }

    fn plans() -> impl Strategy<Value = Plan> {
        proptest::collection::btree_map(keys(), 0..3_u32, 0..8).prop_map(|plan| {
            plan.into_iter()
                .map(|(key, n)| {
                    let w = worth(&key, n);
                    (key, w)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_one_plan_to_the_other(mut from in plans(), mut to in plans()) {
            // A removed setting must not stay in the core, and an unchanged one must not be touched.
            for plan in [&mut from, &mut to] {
                plan.insert(Key::EveryLink, Worth::Number(plan.len() as u32));
                plan.insert(Key::Optimiser, Worth::Mode(Mode::Auto));
            }
            let mut names = Names::default();
            let mut apply = |settings: &mut weir_sched::Settings, changes: &[NamedSetting]| {
                for change in changes {
                    settings.apply(change.resolve(&mut names));
                }
                settings.members.retain(|_, groups| !groups.is_empty());
            };
            let (mut stepwise, mut direct) = (weir_sched::Settings::default(), weir_sched::Settings::default());
            apply(&mut stepwise, &difference(&Plan::new(), &from));
            apply(&mut stepwise, &difference(&from, &to));
            apply(&mut direct, &difference(&Plan::new(), &to));
            prop_assert_eq!(stepwise, direct);
            prop_assert!(difference(&to, &to).is_empty());
        }
    }
}
