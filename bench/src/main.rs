//! Measures Weir's storage endpoint beside nginx and XRootD, in one run on one machine.
//!
//! Machines are noisy: a figure means little, the median of paired ratios does. Every row therefore runs all contenders
//! in turn, round by round. Data live in memory (`/dev/shm`), so that the endpoints are measured and not the disk, and
//! no process calls fsync. Rows about disks use the folder of `--disk` (by default the current one). CPU is that of the
//! serving processes alone, user and system, the client's left out; of a copy, both ends together.
//!
//! `cargo run --release -p weir-bench -- [--rounds N] [--only TEXT] [--json FILE] [--disk DIR] [--xrootd-root DIR]
//! [--show-config]`, and for the transfer service `... -- service [--only TEXT] [--scale F] [--json FILE]`, and for the
//! catalogue `... -- catalog [--rounds N] [--only TEXT] [--scale F] [--json FILE]`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

mod catalog;
mod ciphers;
mod contender;
mod lab;
mod limits;
mod load;
mod outcome;
mod rows;
mod service;
mod stats;
mod warm;

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let mut rounds = 5;
    let mut only = String::new();
    let (mut file, mut shows_configuration) = (None, false);
    let mut disk = std::env::current_dir()?;
    let mut xrootd_root = None;
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.peek().map(String::as_str) {
        Some("service") => return service::run(arguments.skip(1)),
        Some("catalog") => return catalog::run(arguments.skip(1)),
        Some("load") => return load::main(),
        Some("stub") => return service::stub(arguments.skip(1)),
        _ => {}
    }
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value()?.parse().context("--rounds takes a number")?,
            "--only" => only = value()?,
            "--json" => file = Some(PathBuf::from(value()?)),
            "--show-config" => shows_configuration = true,
            "--disk" => disk = PathBuf::from(value()?),
            "--xrootd-root" => xrootd_root = Some(PathBuf::from(value()?)),
            other => {
                anyhow::bail!(
                    "unknown argument {other}; there are --rounds N, --only TEXT, --json FILE, --disk DIR, \
                     --xrootd-root DIR and --show-config"
                )
            }
        }
    }
    weir_tests::find_weir().map_err(anyhow::Error::msg)?;
    let disk = tempfile::Builder::new().prefix("weir-bench-").tempdir_in(disk)?;
    let limits = limits::Limits::measure(disk.path())?;
    println!("{limits}");
    let lab = lab::Lab::up(limits, disk.path(), xrootd_root.as_deref())?;
    let mut versions = json!({
        "weir": version(weir_tests::weir_binary().as_os_str(), "--version"),
        "nginx": version("nginx", "-v"),
        "xrootd": version("xrootd", "-v"),
    });
    if let Some(root) = xrootd_root {
        let seen = Vec::new();
        versions["xrootd6"] = weir_tests::Elsewhere { root, seen }.version()?.into();
    }
    println!("versions: {versions}");
    if shows_configuration {
        return lab.show_configurations();
    }
    // Anew in each run; printed, so that it can be looked at.
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_nanos() as u64;
    println!("order of the contenders: drawn in each round, seed {seed}");
    let mut order = weir_tests::Draw::new(seed);
    println!("{}", outcome::head(rounds));
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    for row in rows::all(&lab).into_iter().filter(|row| row.name.contains(&only)) {
        match row.run(rounds, &mut order) {
            Ok(outcome) => {
                println!("{outcome}");
                results.push(outcome.to_json());
            }
            // The others are worth measuring all the same.
            Err(error) => {
                println!("{:<22} failed: {error:#}", row.name);
                failed.push(row.name);
            }
        }
    }
    if let Some(file) = file {
        let document = json!({
            "schema": "weir-bench/2",
            "versions": versions,
            "machine": limits.to_json(),
            "rounds": rounds,
            "rows": results,
            "failed": failed,
        });
        let text = serde_json::to_string_pretty(&document)? + "\n";
        std::fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
    }
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The version that a program reports, on whichever output; null if it reports none.
fn version(program: impl AsRef<std::ffi::OsStr>, flag: &str) -> Value {
    let Ok(said) = Command::new(program).arg(flag).output() else {
        return Value::Null;
    };
    let texts = [said.stdout, said.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    texts
        .into_iter()
        .find(|text| !text.is_empty())
        .map_or(Value::Null, Value::from)
}
