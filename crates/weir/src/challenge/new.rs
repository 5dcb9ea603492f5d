//! `weir challenge new`: writes a commented challenge to start from.

use std::fs::File;
use std::io::{ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;
use weir_plan::TEMPLATE;

use crate::cli::ChallengeNewArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Serialize)]
struct Written<'a> {
    file: &'a std::path::Path,
}

/// Writes the file unless there is one.
pub(super) fn run(arguments: &ChallengeNewArguments, output: &Output) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let mut file = File::create_new(path).map_err(|error| {
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let failure =
            Failure::could_not_run(anyhow::Error::new(error).context(format!("could not write {}", path.display())));
        if exists {
            failure.with_remedy("choose another name: nothing is overwritten")
        } else {
            failure
        }
    })?;
    let written = file.write_all(TEMPLATE.as_bytes());
    written
        .with_context(|| format!("could not write {}", path.display()))
        .map_err(Failure::could_not_run)?;
    output.line(format!("wrote {}: two sites, ten seconds", path.display()));
    output.line(format!("  run it with `weir challenge run {}`", path.display()));
    output.done(&Written { file: path });
    Ok(Exit::Done)
}
