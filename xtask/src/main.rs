//! Project checks that a person would otherwise make twice.
//!
//! `cargo run -q -p xtask -- tidy` checks the shape of the house: see [`tidy`]. Settings live in `xtask/tidy.toml`.
//! `cargo run -q -p xtask -- commits RANGE` names commits with a long subject or without a body: see [`commits`].

mod commits;
mod tidy;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let [command, range] = [1, 2].map(|place| std::env::args().nth(place).unwrap_or_default());
    let outcome: anyhow::Result<Vec<String>> = match command.as_str() {
        "tidy" => tidy::run(&root()).map(|found| found.iter().map(ToString::to_string).collect()),
        "commits" => commits::run(&root(), &range),
        _ => Err(anyhow::anyhow!("usage: xtask tidy | xtask commits RANGE")),
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
