//! The chain of a quiet grid: from a rule on a file of 1 MB to its lock that is OK, without the copy itself.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_tests::{RunningGrid, TWO_SITES};

use super::first_byte::{PATIENCE, PAUSE, seed, session};
use super::{Found, Round};

/// Files of a round, and their size.
const FILES: usize = 20;
const SIZE: usize = 1_000_000;

pub(super) const NAME: &str =
    "chain of a quiet grid, rule to OK lock for a file of 1 MB; latencies: of this without the copy";

pub(super) async fn row(rounds: usize) -> Result<Found> {
    Found::on_grids((NAME, "rules"), rounds, TWO_SITES, round).await
}

async fn round(grid: &RunningGrid) -> Result<Round> {
    let caller = session(grid).await?;
    let content = vec![b'w'; SIZE];
    let (mut latencies, mut whole) = (Vec::new(), 0.0);
    for n in 0..FILES {
        let name = format!("quiet{n:02}");
        seed(grid, &caller, (&name, &content)).await?;
        tokio::time::sleep(PAUSE).await;
        let rule = json!({ "dids": [{ "scope": "test", "name": name }], "copies": 1, "rse_expression": "BETA", "account": "root" });
        let asked = Instant::now();
        let made = caller.ask("POST", "/rules/", Some(&rule)).await?;
        let ids: Vec<String> = serde_json::from_slice(&made.text)?;
        let path = format!("/rules/{}", ids.first().context("no rule")?);
        loop {
            let told: Value = serde_json::from_slice(&caller.ask("GET", &path, None).await?.text)?;
            if told["state"] == "OK" {
                break;
            }
            ensure!(asked.elapsed() < PATIENCE, "{name} did not come");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let took = asked.elapsed().as_secs_f64();
        whole += took;
        // The copy, by the transfer service's clock, to the millisecond.
        let path = format!("/requests/history/test/{name}/BETA");
        let told: Value = serde_json::from_slice(&caller.ask("GET", &path, None).await?.text)?;
        let at = |key: &str| told["weir"][key].as_f64().context("an exact time");
        latencies.push(took - (at("transferred_ms")? - at("started_ms")?) / 1e3);
    }
    Ok(Round {
        rate: FILES as f64 / whole,
        cpu_us: 0.0,
        latencies,
        ..Round::default()
    })
}
