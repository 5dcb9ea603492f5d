//! Measures Weir's storage endpoint beside nginx and XRootD, in one run on one machine.
//!
//! Machines are noisy: a figure means little, the median of paired ratios does. Every row therefore runs all contenders in turn,
//! round by round. Data live in memory (`/dev/shm`), so that the endpoints are measured and not the disk; nobody calls fsync.
//! CPU is that of the serving processes alone, user and system, the client's left out; of a copy, both ends together.
//!
//! `cargo run --release -p weir-bench -- [--rounds N] [--only TEXT] [--json FILE]`, and for the transfer service
//! `... -- service [--only TEXT] [--scale F] [--json FILE]`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

mod contender;
mod lab;
mod limits;
mod outcome;
mod rows;
mod service;
mod stats;

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let mut rounds = 5;
    let mut only = String::new();
    let mut file = None;
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.peek().map(String::as_str) {
        Some("service") => return service::run(arguments.skip(1)),
        Some("stub") => return service::stub(arguments.skip(1)),
        _ => {}
    }
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value()?.parse().context("--rounds takes a number")?,
            "--only" => only = value()?,
            "--json" => file = Some(PathBuf::from(value()?)),
            other => anyhow::bail!("unknown argument {other}; there are --rounds N, --only TEXT and --json FILE"),
        }
    }
    let limits = limits::Limits::measure()?;
    println!("{limits}");
    let lab = lab::Lab::up()?;
    println!("{}", outcome::head(rounds));
    let mut results = Vec::new();
    for row in rows::all().into_iter().filter(|row| row.name.contains(&only)) {
        let outcome = row.run(&lab, rounds)?;
        println!("{outcome}");
        results.push(outcome.to_json());
    }
    if let Some(file) = file {
        let document = json!({
            "schema": "weir-bench/1",
            "versions": {
                "weir": version(weir_tests::weir_binary().as_os_str(), "--version"),
                "nginx": version("nginx", "-v"),
                "xrootd": version("xrootd", "-v"),
            },
            "machine": limits.to_json(),
            "rounds": rounds,
            "rows": results,
        });
        let text = serde_json::to_string_pretty(&document)? + "\n";
        std::fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
    }
    Ok(())
}

/// What a program says of itself, on whichever output; null if it says nothing.
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
