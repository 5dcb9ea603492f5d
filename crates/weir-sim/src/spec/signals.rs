//! How the services of a simulated world tell what transfers wait for.

use weir_measure::signals::Telling;
use weir_model::file::{Key, Section, Table};

use super::values::{share, spread_of, time};

pub(crate) const SIGNALS: Table = Table {
    title: "[sim.signals]",
    keys: &[
        Key::new(
            "delay",
            "duration",
            "`0 s`",
            "States of data come with the markers of copies: they are told so much later.",
        ),
        Key::new(
            "unsplit",
            "number",
            "0",
            "Share of the time of data that is told as `data`, without a place, from 0 to 1.",
        ),
        Key::new(
            "error",
            "number",
            "0",
            "Each time is told with a factor drawn from 1 ÷ (1 + error) to 1 + error.",
        ),
        Key::new(
            "silent",
            "number",
            "0",
            "Share of RSEs, drawn, of whose incoming transfers nobody tells more than their queue: foreign storages.",
        ),
    ],
};

/// How completely and exactly the services tell the waits; by default without loss.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SignalsModel {
    /// How exactly.
    pub telling: Telling,
    /// Share of RSEs that tell nothing.
    pub silent: f64,
}

pub(super) fn signals(table: &Section<'_>) -> SignalsModel {
    SignalsModel {
        telling: Telling {
            delay: time(table, "delay").unwrap_or_default(),
            unsplit: share(table, "unsplit").unwrap_or_default(),
            error: spread_of(table, "error").unwrap_or_default(),
        },
        silent: share(table, "silent").unwrap_or_default(),
    }
}
