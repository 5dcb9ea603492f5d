//! The `[[issuer]]` tables.

use serde::{Deserialize, Serialize};
use weir_auth::{Dialect, StoragePath};

/// An accepted token issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// As tokens write it in `iss`, character by character.
    pub url: String,
    /// The paths below which its scopes count. Default: `/`.
    #[serde(default = "root_only")]
    pub prefixes: Vec<StoragePath>,
    /// Names of this endpoint that only this issuer's tokens may use.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// In which dialects it may write its tokens. Default: the WLCG profile.
    #[serde(default = "profile_only")]
    pub dialects: Vec<Dialect>,
    /// The VO that it speaks for: in areas' rules, in the shares of `[[limit]]`, and where VOs take turns. Default: none.
    #[serde(default)]
    pub vo: Option<String>,
}

impl IssuerConfig {
    /// An issuer of WLCG tokens whose scopes are relative to `/`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefixes: root_only(),
            audiences: Vec::new(),
            dialects: profile_only(),
            vo: None,
        }
    }
}

fn root_only() -> Vec<StoragePath> {
    vec![StoragePath::root()]
}

fn profile_only() -> Vec<Dialect> {
    vec![Dialect::Wlcg]
}
