//! `weir catalog …`: looks after a catalogue.

mod backup;
mod check;
pub(crate) mod door;
mod status;

use anyhow::Context;

use crate::cli::CatalogCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs one of the commands.
pub(crate) fn run(command: CatalogCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        CatalogCommand::Backup(arguments) => backup::backup(&arguments, output),
        CatalogCommand::Restore(arguments) => backup::restore(&arguments, output),
        CatalogCommand::Check(arguments) => runtime()?.block_on(check::run(&arguments, output)),
        CatalogCommand::Status(arguments) => runtime()?.block_on(status::run(&arguments, output)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("could not start")?)
}
