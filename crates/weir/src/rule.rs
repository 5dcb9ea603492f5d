//! `weir rule …`: a catalogue's people's side. Speaks Rucio's REST, so most of it works with a Rucio server too.

mod add;
mod list;
mod show;
mod watch;
mod why;

use anyhow::Context;

use crate::cli::RuleCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs one of the commands.
pub(crate) fn run(command: RuleCommand, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    runtime.block_on(async {
        match command {
            RuleCommand::Add(arguments) => add::run(&arguments, output).await,
            RuleCommand::List(arguments) => list::run(&arguments, output).await,
            RuleCommand::Show(arguments) => show::run(&arguments, output).await,
            RuleCommand::Watch(arguments) => watch::run(&arguments, output).await,
            RuleCommand::Why(arguments) => why::run(&arguments, output).await,
            RuleCommand::Delete(arguments) => add::delete(&arguments, output).await,
        }
    })
}
