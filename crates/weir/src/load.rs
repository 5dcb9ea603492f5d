//! `weir load …`: load plans of a catalogue. Rucio 41.5 has none.

mod add;
mod show;
mod stop;

use anyhow::Context;

use crate::cli::LoadCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs one of the commands.
pub(crate) fn run(command: LoadCommand, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    runtime.block_on(async {
        match command {
            LoadCommand::Add(arguments) => add::run(&arguments, output).await,
            LoadCommand::List(arguments) => show::list(&arguments, output).await,
            LoadCommand::Show(arguments) => show::run(&arguments, output).await,
            LoadCommand::Stop(arguments) => stop::run(&arguments, output).await,
        }
    })
}
