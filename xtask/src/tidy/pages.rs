//! Rule `pages`: pages of the handbook are short and can be found, and the cells of their tables are short.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, links};

/// The page that orders all others by task.
pub(crate) const CONTENTS: &str = "docs/README.md";

/// Holds that a page has at most `page_words` words and a cell of a table at most `cell_words`.
///
/// Pages are the Markdown files of the root and of `docs/`. The contents link to each of them but the README.
pub(super) fn check(
    files: &BTreeMap<String, String>,
    (page_words, cell_words): (usize, usize),
    findings: &mut Vec<Finding>,
) {
    let contents = files.get(CONTENTS).map(String::as_str).unwrap_or_default();
    let listed: BTreeSet<String> = links::links(contents)
        .iter()
        .filter_map(|(_, target)| links::resolve(CONTENTS, target))
        .collect();
    for (path, content) in files.iter().filter(|(path, _)| is_page(path)) {
        if !listed.contains(path) && ![CONTENTS, "README.md"].contains(&path.as_str()) {
            findings.push(Finding::new(path, 0, format!("no link in {CONTENTS} leads to it")));
        }
        let n_words = content.split_whitespace().count();
        if n_words > page_words {
            findings.push(Finding::new(
                path,
                0,
                format!("{n_words} words (at most {page_words}): divide the page by task"),
            ));
        }
        let rows = links::prose(content)
            .into_iter()
            .filter(|(_, line)| line.starts_with('|'));
        for (line, row) in rows {
            let longest = cells(row)
                .map(|cell| cell.split_whitespace().count())
                .max()
                .unwrap_or_default();
            if longest > cell_words {
                let message = format!("a cell of {longest} words (at most {cell_words}): say the rest below the table");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

fn is_page(path: &str) -> bool {
    let in_handbook = path.strip_prefix("docs/").unwrap_or(path);
    !in_handbook.contains('/') && links::is_markdown(path)
}

/// The cells of a row; `\|` is part of a cell.
fn cells(row: &str) -> impl Iterator<Item = String> {
    let row = row.replace("\\|", "/");
    row.split('|').map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pages_and_cells_are_found() {
        // Wrong: a page or a cell that grows is not named, a cell of ten words is, or a page cannot be found.
        let ten = "word ".repeat(10);
        let eleven = "word ".repeat(11);
        let mut files = BTreeMap::from([
            (
                "README.md".to_owned(),
                format!("| a | b |\n|---|---|\n| {ten} | {eleven} |\n"),
            ),
            (CONTENTS.to_owned(), "[a](a.md), [c](c.md)".to_owned()),
            ("docs/a.md".to_owned(), "word ".repeat(31)),
            (
                "docs/b.md".to_owned(),
                format!("```text\n| {eleven} |\n```\n| {ten} \\| |\n"),
            ),
            ("docs/decisions/c.md".to_owned(), "word ".repeat(31)),
            ("crates/d.rs".to_owned(), "word ".repeat(31)),
        ]);
        let mut findings = Vec::new();
        check(&files, (30, 11), &mut findings);
        let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "docs/a.md: 31 words (at most 30): divide the page by task",
                "docs/b.md: no link in docs/README.md leads to it"
            ]
        );
        files.insert(CONTENTS.to_owned(), "[a](a.md), [b](b.md)".to_owned());
        findings.clear();
        check(&files, (40, 10), &mut findings);
        let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "README.md:3: a cell of 11 words (at most 10): say the rest below the table",
                "docs/b.md:4: a cell of 11 words (at most 10): say the rest below the table"
            ]
        );
    }
}
