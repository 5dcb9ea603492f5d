//! `weir completions`: the completion script of a shell, on standard output.

use std::io::Write;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(serde::Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Prints the script.
#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(crate) fn run(arguments: &CompletionsArguments, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "weir", &mut script);
    if output.json() {
        let script = String::from_utf8_lossy(&script).into_owned();
        output.done(&Script {
            shell: arguments.shell.to_string(),
            script,
        });
    } else {
        let _gone = std::io::stdout().lock().write_all(&script);
    }
    Ok(Exit::Done)
}
