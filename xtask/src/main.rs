//! Project checks that a person would otherwise make twice.
//!
//! `cargo run -q -p xtask -- tidy` checks the shape of the house: see [`tidy`]. Settings live in `xtask/tidy.toml`.

mod tidy;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let outcome = match command.as_str() {
        "tidy" => tidy::run(&root()),
        _ => Err(anyhow::anyhow!("usage: xtask tidy")),
    };
    let mut stderr = std::io::stderr().lock();
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                let _gone = writeln!(stderr, "{finding}");
            }
            let _gone = writeln!(stderr, "tidy: {} to put right", findings.len());
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
