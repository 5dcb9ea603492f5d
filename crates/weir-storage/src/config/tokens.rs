//! The `[tokens]` table.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// Tokens of the endpoint's own, for clients that ask for one as for a macaroon. Without this table it makes none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensConfig {
    /// The signing key, in a file that only the service may read; created if missing.
    pub key: PathBuf,
    /// The longest that one lives. Default: 12 hours, as proxies do.
    #[serde(default = "half_a_day", with = "weir_units::duration")]
    pub lifetime: Duration,
}

impl TokensConfig {
    /// The defaults, with this key.
    pub fn new(key: impl Into<PathBuf>) -> Self {
        Self {
            key: key.into(),
            lifetime: half_a_day(),
        }
    }
}

fn half_a_day() -> Duration {
    Duration::from_secs(12 * 3600)
}
