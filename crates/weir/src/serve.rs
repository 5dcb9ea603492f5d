//! `weir serve …`: one service alone.

use crate::cli::ServeCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the service until SIGINT or SIGTERM.
pub(crate) fn run(_command: ServeCommand, _output: &Output) -> Result<Exit, Failure> {
    Err(Failure::could_not_run(anyhow::anyhow!("this build cannot serve yet")))
}
