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
mod files;
mod finding;
mod fixme;
mod links;
mod pages;
mod peers;
mod prose;
mod rooms;
mod settings;
mod size;
mod text;

pub(crate) use links::{is_markdown, links, resolve};
pub(crate) use pages::CONTENTS;

use std::path::Path;

use anyhow::Context;
pub(crate) use files::{read_command, tracked_files};
pub(crate) use finding::Finding;
use settings::Settings;

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
