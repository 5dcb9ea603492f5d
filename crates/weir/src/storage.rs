//! `weir storage …`: files at a storage endpoint, for people. Speaks WebDAV, so that it works with dCache, StoRM, EOS and XRootD
//! too.

mod checksum;
mod door;
mod du;
mod get;
mod ls;
mod progress;
mod put;
mod rm;

use anyhow::Context;

use crate::cli::StorageCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::Signals;

/// Runs one of the commands. A signal ends it; a partial file is removed or was never visible.
pub(crate) fn run(command: StorageCommand, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            match command {
                StorageCommand::Ls(arguments) => ls::run(&arguments, output).await,
                StorageCommand::Get(arguments) => get::run(&arguments, output).await,
                StorageCommand::Put(arguments) => put::run(&arguments, output).await,
                StorageCommand::Rm(arguments) => rm::run(&arguments, output).await,
                StorageCommand::Checksum(arguments) => checksum::run(&arguments, output).await,
                StorageCommand::Du(arguments) => du::run(&arguments, output).await,
            }
        };
        tokio::select! {
            outcome = work => outcome,
            signal = signals.next() => Err(Failure::interrupted(anyhow::anyhow!("{signal}"))),
        }
    })
}
