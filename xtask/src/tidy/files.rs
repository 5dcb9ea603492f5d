//! The files of the repository, and the output of programs that look at them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Every file git tracks or would track, by path relative to the root; binary files with empty content.
pub(crate) fn tracked_files(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let list = read_command(
        root,
        "git",
        &["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    )?;
    let paths: BTreeSet<&str> = list.split('\0').filter(|path| !path.is_empty()).collect();
    let mut files = BTreeMap::new();
    for path in paths {
        let whole = root.join(path);
        if whole.is_file() {
            let bytes = std::fs::read(&whole).with_context(|| format!("could not read {path}"))?;
            files.insert(path.to_string(), String::from_utf8(bytes).unwrap_or_default());
        }
    }
    Ok(files)
}

/// Standard output of a program that must succeed.
pub(crate) fn read_command(root: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("could not run {program}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} {} failed: {}",
        arguments.join(" "),
        complaint.trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{program} did not write UTF-8"))
}
