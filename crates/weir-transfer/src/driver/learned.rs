//! Learned values of the optimiser, by name: numbers of storage elements mean nothing after a restart.

use serde::{Deserialize, Serialize};
use weir_sched::{Learned, Link, Names, Resource};
use weir_units::{BitRate, Timestamp};

use crate::store::Change;

/// Keys of the store's settings that belong here.
pub(super) const PREFIX: &str = "learned/";

/// One row's value.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    resource: NamedLearned,
    slots: u32,
    #[serde(with = "weir_units::bps")]
    each_bps: BitRate,
    at_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NamedLearned {
    Link(String, String),
    Inbound(String),
    Outbound(String),
}

impl NamedLearned {
    fn of(resource: Resource, names: &Names) -> Option<Self> {
        let name = |se| names.se_name(se).to_owned();
        match resource {
            Resource::Link(link) => Some(Self::Link(name(link.source), name(link.destination))),
            Resource::Inbound(se) => Some(Self::Inbound(name(se))),
            Resource::Outbound(se) => Some(Self::Outbound(name(se))),
            Resource::VoInbound(..)
            | Resource::VoOutbound(..)
            | Resource::Staging(_)
            | Resource::VoStaging(..)
            | Resource::Group(_) => None,
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Link(source, destination) => format!("{PREFIX}link/{source} {destination}"),
            Self::Inbound(se) => format!("{PREFIX}inbound/{se}"),
            Self::Outbound(se) => format!("{PREFIX}outbound/{se}"),
        }
    }

    fn resolve(&self, names: &mut Names) -> Resource {
        match self {
            Self::Link(source, destination) => Resource::Link(Link {
                source: names.se(source),
                destination: names.se(destination),
            }),
            Self::Inbound(se) => Resource::Inbound(names.se(se)),
            Self::Outbound(se) => Resource::Outbound(names.se(se)),
        }
    }
}

/// The changes to write.
pub(super) fn changes(learned: &[Learned], names: &Names) -> Vec<Change> {
    let change = |known: &Learned| {
        let resource = NamedLearned::of(known.resource, names)?;
        let key = resource.key();
        let row = Row {
            resource,
            slots: known.slots,
            each_bps: known.each,
            at_ns: known.at.0,
        };
        let value = serde_json::to_string(&row).ok();
        value.map(|value| Change::Setting {
            key,
            value: Some(value),
        })
    };
    learned.iter().filter_map(change).collect()
}

/// The values written in earlier lives. An unreadable row is skipped: it would only have saved time.
pub(super) fn restore(rows: &[(String, String)], names: &mut Names) -> Vec<Learned> {
    let rows = rows
        .iter()
        .filter_map(|(_, value)| serde_json::from_str::<Row>(value).ok());
    let learned = rows.map(|row| Learned {
        resource: row.resource.resolve(names),
        slots: row.slots,
        each: row.each_bps,
        at: Timestamp(row.at_ns),
    });
    learned.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::store::{Store as _, sqlite::SqliteStore};

    #[test]
    fn learned_rates_survive_under_other_numbers() {
        // A cap given back to another storage would overload it.
        let mut names = Names::default();
        let link = Link {
            source: names.se("davs://ral"),
            destination: names.se("davs://qmul"),
        };
        let known = Learned {
            resource: Resource::Link(link),
            slots: 37,
            each: BitRate(80_000_000),
            at: Timestamp(5),
        };
        let store = SqliteStore::in_memory();
        store.apply(&changes(&[known], &names)).unwrap();
        let mut others = Names::default();
        others.se("davs://somebody-else");
        let restored = restore(&store.settings(PREFIX).unwrap(), &mut others);
        let link = Link {
            source: others.se("davs://ral"),
            destination: others.se("davs://qmul"),
        };
        assert_eq!(
            restored,
            [Learned {
                resource: Resource::Link(link),
                ..known
            }]
        );
    }
}
