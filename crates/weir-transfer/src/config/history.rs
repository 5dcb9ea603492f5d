//! Jobs that have ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Retention of ended jobs. Questions about them are answered all the time, from the live tables or from the history.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistoryConfig {
    /// How long they stay in the tables of the present, where a look at one is cheapest.
    #[serde(with = "weir_units::duration")]
    pub archive_after: Duration,
    /// How long after their end they are known at all; zero: for ever.
    #[serde(with = "weir_units::duration")]
    pub keep: Duration,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self {
            archive_after: Duration::from_secs(3600),
            keep: Duration::from_secs(90 * 86_400),
        }
    }
}
