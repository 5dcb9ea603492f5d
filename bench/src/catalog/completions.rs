//! Completions: from the moment at which the transfer service says that all files of a rule have come to the rule that is OK.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::{Postgres, free_port};

use super::files::{dataset, rule};
use super::lab::Contender;
use super::transfers::Transfers;
use super::{Found, Round};

/// Files of the rule: the default limit of requests that the transfer services hold at once (`in_flight`).
const FILES: f64 = 20_000.0;

const PATIENCE: Duration = Duration::from_secs(120);

pub(super) const NAME: &str = "completions that become OK locks and an OK rule, 20,000 files of one rule";

pub(super) async fn row(rounds: usize, scaled: &impl Fn(f64) -> u64) -> Result<Found> {
    let (mut on_sqlite, mut on_postgres) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        on_sqlite.push(round("Weir, SQLite", None, scaled(FILES)).await?);
        let postgres = Some(Postgres::durable()?);
        on_postgres.push(round("Weir, PostgreSQL", postgres, scaled(FILES)).await?);
    }
    Ok(Found {
        name: NAME,
        unit: "locks",
        contenders: vec![("Weir, SQLite", on_sqlite), ("Weir, PostgreSQL", on_postgres)],
    })
}

async fn round(name: &'static str, postgres: Option<Postgres>, n_files: u64) -> Result<Round> {
    let service = Transfers::start(([127, 0, 0, 1], free_port()?).into())?;
    let tables = format!(
        "[tokens]\nfile = \"password\"\n[transfers]\nservices = [\"{}\"]\npoll = \"100ms\"\n",
        service.url
    );
    let contender = Contender::weir_with(name, postgres, &tables).await?;
    contender.prepare().await?;
    let caller = &contender.caller;
    let name = dataset(caller, n_files).await?;
    let made = caller.ask("POST", "/rules/", Some(&rule(&name))).await?;
    let ids: Vec<String> = serde_json::from_slice(&made.text)?;
    let id = ids.first().context("no rule")?;
    let begun = Instant::now();
    while service.submitted() < usize::try_from(n_files)? {
        ensure!(
            begun.elapsed() < PATIENCE,
            "{} of {n_files} files were submitted",
            service.submitted()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The last submissions become durable.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (begun, used) = (Instant::now(), contender.cpu());
    service.let_come();
    loop {
        let told = caller.ask("GET", &format!("/rules/{id}"), None).await?;
        let told: Value = serde_json::from_slice(&told.text)?;
        if told["state"] == "OK" {
            break;
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "the rule is {}: {}",
            told["state"],
            told["error"]
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(Round {
        rate: n_files as f64 / begun.elapsed().as_secs_f64(),
        cpu_us: (contender.cpu() - used) / n_files as f64 * 1e6,
        latencies: Vec::new(),
        ..Round::default()
    })
}
