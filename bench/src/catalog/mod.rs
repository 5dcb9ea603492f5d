//! Measures the catalogue: the real binary over HTTP, on SQLite and on PostgreSQL, beside a real Rucio server on PostgreSQL.
//!
//! `weir-bench catalog [--rounds N] [--only TEXT] [--scale F] [--json FILE]`; `--scale 0.1` is a quick look. All databases wait for the disk.
//! Clients are one program for all contenders, on connections that they keep. Rucio runs as its documentation recommends behind a server of
//! several threads: gunicorn with two workers of eight threads each, and logs errors only.

mod caller;
mod completions;
mod daemons;
mod deletions;
mod files;
mod first_byte;
mod lab;
mod large;
mod quiet;
mod round;
mod rows;
mod transfers;

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use round::Found;
pub(crate) use round::Round;

/// Runs the rows.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let (mut rounds, mut only, mut scale, mut file) = (3, String::new(), 1.0, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value()?.parse().context("--rounds takes a number")?,
            "--only" => only = value()?,
            "--scale" => scale = value()?.parse().context("--scale takes a number")?,
            "--json" => file = Some(PathBuf::from(value()?)),
            other => {
                anyhow::bail!("unknown argument {other}; there are --rounds N, --only TEXT, --scale F and --json FILE")
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_nanos() as u64;
    println!("order of the contenders: drawn in each round, seed {seed}");
    let found = runtime.block_on(rows::all((rounds, &only, scale), &mut weir_tests::Draw::new(seed)))?;
    let daemons = if daemons::NAME.contains(&only) {
        daemons::print(rounds, scale)?
    } else {
        Value::Null
    };
    if let Some(file) = file {
        let rows = found.iter().map(Found::json).collect::<Vec<_>>();
        let text = serde_json::to_string_pretty(
            &json!({ "rows": rows, "rucio_daemons_ms": daemons, "rounds": rounds, "scale": scale }),
        )? + "\n";
        std::fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
    }
    Ok(())
}
