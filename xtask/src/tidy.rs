//! `xtask tidy`: the shape of the house, checked.
//!
//! | rule | holds that |
//! |---|---|
//! | [`rooms`] | a crate uses only rooms above it; pure crates have no runtime, socket, database or entropy below them; every dependency is used, those of the workspace too; every crate takes the workspace's lints and opens with `//!` |
//! | [`text`] | source files divide before they get long; no word that does not belong here is in any tracked file |
//! | [`pages`] | pages have at most 2,500 words, cells of their tables at most 40; the contents name every page |
//! | [`prose`] | sentences of doc comments name their subject and stay below 31 words |
//! | [`fixme`] | a test that asserts less than it should has a row in `docs/known-shortfalls.md` |
//! | [`cycles`] | the modules of a crate use each other in one direction |
//! | [`size`] | a crate divides before it gets large |
//! | [`peers`] | bytes that come from a peer become text in one place |
//! | [`mod@links`] | relative links and anchors in Markdown resolve |
//!
//! Each rule is a plain function from text to findings, tested beside its code; this file only gathers.

mod cycles;
mod fixme;
mod links;
mod pages;
mod peers;
mod prose;
mod rooms;
mod size;
mod text;

pub(crate) use links::{is_markdown, links, resolve};
pub(crate) use pages::CONTENTS;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// `xtask/tidy.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The rooms in the order in which data meets them: each may use those before it.
    rooms: Vec<String>,
    /// The rooms that decide and never act.
    pure: Vec<String>,
    /// Packages that no pure room may have in its dependency tree.
    impure_packages: Vec<String>,
    /// A source file of more lines than this divides.
    lines_max: usize,
    /// Crates with import cycles among their modules: how many files are in them.
    cycles: BTreeMap<String, usize>,
    /// A crate of more lines without tests than this divides.
    crate_lines_max: usize,
    /// Larger crates, with the lines that they may have.
    large: BTreeMap<String, usize>,
    /// Files that make text of bytes without `weir_auth::peer_text`, with the reason.
    peer_bytes: BTreeMap<String, String>,
    /// Unclear sentences that a crate may have for 1,000 lines of doc comments.
    unclear_per_thousand: usize,
    /// Words that a sentence of a doc comment may have.
    words_max: usize,
    /// Words of a page of the handbook.
    page_words_max: usize,
    /// Words of a cell of a table.
    cell_words_max: usize,
    /// Words that do not belong in tracked files.
    word: Vec<text::Word>,
}

/// Something to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// A finding about a whole file (`line` 0) or one of its lines (from 1).
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.path, self.message),
            line => write!(formatter, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Checks the whole repository; the findings are sorted by file and line.
pub(crate) fn run(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let settings = std::fs::read_to_string(root.join("xtask/tidy.toml")).context("could not read xtask/tidy.toml")?;
    let settings: Settings = toml::from_str(&settings).context("could not parse xtask/tidy.toml")?;
    let files = tracked_files(root)?;
    let mut findings = Vec::new();
    rooms::check(root, &settings, &files, &mut findings)?;
    for (path, content) in &files {
        text::check_length(path, content, settings.lines_max, &mut findings);
        text::check_words(path, content, &settings.word, &mut findings);
    }
    cycles::check(&files, &settings.cycles, &mut findings);
    size::check(&files, settings.crate_lines_max, &settings.large, &mut findings);
    prose::check(
        &files,
        (settings.unclear_per_thousand, settings.words_max),
        &mut findings,
    );
    peers::check(&files, &settings.peer_bytes, &mut findings);
    fixme::check(&files, &mut findings);
    links::check(&files, &mut findings);
    pages::check(
        &files,
        (settings.page_words_max, settings.cell_words_max),
        &mut findings,
    );
    findings.sort();
    Ok(findings)
}

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
