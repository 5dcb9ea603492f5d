//! `weir catalog …`: looks after a catalogue.

mod backup;
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
        CatalogCommand::Status(arguments) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("could not start")?;
            runtime.block_on(status::run(&arguments, output))
        }
    }
}
