//! Links in Markdown lead somewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

/// Holds that relative links name a tracked file or folder, and that `#anchors` name a heading of it.
pub(super) fn check(files: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    for (path, content) in files.iter().filter(|(path, _)| is_markdown(path)) {
        for (line, target) in links(content) {
            if let Some(message) = complaint(path, &target, files) {
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

/// The fault of a link, if it has one.
fn complaint(path: &str, target: &str, files: &BTreeMap<String, String>) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = if file.is_empty() {
        Some(path.to_string())
    } else {
        resolve(path, file)
    };
    let Some(to) = to else {
        return Some(format!("the link `{target}` leads out of the repository"));
    };
    let folder = format!("{to}/");
    let exists = to.is_empty() || files.contains_key(&to) || files.keys().any(|known| known.starts_with(&folder));
    if !exists {
        return Some(format!("the link `{target}` leads to `{to}`, which is not there"));
    }
    let headings = files
        .get(&to)
        .filter(|_| is_markdown(&to) && !anchor.is_empty())
        .map(|text| anchors(text));
    match headings {
        Some(headings) if !headings.contains(anchor) => Some(format!("`{to}` has no heading `#{anchor}`")),
        _ => None,
    }
}

pub(crate) fn is_markdown(path: &str) -> bool {
    std::path::Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "md")
}

/// The path a relative link means, from the root; none if it climbs above the root.
pub(crate) fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Every `[text](target)` outside code, with its line from 1.
pub(crate) fn links(content: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(content) {
        let text = without_code_spans(text);
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((line, target.trim_matches(['<', '>']).to_string()));
        }
    }
    found
}

/// The lines outside fenced code, with their numbers from 1.
pub(super) fn prose(content: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in content.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        if fence {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

fn without_code_spans(line: &str) -> String {
    line.split('`')
        .enumerate()
        .filter(|(index, _)| index % 2 == 0)
        .map(|(_, part)| part)
        .collect()
}

/// The anchors of the headings, as forges make them: lower case, spaces to hyphens, punctuation dropped.
fn anchors(content: &str) -> BTreeSet<String> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (_, line) in prose(content) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let seen = known.entry(anchor.clone()).or_default();
        all.insert(if *seen == 0 { anchor } else { format!("{anchor}-{seen}") });
        *seen += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_in(readme: &str) -> Vec<String> {
        let files = BTreeMap::from([
            ("README.md".to_string(), readme.to_string()),
            (
                "docs/grid.md".to_string(),
                "# The grid\n\n## Use `curl`, or gfal\n## Twice\n## Twice\n".to_string(),
            ),
            ("grids/uk.toml".to_string(), String::new()),
        ]);
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_links_pass() {
        for good in [
            "[a](docs/grid.md)",
            "[a](./docs/../grids/uk.toml)",
            "[a](grids)",
            "[a](docs/)",
            "[a](https://example.org/none)",
            "[a](docs/grid.md#use-curl-or-gfal)",
            "[a](docs/grid.md#twice-1)",
            "# Here\n[a](#here)",
            "`[a](nowhere.md)`",
            "```\n[a](nowhere.md)\n```",
        ] {
            assert_eq!(findings_in(good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn bad_links_are_found() {
        for bad in [
            "[a](docs/nowhere.md)",
            "[a](doc)",
            "[a](../outside.md)",
            "[a](docs/grid.md#nowhere)",
            "[a](#nowhere)",
            "![shot](docs/shot.png \"a title\")",
        ] {
            assert_eq!(findings_in(bad).len(), 1, "{bad}");
        }
    }
}
