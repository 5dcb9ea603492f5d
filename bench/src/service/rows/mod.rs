//! The rows of the transfer service.

mod copies;
mod nodes;
mod staging;
mod standing;
mod submission;
mod tokens;

use anyhow::Result;
use serde_json::{Value, json};

use super::lab::{Caller, Store};
use submission::Submission;

/// One figure: its description and its numbers.
struct Figure {
    name: &'static str,
    said: String,
    numbers: Value,
}

/// Runs all rows whose name holds `only`.
pub(crate) async fn all(only: &str, scale: f64) -> Result<Value> {
    let mut found = Vec::new();
    let wanted = |name: &str| name.contains(only);
    let mut tell = |figure: Figure| {
        println!("{:<34} {}", figure.name, figure.said);
        found.push(json!({ "name": figure.name, "said": figure.said, "numbers": figure.numbers }));
    };
    for row in submissions().filter(|row| wanted(row.name)) {
        for figure in row.measure(scale).await? {
            tell(figure);
        }
    }
    if wanted(COPIES) {
        tell(copies::concurrent(scale).await?);
    }
    for store in Store::ALL {
        if wanted(SUSTAINED) {
            tell(copies::sustained(store, scale).await?);
        }
    }
    if wanted(NEXT_START) {
        tell(copies::next_start(scale).await?);
    }
    for store in Store::ALL {
        if wanted(RESTART) {
            tell(standing::restart(RESTART, store, 1_000_000, scale).await?);
        }
    }
    if wanted(RESTART_LARGE) {
        tell(standing::restart(RESTART_LARGE, Store::Sqlite, 10_000_000, scale).await?);
    }
    if wanted(POLL) {
        tell(standing::poll(scale).await?);
    }
    if wanted(NODES) {
        tell(nodes::throughput(scale).await?);
    }
    for store in Store::ALL {
        if wanted(STAGING) {
            tell(staging::row(store, scale).await?);
        }
    }
    for store in Store::ALL {
        if wanted(TOKENS) {
            tell(tokens::row(store, scale).await?);
        }
    }
    for stopped in [false, true] {
        if wanted(TAKE_OVER) {
            tell(nodes::take_over(stopped, scale).await?);
        }
    }
    Ok(Value::from(found))
}

/// All rows of submissions.
fn submissions() -> impl Iterator<Item = Submission> {
    let plain = |name, store, files, clients, keep| Submission {
        name,
        store,
        files,
        clients,
        keep,
        queued: 0,
        completing: false,
        paced: None,
    };
    Store::ALL.into_iter().flat_map(move |store| {
        [
            plain(SUBMIT_200, store, 200, 16, true),
            plain(SUBMIT_200, store, 200, 64, true),
            plain(SUBMIT_1, store, 1, 16, true),
            plain(SUBMIT_TLS, store, 1, 16, false),
            Submission {
                queued: 5_000_000,
                completing: true,
                paced: Some(40_000),
                ..plain(SUBMIT_BESIDE, store, 200, 16, true)
            },
        ]
    })
}

const SUBMIT_200: &str = "submission, 200 files a job";
const SUBMIT_1: &str = "submission, 1 file, keep-alive";
const SUBMIT_TLS: &str = "submission, 1 file, new TLS";
const SUBMIT_BESIDE: &str = "submission beside completions";
const COPIES: &str = "concurrent COPYs";
const SUSTAINED: &str = "sustained completions";
const NEXT_START: &str = "completion to next start";
const RESTART: &str = "restart, 1 M";
const RESTART_LARGE: &str = "restart, 10 M";
const POLL: &str = "status poll of 100 x 100";
const NODES: &str = "completions by several nodes";
const TAKE_OVER: &str = "take-over";
const STAGING: &str = "staging campaign";
const TOKENS: &str = "distinct tokens, against one";

const ADMIN: &str = "[[admin]]\nissuer = \"{ISSUER}\"\nsubject = \"tester\"\n";

fn limits(link: u32) -> String {
    format!("{ADMIN}[limits]\nlink = {link}\ninbound = 40000\noutbound = 40000\nconnections = 512\n")
}

/// Links take so many at once, whatever the optimiser would think.
async fn fix(caller: &Caller, active: u64) -> Result<()> {
    let link = json!({
        "symbolicname": "every", "source": "*", "destination": "*", "optimizer_mode": 0,
        "min_active": active, "max_active": active,
    });
    caller.post("/config/links", &link).await
}

fn scaled(count: u64, scale: f64) -> u64 {
    if count == 0 {
        return 0;
    }
    ((count as f64 * scale) as u64).max(1)
}

/// The p-th part of sorted figures.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let place = (sorted.len() as f64 * p) as usize;
    sorted
        .get(place.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    quantile(figures, 0.5)
}
