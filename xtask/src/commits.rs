//! `xtask commits RANGE`: commits whose subject is too long, or that say nothing but a subject.

use std::path::Path;

use anyhow::ensure;

use crate::tidy::read_command;

/// A subject is read in lists, which show so many characters.
const SUBJECT_MAX: usize = 72;

/// Names the problems of the commits of a range, as `git log` takes it; merges are left out.
pub(crate) fn run(root: &Path, range: &str) -> anyhow::Result<Vec<String>> {
    ensure!(
        !range.is_empty() && !range.starts_with('-'),
        "usage: xtask commits RANGE, for example origin/main.."
    );
    let log = read_command(
        root,
        "git",
        &["log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e", range, "--"],
    )?;
    Ok(log.split('\u{1e}').flat_map(problems).collect())
}

/// Names the problems of one commit: hash, subject and body, with 0x1f between them.
fn problems(commit: &str) -> Vec<String> {
    let mut parts = commit.trim().splitn(3, '\u{1f}');
    let (Some(hash), Some(subject)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let body = parts.next().unwrap_or_default();
    let length = subject.chars().count();
    let mut found = Vec::new();
    if length > SUBJECT_MAX {
        found.push(format!(
            "{hash}: a subject of {length} characters, at most {SUBJECT_MAX}: {subject}"
        ));
    }
    if body.trim().is_empty() {
        found.push(format!(
            "{hash}: no body (the reason, and what was measured): {subject}"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_and_missing_bodies_are_found() {
        assert_eq!(problems("\n"), Vec::<String>::new());
        assert_eq!(
            problems("\nabc\u{1f}room: it works\u{1f}It did not.\n"),
            Vec::<String>::new()
        );
        let bare = "abc: no body (the reason, and what was measured): room: it works";
        assert_eq!(problems("abc\u{1f}room: it works\u{1f}\n"), [bare]);
        let long = "é".repeat(73);
        let told = format!("abc: a subject of 73 characters, at most 72: {long}");
        assert_eq!(problems(&format!("abc\u{1f}{long}\u{1f}Body.")), [told]);
    }
}
