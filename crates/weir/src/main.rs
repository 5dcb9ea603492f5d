//! The `weir` binary: the command line of all rooms.
//!
//! Here live the command line, the wiring and the terminal output, and no logic worth testing apart from that. Each
//! command parses its arguments, calls a room, and prints the result, for people or (with `--json`) for programs.
//!
//! | module | content |
//! |---|---|
//! | [`cli`] | the command line as data |
//! | [`output`] | the `--json` envelope and plain lines |
//! | [`failure`] | errors, their remedies and exit codes |
//! | [`logging`] | log lines, all of them redacted |
//! | [`challenge`], [`fault`], [`report`] | `weir challenge …`, `weir fault …`, `weir report` |
//! | [`grid`], [`serve`] | `weir grid …`, `weir serve …` |
//! | [`sim`], [`incident`] | `weir sim …`, `weir incident …` |
//! | [`storage`], [`transfer`] | `weir storage …`, `weir transfer …` |
//! | [`rule`], [`load`], [`catalog`] | `weir rule …`, `weir load …`, `weir catalog …` |
//! | [`token`], [`trust`] | credentials and trusted authorities of these commands |
//! | [`probe`] | `weir probe` |
//! | [`authority`] | `weir authority …` |
//! | [`completions`] | `weir completions` |

mod authority;
mod catalog;
mod challenge;
mod cli;
mod completions;
mod failure;
mod fault;
mod grid;
mod incident;
mod load;
mod logging;
mod output;
mod probe;
mod report;
mod rule;
mod serve;
mod shell;
mod signals;
mod sim;
mod storage;
mod token;
mod transfer;
mod trust;
mod url;
mod usage;
mod why;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::{Cli, Command};
use crate::failure::{Exit, Failure};
use crate::output::Output;

fn main() -> ExitCode {
    let matches = match usage::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage::tell(error).into(),
    };
    let name = cli::command_name(&matches);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return usage::tell(error).into(),
    };
    let output = Output::new(name, cli.global.json, cli.global.no_color);
    let exit = match run(cli, &output) {
        Ok(exit) => exit,
        Err(failure) => {
            output.failure(&failure);
            failure.exit()
        }
    };
    exit.into()
}

fn run(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    logging::start(&cli.global, cli.command.default_log_level())?;
    match cli.command {
        Command::Challenge(command) => challenge::run(command, output),
        Command::Fault(command) => fault::run(command, output),
        Command::Grid(command) => grid::run(command, output),
        Command::Serve(command) => serve::run(command, output),
        Command::Sim(command) => sim::run(command, output),
        Command::Incident(command) => incident::run(command, output),
        Command::Storage(command) => storage::run(command, output),
        Command::Transfer(command) => transfer::run(command, output),
        Command::Rule(command) => rule::run(command, output),
        Command::Load(command) => load::run(command, output),
        Command::Catalog(command) => catalog::run(command, output),
        Command::Probe(arguments) => probe::run(&arguments, output),
        Command::Authority(command) => authority::run(command, output),
        Command::Report(arguments) => report::run(&arguments, output),
        Command::Why(arguments) => why::run(&arguments, output),
        Command::Completions(arguments) => completions::run(&arguments, output),
    }
}
