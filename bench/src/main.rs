//! Measures Weir's storage endpoint beside nginx and XRootD, in one run on one machine.
//!
//! Machines are noisy: a figure means little, the median of paired ratios does. Every row therefore runs all contenders in turn,
//! round by round. Data live in memory (`/dev/shm`), so that the endpoints are measured and not the disk; nobody calls fsync.
//! CPU is that of the serving processes alone, user and system, the client's left out; of a copy, both ends together.
//!
//! `cargo run --release -p weir-bench -- [--rounds N] [--only TEXT]`
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

mod contender;
mod lab;
mod limits;
mod rows;
mod stats;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut rounds = 5;
    let mut only = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value()?.parse().context("--rounds takes a number")?,
            "--only" => only = value()?,
            other => anyhow::bail!("unknown argument {other}; there are --rounds N and --only TEXT"),
        }
    }
    println!("{}", limits::describe()?);
    let lab = lab::Lab::up()?;
    println!(
        "{:<22} {:<7} {:>9} {:>9} {:>9} {:>8}   ratio to Weir's: Weir / peer, median of {rounds} rounds",
        "row", "who", "MB/s", "CPU s/GB", "peak MB", "Weir ÷"
    );
    for row in rows::all().into_iter().filter(|row| row.name.contains(&only)) {
        row.run(&lab, rounds)?;
    }
    Ok(())
}
