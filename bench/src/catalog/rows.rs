//! The rows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weir_tests::Draw;

use super::files::{BULK, dataset, register, rule};
use super::{Found, Round, completions, deletions, first_byte, lab::Contender, large, quiet};
use crate::rows::shuffled;

/// Clients of the rows that count operations.
const CLIENTS: u64 = 8;

/// How long operations are counted.
const TIME: Duration = Duration::from_secs(6);

/// All rows whose names have this text.
pub(super) async fn all((rounds, only, scale): (usize, &str, f64), order: &mut Draw) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    if "rule to the file".contains(only) {
        let row = first_byte::row(rounds).await?;
        row.print();
        found.push(row);
    }
    let scaled = |n: f64| ((n * scale) as u64).max(10);
    for name in [quiet::NAME, completions::NAME, deletions::NAME, large::NAME] {
        if !name.contains(only) {
            continue;
        }
        let row = match name {
            quiet::NAME => quiet::row(rounds).await?,
            completions::NAME => completions::row(rounds, &scaled).await?,
            deletions::NAME => deletions::row(rounds, &scaled).await?,
            // Minutes are spent on what it stands on.
            _ => large::row(&scaled).await?,
        };
        row.print();
        found.push(row);
    }
    let mut rows = vec![Row::Rules, Row::Replicas, Row::Listing, Row::Large];
    rows.retain(|row| row.name().0.contains(only));
    if rows.is_empty() {
        return Ok(found);
    }
    let contenders = Contender::all().await?;
    for row in rows {
        let (name, unit) = row.name();
        let mut rows = contenders.iter().map(|one| (one.name, Vec::new())).collect::<Vec<_>>();
        for _ in 0..rounds {
            for place in shuffled(contenders.len(), order) {
                let contender = &contenders[place];
                if let Some(round) = row
                    .run(contender, &scaled)
                    .await
                    .with_context(|| format!("{name}, {}", contender.name))?
                {
                    rows[place].1.push(round);
                }
            }
        }
        rows.retain(|(_, rounds)| !rounds.is_empty());
        let one = Found {
            name,
            unit,
            contenders: rows,
        };
        one.print();
        found.push(one);
    }
    Ok(found)
}

#[derive(Clone, Copy)]
enum Row {
    Rules,
    Replicas,
    Listing,
    Large,
}

impl Row {
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Rules => ("rules on one file, eight clients", "rules"),
            Self::Replicas => ("replicas registered in bulks of 1,000, four clients", "replicas"),
            Self::Listing => ("list_replicas of 10,000 files; latencies: the first byte", "files"),
            Self::Large => (
                "a rule on 50,000 files, to durable locks and requests; latencies: of others' calls meanwhile",
                "locks",
            ),
        }
    }

    async fn run(self, contender: &Contender, scaled: &impl Fn(f64) -> u64) -> Result<Option<Round>> {
        let round = match self {
            Self::Rules => rules(contender, scaled(if contender.is_weir() { 12_000.0 } else { 1_500.0 })).await?,
            Self::Replicas => replicas(contender).await?,
            Self::Listing => listing(contender, scaled(10_000.0)).await?,
            // Minutes there.
            Self::Large if !contender.is_weir() => return Ok(None),
            Self::Large => large(contender, scaled(50_000.0)).await?,
        };
        Ok(Some(round))
    }
}

async fn rules(contender: &Contender, n_files: u64) -> Result<Round> {
    let first = register(&contender.caller, n_files).await?;
    let next = Arc::new(AtomicU64::new(first));
    let (begun, used) = (Instant::now(), contender.cpu());
    let tasks = (0..CLIENTS).map(|_| {
        let (caller, next) = (contender.caller.clone(), next.clone());
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= first + n_files || begun.elapsed() > TIME {
                    return Ok::<_, anyhow::Error>(latencies);
                }
                let asked = Instant::now();
                caller.ask("POST", "/rules/", Some(&rule(&format!("f{n:08}")))).await?;
                latencies.push(asked.elapsed().as_secs_f64());
            }
        })
    });
    let mut latencies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        latencies.extend(task.await??);
    }
    let n = latencies.len() as f64;
    Ok(Round {
        rate: n / begun.elapsed().as_secs_f64(),
        cpu_us: (contender.cpu() - used) / n * 1e6,
        latencies,
        ..Round::default()
    })
}

