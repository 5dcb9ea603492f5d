//! `weir challenge …`: run, new, check and plan.

use crate::cli::ChallengeCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Does what the command asks.
pub(crate) fn run(_command: ChallengeCommand, _output: &Output) -> Result<Exit, Failure> {
    Err(Failure::could_not_run(anyhow::anyhow!(
        "this build cannot run challenges yet"
    )))
}
