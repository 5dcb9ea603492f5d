//! `weir grid …`: a long-lived embedded grid.

use crate::cli::GridCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Does what the command asks.
pub(crate) fn run(_command: GridCommand, _output: &Output) -> Result<Exit, Failure> {
    Err(Failure::could_not_run(anyhow::anyhow!(
        "this build cannot run a grid yet"
    )))
}