async fn replicas(contender: &Contender) -> Result<Round> {
    let (begun, used) = (Instant::now(), contender.cpu());
    let tasks = (0..4).map(|_| {
        let caller = contender.caller.clone();
        tokio::spawn(async move {
            let mut n = 0;
            while begun.elapsed() < TIME {
                register(&caller, BULK).await?;
                n += BULK;
            }
            Ok::<_, anyhow::Error>(n)
        })
    });
    let mut n = 0;
    for task in tasks.collect::<Vec<_>>() {
        n += task.await??;
    }
    Ok(Round {
        rate: n as f64 / begun.elapsed().as_secs_f64(),
        cpu_us: (contender.cpu() - used) / n as f64 * 1e6,
        latencies: Vec::new(),
        ..Round::default()
    })
}

async fn listing(contender: &Contender, n_files: u64) -> Result<Round> {
    let name = dataset(&contender.caller, n_files).await?;
    let wish = json!({ "dids": [{ "scope": "mc", "name": name }] });
    let (begun, used, mut n, mut latencies) = (Instant::now(), contender.cpu(), 0, Vec::new());
    while begun.elapsed() < TIME / 2 || n == 0 {
        let told = contender.caller.ask("POST", "/replicas/list", Some(&wish)).await?;
        let rows = String::from_utf8_lossy(&told.text).lines().count() as u64;
        anyhow::ensure!(rows == n_files, "{rows} rows of {n_files}");
        latencies.push(told.first.as_secs_f64());
        n += rows;
    }
    Ok(Round {
        rate: n as f64 / begun.elapsed().as_secs_f64(),
        cpu_us: (contender.cpu() - used) / n as f64 * 1e6,
        latencies,
        ..Round::default()
    })
}

async fn large(contender: &Contender, n_files: u64) -> Result<Round> {
    let name = dataset(&contender.caller, n_files).await?;
    let others = register(&contender.caller, 2_000).await?;
    let caller = contender.caller.clone();
    let beside = tokio::spawn(async move {
        // Others look at DIDs, and add rules of their own.
        let mut latencies = Vec::new();
        for n in others..others + 2_000 {
            let name = format!("f{n:08}");
            let asked = Instant::now();
            caller.ask("GET", &format!("/dids/mc/{name}"), None).await?;
            latencies.push(asked.elapsed().as_secs_f64());
            let asked = Instant::now();
            caller.ask("POST", "/rules/", Some(&rule(&name))).await?;
            latencies.push(asked.elapsed().as_secs_f64());
            tokio::time::sleep(Duration::from_millis(5)).await;
            if n % 8 == 0 && LARGE.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok::<_, anyhow::Error>(latencies)
    });
    LARGE.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (begun, used) = (Instant::now(), contender.cpu());
    let made = contender.caller.ask("POST", "/rules/", Some(&rule(&name))).await?;
    let uid = serde_json::from_slice::<Vec<String>>(&made.text)?
        .pop()
        .context("no id")?;
    loop {
        let told = contender.caller.ask("GET", &format!("/rules/{uid}"), None).await?;
        let told = serde_json::from_slice::<Value>(&told.text)?;
        if told["locks_replicating_cnt"].as_u64() == Some(n_files) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = contender.cpu() - used;
    LARGE.store(true, Ordering::Relaxed);
    Ok(Round {
        rate: n_files as f64 / seconds,
        cpu_us: cpu / n_files as f64 * 1e6,
        latencies: beside.await??,
        ..Round::default()
    })
}

/// The large rule is done.
static LARGE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
