//! The rows of the transfer service.

mod copies;
mod figure;
mod nodes;
mod staging;
mod standing;
mod submission;
mod tokens;

use anyhow::Result;
use serde_json::{Value, json};

use super::lab::Store;
use figure::{
    COPIES, Figure, NEXT_START, NODES, POLL, RESTART, RESTART_LARGE, STAGING, SUBMIT_1, SUBMIT_200, SUBMIT_BESIDE,
    SUBMIT_TLS, SUSTAINED, TAKE_OVER, TOKENS, fix, limits, median, quantile, scaled,
};
use submission::Submission;

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
