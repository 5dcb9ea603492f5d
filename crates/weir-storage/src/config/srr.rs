//! The `[srr]` table.

use serde::{Deserialize, Serialize};
use weir_http::Network;

/// The space report at `/.well-known/weir/srr`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SrrConfig {
    /// Networks that may read it. Default: this host.
    pub allow: Vec<Network>,
    /// The service's name. Default: host and port of the URL.
    pub name: Option<String>,
    /// The service's identifier. Default: as the name.
    pub id: Option<String>,
    /// How far it is to be relied on.
    pub quality: Quality,
}

/// How far a service is to be relied on, in the report's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// In daily use.
    #[default]
    Production,
    /// About to be.
    PreProduction,
    /// For tests.
    Testing,
}

impl Default for SrrConfig {
    fn default() -> Self {
        Self {
            allow: weir_http::this_host(),
            name: None,
            id: None,
            quality: Quality::default(),
        }
    }
}
