//! A grid of three storages for faults on real services.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::run::{steadily, weir};

/// A challenge between the storages A, B and C, which the machine carries with ease; faults follow it.
pub const BROKEN: &str = r#"
name = "broken"
[grid]
name = "broken"
[grid.storage]
durability = "cache"
[grid.transfer]
retries = 1
retry_delay = "1 s"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "2 s"
hold = "42 s"
drain = "8 s"
[[workload]]
kind = "rates"
file_size_min = "500 kB"
file_size_max = "500 kB"
cycle = "300 ms"
rates = [
  { source = "A", destination = "C", rate = "24 Mb/s" },
  { source = "B", destination = "C", rate = "24 Mb/s" },
]
"#;

/// Runs a challenge with these options; gives its report.
///
/// # Errors
/// The run came to no verdict.
pub fn broken_report(challenge: &str, options: &[&str]) -> Result<Value> {
    let scratch = tempfile::tempdir()?;
    let (file, out) = (scratch.path().join("broken.toml"), scratch.path().join("runs"));
    fs::write(&file, challenge)?;
    let ran = steadily(|| {
        let _before = fs::remove_dir_all(&out);
        let command = [
            "challenge".as_ref(),
            "run".as_ref(),
            "--out".as_ref(),
            out.as_os_str(),
            file.as_os_str(),
        ];
        let options = options.iter().map(std::ffi::OsStr::new);
        weir(&command.into_iter().chain(options).collect::<Vec<_>>())
    })?;
    anyhow::ensure!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let folder = fs::read_dir(&out)?.next().context("there is no run folder")??.path();
    Ok(serde_json::from_slice(&fs::read(folder.join("report.json"))?)?)
}
