//! Measures the transfer service: the real binary over HTTPS, with stubs of storages in other processes.
//!
//! `weir-bench service [--only TEXT] [--scale F] [--json FILE]`; `--scale 0.01` is a quick look.

mod lab;
mod rows;
mod stub;
mod tape;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use lab::cpu;
pub(crate) use stub::serve;

/// Runs the rows.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let (mut only, mut scale, mut file) = (String::new(), 1.0, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--only" => only = value()?,
            "--scale" => scale = value()?.parse().context("--scale takes a number")?,
            "--json" => file = Some(PathBuf::from(value()?)),
            other => anyhow::bail!("unknown argument {other}; there are --only TEXT, --scale F and --json FILE"),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(rows::all(&only, scale))?;
    if let Some(file) = file {
        let text = serde_json::to_string_pretty(&found)? + "\n";
        std::fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
    }
    Ok(())
}

/// Serves as a stub: `stub ADDRESS CERTIFICATE KEY`.
pub(crate) fn stub(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut next = || arguments.next().context("stub takes ADDRESS CERTIFICATE KEY");
    let (address, certificate, key) = (next()?.parse()?, next()?, next()?);
    serve(address, Path::new(&certificate), Path::new(&key))
}
