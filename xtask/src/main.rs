//! Project checks that a person would otherwise make twice.
//!
//! `cargo run -q -p xtask -- tidy` checks the shape of the house: see [`tidy`]. Settings live in `xtask/tidy.toml`.
//! `cargo run -q -p xtask -- commits RANGE` names commits with a long subject or without a body: see [`commits`].
//! `cargo run -q -p xtask -- book DIR` builds the handbook as a site: see [`book`].

mod book;
mod commits;
mod tidy;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let [command, argument] = [1, 2].map(|place| std::env::args().nth(place).unwrap_or_default());
    let outcome: anyhow::Result<Vec<String>> = match command.as_str() {
        "tidy" => tidy::run(&root()).map(|found| found.iter().map(ToString::to_string).collect()),
        "book" => book::run(&root(), &argument),
        "commits" => commits::run(&root(), &argument),
        _ => Err(anyhow::anyhow!(
            "usage: xtask tidy | xtask commits RANGE | xtask book DIR"
        )),
    };
    let mut stderr = std::io::stderr().lock();
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                let _gone = writeln!(stderr, "{finding}");
            }
            let _gone = writeln!(stderr, "{command}: {} to put right", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            let _gone = writeln!(stderr, "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace, one above this crate.
fn root() -> std::path::PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
