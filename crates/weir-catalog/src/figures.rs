//! Counts of the catalogue's tables, for the page of metrics.

use std::collections::BTreeMap;

use weir_database::Session;
use weir_model::catalog::{LoadState, RequestState, RuleState};
use weir_service::metrics::{Kind, Page};
use weir_store::StoreError;

const DELETIONS: &str = "weir_catalog_deletions";

/// Counts of rows.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// With the name and the meaning of each.
    gauges: Vec<(&'static str, &'static str, u64)>,
    /// Requests by state.
    pub(crate) requests: BTreeMap<&'static str, u64>,
    /// Rules by state.
    pub(crate) rules: BTreeMap<&'static str, u64>,
    /// Loads by state.
    pub(crate) loads: BTreeMap<&'static str, u64>,
}

/// Counts, in one transaction.
pub(crate) fn read(session: &mut dyn Session) -> Result<Figures, StoreError> {
    let counted = [
        ("weir_catalog_accounts", "accounts, deleted ones too", "accounts"),
        ("weir_catalog_sessions", "sessions that are kept", "sessions"),
        ("weir_catalog_rses", "RSEs", "rses WHERE deleted IS NULL"),
        (
            DELETIONS,
            "replicas whose files are being deleted",
            "replicas WHERE state = 'B'",
        ),
    ];
    let mut figures = Figures::default();
    for (name, help, rows) in counted {
        let row = session.row(&format!("SELECT count(*) FROM {rows}"), &[])?;
        figures.gauges.push((name, help, row.map_or(Ok(0), |row| row.size(0))?));
    }
    for row in session.query("SELECT state, count(*) FROM requests GROUP BY state", &[])? {
        figures
            .requests
            .insert(row.parsed::<RequestState>(0)?.as_str(), row.size(1)?);
    }
    for row in session.query("SELECT state, count(*) FROM rules GROUP BY state", &[])? {
        figures.rules.insert(row.parsed::<RuleState>(0)?.as_str(), row.size(1)?);
    }
    for row in session.query("SELECT state, count(*) FROM loads GROUP BY state", &[])? {
        figures.loads.insert(row.parsed::<LoadState>(0)?.as_str(), row.size(1)?);
    }
    Ok(figures)
}

impl Figures {
    /// Replicas whose files are being deleted.
    pub(crate) fn deletions(&self) -> u64 {
        self.gauges
            .iter()
            .find(|(name, ..)| *name == DELETIONS)
            .map_or(0, |(_, _, n)| *n)
    }

    /// Adds them to a page.
    pub(crate) fn show(&self, page: &mut Page) {
        for (name, help, value) in &self.gauges {
            page.single(name, Kind::Gauge, help, *value);
        }
        for (name, help, all) in [
            ("weir_catalog_requests", "requests that have not ended", &self.requests),
            ("weir_catalog_rules", "rules", &self.rules),
            ("weir_catalog_loads", "loads, ended ones too", &self.loads),
        ] {
            page.family(name, Kind::Gauge, help);
            for (state, n) in all {
                page.sample(&[("state", state)], *n);
            }
        }
    }
}
