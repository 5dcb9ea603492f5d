//! Settings of an administrator: `/config`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Limits of a link.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Link {
    /// Its name.
    pub symbolicname: String,
    /// `scheme://host` of the source, or `*`.
    pub source: String,
    /// `scheme://host` of the destination, or `*`.
    pub destination: String,
    /// Least number of transfers.
    pub min_active: Option<u32>,
    /// Largest number of transfers.
    pub max_active: Option<u32>,
    /// FTS3's number of the optimiser's mode.
    pub optimizer_mode: Option<u32>,
    /// Bytes.
    pub tcp_buffer_size: Option<u32>,
    /// TCP connections of a copy.
    pub nostreams: Option<u32>,
    /// Whether the storage is sent tokens in place of a delegated certificate.
    pub no_delegation: bool,
    /// Limits that FTS3 lacks: `rate`, `target`, `weight`, `optimiser`.
    pub weir: Map<String, Value>,
}

/// Share of a VO on a link.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Share {
    /// `scheme://host` of the source, or `*`.
    pub source: String,
    /// `scheme://host` of the destination, or `*`.
    pub destination: String,
    /// The VO.
    pub vo: String,
    /// Its weight.
    pub share: u32,
}

/// A resource that several storage elements share, such as a wide-area link.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Largest number of transfers.
    pub max_active: Option<u32>,
    /// Largest rate, such as `10 Gb/s`.
    pub max_rate: Option<Value>,
    /// The storage elements.
    pub members: Vec<GroupMember>,
}

/// A storage element that shares a resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupMember {
    /// `scheme://host`.
    pub se: String,
    /// Direction in which it shares: `in`, `out` or `both`.
    pub direction: String,
}

/// A change of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// UTC.
    pub datetime: String,
    /// The administrator.
    pub dn: String,
    /// The request, as text.
    pub config: String,
    /// The action.
    pub action: String,
}
