//! Known shortfalls: every `FIXME` of a test has a row in `docs/known-shortfalls.md`, and every row its `FIXME`.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

/// The page that lists them.
const PAGE: &str = "docs/known-shortfalls.md";

/// Holds that `FIXME`s and rows of the page name the same tests.
pub(super) fn check(files: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    let page = files.get(PAGE).map_or("", String::as_str);
    let listed: BTreeMap<&str, usize> = rows(page).collect();
    let mut found = BTreeSet::new();
    // This file speaks of them.
    let sources = files
        .iter()
        .filter(|(path, _)| [".rs"].iter().any(|ending| path.ends_with(ending)) && !path.starts_with("xtask/"));
    for (path, content) in sources {
        for (line, test) in marked(content) {
            match test {
                Some(test) if listed.contains_key(test) => drop(found.insert(test.to_owned())),
                Some(test) => findings.push(Finding::new(
                    path,
                    line,
                    format!("FIXME: `{test}` has no row in {PAGE}"),
                )),
                None => findings.push(Finding::new(path, line, "FIXME: it stands above no function")),
            }
        }
    }
    for (test, line) in listed.into_iter().filter(|(test, _)| !found.contains(*test)) {
        findings.push(Finding::new(PAGE, line, format!("`{test}` carries no FIXME")));
    }
}

/// Tests that the page lists, with their lines (from 1): the first code of each row.
fn rows(page: &str) -> impl Iterator<Item = (&str, usize)> {
    let rows = page
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((line.strip_prefix("| `")?, index + 1)));
    rows.filter_map(|(row, line)| Some((row.split_once('`')?.0, line)))
}

/// Lines with a `FIXME` (from 1), and the function that follows each.
fn marked(content: &str) -> Vec<(usize, Option<&str>)> {
    let lines: Vec<&str> = content.lines().collect();
    let marks = (0..lines.len()).filter(|index| lines[*index].contains("FIXME"));
    marks
        .map(|index| (index + 1, lines[index..].iter().find_map(|line| name(line))))
        .collect()
}

/// The name of a function that begins on this line.
fn name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_head = before.trim().is_empty() || before.trim().split(' ').all(|word| matches!(word, "pub" | "async"));
    is_head.then(|| after.split(['(', '<']).next().unwrap_or(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(source: &str, page: &str) -> Vec<String> {
        let files = BTreeMap::from([
            ("a.rs".to_owned(), source.to_owned()),
            (PAGE.to_owned(), page.to_owned()),
        ]);
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_mark_needs_a_row_and_each_row_a_mark() {
        let source = "/// Doc.\n// FIXME: 9 is asked.\n#[test]\nasync fn eight() {\n}\n";
        assert_eq!(
            findings(source, "| test | is |\n| --- | --- |\n| `eight` (`a.rs`) | 8 |\n"),
            Vec::<String>::new()
        );
        assert_eq!(
            findings(source, ""),
            ["a.rs:2: FIXME: `eight` has no row in docs/known-shortfalls.md"]
        );
        assert_eq!(
            findings("", "| `eight` | 8 |\n"),
            ["docs/known-shortfalls.md:1: `eight` carries no FIXME"]
        );
        assert_eq!(
            findings("// FIXME\n", ""),
            ["a.rs:1: FIXME: it stands above no function"]
        );
    }
}
