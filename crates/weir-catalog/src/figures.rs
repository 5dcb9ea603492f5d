//! Counts of the catalogue's tables, for the page of metrics.

use std::collections::BTreeMap;

use weir_database::Session;
use weir_model::catalog::{LoadState, RequestState, RuleState};
use weir_service::{
    metrics::{Kind, Page},
    time::Millis,
};
use weir_store::StoreError;

use crate::requests::waiting::{self, OpenRequests};

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
    /// The reasons of waiting requests, and the room of those on their way.
    pub(crate) open: OpenRequests,
    now: Millis,
}

/// Counts, in one transaction. Transfer services may have `in_flight` requests.
pub(crate) fn read(session: &mut dyn Session, now: Millis, in_flight: usize) -> Result<Figures, StoreError> {
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
    let mut figures = Figures {
        open: waiting::count(session, now, in_flight as u64)?,
        now,
        ..Figures::default()
    };
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

    /// The age of a request that was made at this time, in seconds.
    pub(crate) fn age(&self, since: Millis) -> f64 {
        self.now.saturating_sub(since).max(0) as f64 / 1e3
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
        self.show_open(page);
    }

    fn show_open(&self, page: &mut Page) {
        let help = "requests that have not gone out, by what they wait for";
        page.family("weir_catalog_requests_waiting", Kind::Gauge, help);
        for ((rse, wait), waiting) in &self.open.waiting {
            page.sample(&[("rse", rse), ("why", wait.as_str())], waiting.requests);
        }
        let help = "age of the oldest of these";
        page.family("weir_catalog_requests_oldest_seconds", Kind::Gauge, help);
        for ((rse, wait), waiting) in &self.open.waiting {
            page.sample(&[("rse", rse), ("why", wait.as_str())], self.age(waiting.since));
        }
        let help = "bytes of files on their way: the catalogue keeps this room for them";
        page.family("weir_catalog_reserved_bytes", Kind::Gauge, help);
        for (rse, reserved) in &self.open.reserved {
            page.sample(&[("rse", rse)], reserved.bytes);
        }
    }
}
