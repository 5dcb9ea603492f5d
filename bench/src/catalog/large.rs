//! A catalogue of ten million files and two million locks: how long a restart takes, how soon the first row of a listing comes, and the memory
//! of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use serde_json::json;
use weir_tests::Postgres;

use super::files::{dataset, register, rule};
use super::lab::Contender;
use super::{Found, Round};

/// Files, and locks of rules on some of them.
const FILES: f64 = 10_000_000.0;
const LOCKS: f64 = 2_000_000.0;

/// Files of one dataset with a rule.
const DATASET: u64 = 50_000;

/// Files registered by one call of this program, and clients that do so.
const SHARE: u64 = 20_000;
const CLIENTS: usize = 4;

/// Listings.
const LISTINGS: usize = 20;

pub(super) const NAME: &str =
    "restart with 10 M files and 2 M locks; latencies: the first byte of list_replicas of 50,000 files";

pub(super) async fn row(scaled: &impl Fn(f64) -> u64) -> Result<Found> {
    let mut contenders = Vec::new();
    for (name, postgres) in [("Weir, SQLite", None), ("Weir, PostgreSQL", Some(Postgres::durable()?))] {
        contenders.push((name, vec![round(name, postgres, scaled).await?]));
    }
    Ok(Found {
        name: NAME,
        unit: "restarts",
        contenders,
    })
}

async fn round(name: &'static str, postgres: Option<Postgres>, scaled: &impl Fn(f64) -> u64) -> Result<Round> {
    let mut contender = Contender::weir_with(name, postgres, "").await?;
    contender.prepare().await?;
    fill(&contender, scaled(FILES) - scaled(LOCKS)).await?;
    let size = DATASET.min(scaled(LOCKS));
    let mut last = String::new();
    for _ in 0..scaled(LOCKS) / size {
        last = dataset(&contender.caller, size).await?;
        contender.caller.ask("POST", "/rules/", Some(&rule(&last))).await?;
    }
    let restart = contender.restart().await?;
    let wish = json!({ "dids": [{ "scope": "mc", "name": last }] });
    let mut latencies = Vec::new();
    for _ in 0..LISTINGS {
        let told = contender.caller.ask("POST", "/replicas/list", Some(&wish)).await?;
        latencies.push(told.first.as_secs_f64());
    }
    Ok(Round {
        rate: 1.0 / restart.as_secs_f64(),
        cpu_us: 0.0,
        latencies,
        memory: contender.memory_max()?,
    })
}

async fn fill(contender: &Contender, n_files: u64) -> Result<()> {
    let left = Arc::new(AtomicU64::new(n_files.div_ceil(SHARE)));
    let client = |_| {
        let (caller, left) = (contender.caller.clone(), left.clone());
        tokio::spawn(async move {
            let take = |left: u64| left.checked_sub(1);
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                register(&caller, SHARE.min(n_files)).await?;
            }
            Ok::<_, anyhow::Error>(())
        })
    };
    for client in (0..CLIENTS).map(client).collect::<Vec<_>>() {
        client.await??;
    }
    Ok(())
}
