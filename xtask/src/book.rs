//! `xtask book DIR`: builds the handbook as a site in `DIR/site`, by mdBook, and checks every link of it.
//!
//! The site has the pages of the root and of `docs/`, and the files that these link to. Its order is that of `docs/README.md`.
//! Its search works without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, ensure};

use crate::tidy::{CONTENTS, is_markdown, links, read_command, resolve, tracked_files};

const CONFIGURATION: &str = r#"[book]
title = "Weir"
language = "en"
src = "source"

[build]
build-dir = "site"
use-default-preprocessors = false

[output.html]
no-section-label = true

[output.html.print]
enable = false
"#;

/// Builds the site; the findings are links that lead nowhere.
pub(crate) fn run(root: &Path, folder: &str) -> anyhow::Result<Vec<String>> {
    ensure!(!folder.is_empty(), "usage: xtask book DIR, for example target/book");
    // A relative one counts from where the caller is, as mdBook runs elsewhere.
    let folder = std::path::absolute(folder)?;
    let files = tracked_files(root)?;
    let mut source = pages(&files);
    source.extend(linked(&source, &files));
    let summary = summary(&files)?;
    for part in ["source", "site"] {
        match fs::remove_dir_all(folder.join(part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    for path in &source {
        copy(&root.join(path), &folder.join("source").join(path))?;
    }
    fs::write(folder.join("source/SUMMARY.md"), summary)?;
    fs::write(folder.join("book.toml"), CONFIGURATION)?;
    read_command(&folder, "mdbook", &["build"])?;
    dead_links(&folder.join("site"))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let parent = to.parent().context("a file has a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("could not make {}", parent.display()))?;
    fs::copy(from, to).with_context(|| format!("could not copy {}", from.display()))?;
    Ok(())
}

/// The pages of the root and of `docs/`.
fn pages(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let is_page = |path: &&String| is_markdown(path) && (path.starts_with("docs/") || !path.contains('/'));
    files.keys().filter(is_page).cloned().collect()
}

/// The files that pages link to, other than pages.
fn linked(pages: &BTreeSet<String>, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for page in pages {
        for (_, target) in links(&files[page]) {
            let file = target.split('#').next().unwrap_or_default();
            let to = resolve(page, file).filter(|to| files.contains_key(to) && !pages.contains(to));
            found.extend(to);
        }
    }
    found
}

/// The table of contents as mdBook reads it: a part for each heading of the contents page, an item for each link.
fn summary(files: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let contents = files.get(CONTENTS).with_context(|| format!("{CONTENTS} is missing"))?;
    let mut lines = vec![
        "# Summary".to_owned(),
        String::new(),
        "[Weir](README.md)".to_owned(),
        format!("[Handbook]({CONTENTS})"),
    ];
    let mut listed = BTreeSet::from(["README.md".to_owned(), CONTENTS.to_owned()]);
    for line in contents.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            lines.extend([String::new(), format!("# {heading}"), String::new()]);
        }
        for (_, target) in links(line) {
            let page = resolve(CONTENTS, &target).context("a link of the contents leads out of the repository")?;
            if listed.insert(page.clone()) {
                lines.push(format!("- [{}]({page})", title(files, &page)?));
            }
        }
    }
    for page in files.keys().filter(|path| path.starts_with("docs/decisions/")) {
        if listed.insert(page.clone()) {
            lines.push(format!("- [{}]({page})", title(files, page)?));
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// The first heading of a page, without marks of code.
fn title(files: &BTreeMap<String, String>, page: &str) -> anyhow::Result<String> {
    let content = files.get(page).with_context(|| format!("{page} is missing"))?;
    let heading = content.lines().find_map(|line| line.strip_prefix("# "));
    let heading = heading.with_context(|| format!("{page} has no heading"))?;
    Ok(heading.replace(['[', ']'], ""))
}

/// Links and sources of the built pages that lead to no file, or to no part of a page.
fn dead_links(site: &Path) -> anyhow::Result<Vec<String>> {
    let mut built = BTreeMap::new();
    read_pages(site, site, &mut built)?;
    ensure!(built.len() > 2, "mdBook wrote no pages into {}", site.display());
    let mut dead = Vec::new();
    for (page, html) in &built {
        for target in attributes(html, &["href", "src"]) {
            if leads_away(target) {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() {
                Some(page.clone())
            } else {
                resolve(page, file)
            };
            let is_alive = to.is_some_and(|to| match built.get(&to) {
                Some(html) => anchor.is_empty() || attributes(html, &["id"]).any(|id| id == anchor),
                None => site.join(&to).exists(),
            });
            if !is_alive {
                dead.push(format!("{page}: the link `{target}` leads nowhere"));
            }
        }
    }
    dead.sort();
    dead.dedup();
    Ok(dead)
}

fn leads_away(target: &str) -> bool {
    ["https:", "http:", "mailto:", "data:", "javascript:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// Reads every page below a folder, by its path from the site's root.
fn read_pages(site: &Path, folder: &Path, built: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            read_pages(site, &path, built)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let name = path.strip_prefix(site)?.to_string_lossy().into_owned();
            built.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The values of some attributes, in double quotes as mdBook writes them.
fn attributes<'a>(html: &'a str, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    names.iter().flat_map(move |name| {
        let start = format!(" {name}=\"");
        html.split(start.as_str())
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn files(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn the_summary_follows_the_contents() {
        // Wrong: a page twice, a missing decision, or a title that is a link.
        let files = files(&[
            ("README.md", "# Weir\n"),
            (
                CONTENTS,
                "# Handbook\n\n## Run\n\n[One](a.md), [again](a.md), [Two](../B.md)\n",
            ),
            ("docs/a.md", "# `weir` [x]\n[file](../deploy/a.toml#top)\n"),
            ("B.md", "# B\n"),
            ("deploy/a.toml", ""),
            ("deploy/b.toml", ""),
            ("docs/decisions/001.md", "# 001: a\n"),
        ]);
        assert_eq!(
            summary(&files).unwrap(),
            "# Summary\n\n[Weir](README.md)\n[Handbook](docs/README.md)\n\n# Run\n\n- [`weir` x](docs/a.md)\n- [B](B.md)\n\
             - [001: a](docs/decisions/001.md)\n"
        );
        assert_eq!(
            linked(&pages(&files), &files),
            BTreeSet::from(["deploy/a.toml".to_owned()])
        );
    }

    #[test]
    fn dead_links_are_found() {
        // Wrong: a link to a part that does not exist passes, or a file beside the pages is dead.
        let site = std::env::temp_dir().join(format!("weir-xtask-book-{}", std::process::id()));
        fs::create_dir_all(site.join("docs")).unwrap();
        let page = r##"<a href="docs/a.html#b">1</a> <a href="docs/a.html#c">2</a> <a href="https://x/">3</a>
            <img src="x.png"> <a href="#top">4</a> <script src="y.js"></script>"##;
        fs::write(site.join("index.html"), page).unwrap();
        fs::write(
            site.join("docs/a.html"),
            r#"<h2 id="b"></h2> <a href="../index.html">5</a>"#,
        )
        .unwrap();
        fs::write(site.join("docs/b.html"), "").unwrap();
        fs::write(site.join("y.js"), "").unwrap();
        let dead = dead_links(&site).unwrap();
        fs::remove_dir_all(&site).unwrap();
        assert_eq!(
            dead,
            [
                "index.html: the link `#top` leads nowhere",
                "index.html: the link `docs/a.html#c` leads nowhere",
                "index.html: the link `x.png` leads nowhere"
            ]
        );
    }
}
