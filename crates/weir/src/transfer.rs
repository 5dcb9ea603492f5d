//! `weir transfer …`: the transfer service's people's side. Speaks FTS3's REST, so most of it works with any FTS3 too.

mod cancel;
pub(crate) mod causes;
mod door;
mod force;
mod limits;
mod list;
mod look;
mod show;
mod submit;
mod watch;
mod why;

use anyhow::Context;

pub(crate) use door::TransferClient;

use crate::cli::TransferCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs one of the commands.
pub(crate) fn run(command: TransferCommand, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    runtime.block_on(async {
        match command {
            TransferCommand::Submit(arguments) => submit::run(&arguments, output).await,
            TransferCommand::Status(arguments) => look::run(&arguments, output).await,
            TransferCommand::Watch(arguments) => watch::run(&arguments, output).await,
            TransferCommand::Cancel(arguments) => cancel::run(&arguments, output).await,
            TransferCommand::List(arguments) => list::run(&arguments, output).await,
            TransferCommand::Why(arguments) => why::run(&arguments, output).await,
            TransferCommand::Limits(arguments) => limits::run(&arguments, output).await,
            TransferCommand::Force(arguments) => force::run(&arguments, output).await,
            TransferCommand::Drain(arguments) => limits::drain(&arguments, output).await,
        }
    })
}
