//! Figures of the rows, their names, and the settings that they need.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::lab::Caller;

/// One figure: its description and its numbers.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) said: String,
    pub(super) numbers: Value,
}

pub(super) const SUBMIT_200: &str = "submission, 200 files a job";

pub(super) const SUBMIT_1: &str = "submission, 1 file, keep-alive";

pub(super) const SUBMIT_TLS: &str = "submission, 1 file, new TLS";

pub(super) const SUBMIT_BESIDE: &str = "submission beside completions";

pub(super) const COPIES: &str = "concurrent COPYs";

pub(super) const SUSTAINED: &str = "sustained completions";

pub(super) const NEXT_START: &str = "completion to next start";

pub(super) const RESTART: &str = "restart, 1 M";

pub(super) const RESTART_LARGE: &str = "restart, 10 M";

pub(super) const POLL: &str = "status poll of 100 x 100";

pub(super) const NODES: &str = "completions by several nodes";

pub(super) const TAKE_OVER: &str = "take-over";

pub(super) const STAGING: &str = "staging campaign";

pub(super) const TOKENS: &str = "distinct tokens, against one";

const ADMIN: &str = "[[admin]]\nissuer = \"{ISSUER}\"\nsubject = \"tester\"\n";

pub(super) fn limits(link: u32) -> String {
    format!("{ADMIN}[limits]\nlink = {link}\ninbound = 40000\noutbound = 40000\nconnections = 512\n")
}

/// Links take so many at once, whatever the optimiser would think.
pub(super) async fn fix(caller: &Caller, active: u64) -> Result<()> {
    let link = json!({
        "symbolicname": "every", "source": "*", "destination": "*", "optimizer_mode": 0,
        "min_active": active, "max_active": active,
    });
    caller.post("/config/links", &link).await
}

pub(super) fn scaled(count: u64, scale: f64) -> u64 {
    if count == 0 {
        return 0;
    }
    ((count as f64 * scale) as u64).max(1)
}

/// The p-th part of sorted figures.
pub(super) fn quantile(sorted: &[f64], p: f64) -> f64 {
    let place = (sorted.len() as f64 * p) as usize;
    sorted
        .get(place.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

pub(super) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    quantile(figures, 0.5)
}
