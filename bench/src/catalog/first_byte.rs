//! The time from a rule to the file at its destination, on a grid that does nothing else.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_http::TrustRoots;
use weir_tests::{RunningGrid, TWO_SITES};

use super::{Found, Round, caller::Caller};

/// Files of a round, and their size: the whole of such a file is one packet, so that its first byte is its last.
const FILES: usize = 20;
const CONTENT: &str = "a file of the experiment\n";

/// How long one may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two rules, longer than the period with which anything looks for work.
pub(super) const PAUSE: Duration = Duration::from_millis(1_300);

const NAME: &str =
    "rule to the file at its destination, through catalogue, transfer service and two storages; latencies: of this";

pub(super) async fn row(rounds: usize) -> Result<Found> {
    Found::on_grids((NAME, "rules"), rounds, TWO_SITES, round).await
}

async fn round(grid: &RunningGrid) -> Result<Round> {
    let caller = session(grid).await?;
    let mut latencies = Vec::new();
    for n in 0..FILES {
        let name = format!("first{n:02}");
        seed(grid, &caller, (&name, CONTENT.as_bytes())).await?;
        tokio::time::sleep(PAUSE).await;
        let rule = json!({ "dids": [{ "scope": "test", "name": name }], "copies": 1, "rse_expression": "BETA", "account": "root" });
        let asked = Instant::now();
        caller.ask("POST", "/rules/", Some(&rule)).await?;
        while !is_there(&grid.area("BETA"), &name) {
            ensure!(asked.elapsed() < PATIENCE, "{name} did not come");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        latencies.push(asked.elapsed().as_secs_f64());
    }
    Ok(Round {
        rate: FILES as f64 / latencies.iter().sum::<f64>(),
        cpu_us: 0.0,
        latencies,
        ..Round::default()
    })
}

/// A session at the grid's catalogue.
pub(super) async fn session(grid: &RunningGrid) -> Result<Caller> {
    let about = |key: &str| grid.description["catalog"][key].as_str().context("a catalogue");
    let password = std::fs::read_to_string(about("password_file")?)?;
    let trust = TrustRoots::file(grid.description["ca"]["file"].as_str().context("an authority")?);
    Caller::login_with(about("url")?, (about("user")?, password.trim()), trust).await
}

/// Puts a file to where the paths of ALPHA lead, and registers it there.
pub(super) async fn seed(grid: &RunningGrid, caller: &Caller, (name, content): (&str, &[u8])) -> Result<()> {
    let path = format!("/rses/ALPHA/lfns2pfns?lfn=test:{name}");
    let paths = serde_json::from_slice::<Value>(&caller.ask("GET", &path, None).await?.text)?;
    let url = paths[format!("test:{name}")].as_str().context("a path")?;
    let url = url.replacen("davs:", "https:", 1);
    let path = grid.scratch().join("content");
    std::fs::write(&path, content)?;
    grid.curl(&["-T", &path.display().to_string(), &url])?.expect_ok()?;
    let file = json!({ "scope": "test", "name": name, "bytes": content.len() });
    let files = json!({ "rse": "ALPHA", "files": [file] });
    caller.ask("POST", "/replicas", Some(&files)).await.map(drop)
}

/// Whether the file lies somewhere below a folder, whole.
fn is_there(below: &Path, name: &str) -> bool {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>();
    paths.iter().any(|path| {
        let is_it = path.ends_with(name) && path.metadata().is_ok_and(|it| it.len() == CONTENT.len() as u64);
        is_it || path.is_dir() && is_there(path, name)
    })
}
