//! Deletions: from the end of the rules to the last file that is gone, at twenty RSEs of a grid, with one more RSE that never answers.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_tests::{RunningGrid, silent};

use super::{Found, Round, caller::Caller, first_byte::session};
use crate::service::cpu;

const RSES: usize = 20;

/// Files at each RSE.
const FILES: f64 = 2_500.0;

/// Files of one call.
const BULK: usize = 500;

/// Names of one URL.
const NAMES: usize = 60;

const PATIENCE: Duration = Duration::from_secs(300);

pub(super) const NAME: &str = "deletions chosen and carried out, 20 RSEs of a grid and one that does not answer";

pub(super) async fn row(rounds: usize, scaled: &impl Fn(f64) -> u64) -> Result<Found> {
    let files = usize::try_from(scaled(FILES))?;
    Found::on_grids((NAME, "files"), rounds, &grid_file(), async |grid| {
        round(grid, files).await
    })
    .await
}

fn grid_file() -> String {
    let rses = (0..RSES).map(|at| format!("[[rse]]\nname = \"{}\"\n", name(at)));
    format!(
        "name = \"twenty\"\nvo = \"test\"\n[storage]\ndurability = \"cache\"\n{}",
        rses.collect::<String>()
    )
}

fn name(at: usize) -> String {
    format!("R{at:02}")
}

async fn round(grid: &RunningGrid, n_files: usize) -> Result<Round> {
    let caller = session(grid).await?;
    add_dead(&caller).await?;
    let names: Vec<String> = (0..n_files).map(|at| format!("f{at:06}")).collect();
    let paths = paths(grid, &caller, &names).await?;
    let mut rses: Vec<String> = (0..RSES).map(name).collect();
    let mut left = Vec::new();
    for rse in &rses {
        let area = grid.area(rse);
        for path in &paths {
            let path = area.join(path);
            std::fs::create_dir_all(path.parent().context("a folder")?)?;
            std::fs::write(path, "x")?;
        }
        left.push(Left { area, next: 0 });
    }
    rses.push("DEAD".to_owned());
    let rules = register(&caller, &rses, &names).await?;
    let (begun, used) = (Instant::now(), cpu(grid.pid())?);
    for rule in &rules {
        let end = json!({ "options": { "lifetime": 0 } });
        caller.ask("PUT", &format!("/rules/{rule}"), Some(&end)).await?;
    }
    let mut gone = Vec::new();
    while !left.is_empty() {
        left.retain_mut(|left| {
            let is_left = left.look(&paths);
            if !is_left {
                gone.push(begun.elapsed().as_secs_f64());
            }
            is_left
        });
        ensure!(begun.elapsed() < PATIENCE, "{} RSEs still have files", left.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let n = (n_files * RSES) as f64;
    Ok(Round {
        rate: n / begun.elapsed().as_secs_f64(),
        cpu_us: (cpu(grid.pid())? - used) / n * 1e6,
        latencies: gone,
        ..Round::default()
    })
}

/// The files of an RSE that have not been seen to be gone.
struct Left {
    area: PathBuf,
    /// The first file that was there at the last look.
    next: usize,
}

impl Left {
    /// Whether a file is left. Each is looked at until it is gone, one after the other, so that looking costs little.
    fn look(&mut self, paths: &[String]) -> bool {
        while paths.get(self.next).is_some_and(|path| !self.area.join(path).exists()) {
            self.next += 1;
        }
        self.next < paths.len()
    }
}

/// An RSE whose host takes connections and says nothing.
async fn add_dead(caller: &Caller) -> Result<()> {
    let address = silent();
    let all = json!({ "read": 1, "write": 1, "delete": 1 });
    let protocol = json!({
        "hostname": address.ip().to_string(), "port": address.port(), "prefix": "/", "impl": "rucio.rse.protocols.webdav.Default",
        "domains": { "lan": all, "wan": all },
    });
    caller
        .ask("POST", "/rses/DEAD", Some(&json!({ "deterministic": true })))
        .await?;
    caller
        .ask("POST", "/rses/DEAD/protocols/https", Some(&protocol))
        .await
        .map(drop)
}

/// The paths of files below the areas of all RSEs.
async fn paths(grid: &RunningGrid, caller: &Caller, names: &[String]) -> Result<Vec<String>> {
    let base = grid.rse_url(&name(0)).replacen("https:", "davs:", 1);
    let mut paths = Vec::new();
    for names in names.chunks(NAMES) {
        let lfns: Vec<String> = names.iter().map(|name| format!("lfn=test:{name}")).collect();
        let path = format!("/rses/{}/lfns2pfns?{}", name(0), lfns.join("&"));
        let pfns: Value = serde_json::from_slice(&caller.ask("GET", &path, None).await?.text)?;
        for name in names {
            let pfn = pfns[format!("test:{name}")].as_str().context("a path")?;
            let path = pfn.replacen("https:", "davs:", 1);
            let path = path.strip_prefix(&base).context("a path below the RSE")?;
            paths.push(path.trim_start_matches('/').to_owned());
        }
    }
    Ok(paths)
}

/// Registers the files at every RSE, and protects them with a rule there; gives the rules.
async fn register(caller: &Caller, rses: &[String], names: &[String]) -> Result<Vec<String>> {
    let file = |name: &String| json!({ "scope": "test", "name": name, "bytes": 1 });
    for rse in rses {
        for names in names.chunks(BULK) {
            let files: Vec<Value> = names.iter().map(file).collect();
            let content = json!({ "rse": rse, "files": files });
            caller.ask("POST", "/replicas", Some(&content)).await?;
        }
    }
    caller
        .ask("POST", "/dids/test/all", Some(&json!({ "type": "DATASET" })))
        .await?;
    for names in names.chunks(BULK) {
        let dids: Vec<Value> = names.iter().map(file).collect();
        caller
            .ask("POST", "/dids/test/all/dids", Some(&json!({ "dids": dids })))
            .await?;
    }
    let mut rules = Vec::new();
    for rse in rses {
        let rule = json!({
            "dids": [{ "scope": "test", "name": "all" }], "copies": 1, "rse_expression": rse, "account": "root", "purge_replicas": true,
        });
        let made = caller.ask("POST", "/rules/", Some(&rule)).await?;
        rules.extend(serde_json::from_slice::<Vec<String>>(&made.text)?);
    }
    // A file that a rule never locked is not deleted when the rule ends.
    for rule in &rules {
        locked(caller, rule, names.len()).await?;
    }
    Ok(rules)
}

/// Waits until a rule holds so many files.
async fn locked(caller: &Caller, rule: &str, n_files: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let told: Value = serde_json::from_slice(&caller.ask("GET", &format!("/rules/{rule}"), None).await?.text)?;
        if told["locks_ok_cnt"] == n_files {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "the rule {rule} holds {} files of {n_files}",
            told["locks_ok_cnt"]
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
