//! The kinds of settings.

use std::collections::BTreeMap;

use super::values::Object;

/// The subject of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// By symbolic name.
    Link,
    /// By `scheme://host`, or `*`.
    Storage,
    /// By VO, or `*`.
    Global,
    /// By source, destination and VO, with spaces between.
    Share,
    /// By VO.
    Activities,
    /// By name.
    Group,
    /// A storage element that is banned; later kinds overrule earlier ones.
    BannedStorage,
    /// A banned user, by name.
    BannedUser,
    /// Nothing starts; one row.
    Drain,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Link,
        Self::Storage,
        Self::Global,
        Self::Share,
        Self::Activities,
        Self::Group,
        Self::BannedStorage,
        Self::BannedUser,
        Self::Drain,
    ];

    /// Begin of its keys in the store.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Link => "link/",
            Self::Storage => "se/",
            Self::Global => "global/",
            Self::Share => "share/",
            Self::Activities => "activity/",
            Self::Group => "group/",
            Self::BannedStorage => "ban-se/",
            Self::BannedUser => "ban-dn/",
            Self::Drain => "drain/",
        }
    }
}

/// A row's kind and name.
pub type RowKey = (Kind, String);

/// Rows by kind and name.
pub(super) type Rows = BTreeMap<RowKey, Object>;
