//! Rule `text`: words that may stand in a file, and the length of a file.

use serde::Deserialize;

use super::Finding;

/// A word that does not belong in tracked files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Word {
    /// The text, as it would stand in the file; upper and lower case count.
    text: String,
    /// Why it does not belong.
    reason: String,
    /// True if letters, digits or `_` beside it make it another word.
    #[serde(default)]
    whole: bool,
    /// Paths (or their beginnings) where it may stand.
    #[serde(default)]
    except: Vec<String>,
}

/// Holds that a source file divides before it has more than `lines_max` lines.
pub(super) fn check_length(path: &str, content: &str, lines_max: usize, findings: &mut Vec<Finding>) {
    let source = [".rs", ".ts", ".tsx"].iter().any(|ending| path.ends_with(ending));
    let n_lines = content.lines().count();
    if source && n_lines > lines_max {
        findings.push(Finding::new(
            path,
            0,
            format!("{n_lines} lines: look for where it divides (at most {lines_max})"),
        ));
    }
}

/// Holds that no unwanted word stands in the file.
pub(super) fn check_words(path: &str, content: &str, words: &[Word], findings: &mut Vec<Finding>) {
    for word in words {
        if word.except.iter().any(|beginning| path.starts_with(beginning.as_str())) {
            continue;
        }
        for (index, line) in content.lines().enumerate() {
            if contains(line, word) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("`{}`: {}", word.text, word.reason),
                ));
            }
        }
    }
}

fn contains(line: &str, word: &Word) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(&word.text).any(|(at, found)| {
        let before = line[..at].chars().next_back();
        let after = line[at + found.len()..].chars().next();
        !word.whole || !(before.is_some_and(part_of_word) || after.is_some_and(part_of_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, whole: bool, except: &[&str]) -> Word {
        let except = except.iter().map(ToString::to_string).collect();
        Word {
            text: text.into(),
            reason: "not here".into(),
            whole,
            except,
        }
    }

    fn words_found(path: &str, content: &str, word: Word) -> Vec<usize> {
        let mut findings = Vec::new();
        check_words(path, content, &[word], &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unwanted_words_are_found_by_line() {
        assert_eq!(words_found("a.rs", "one\ntwo WIP three\n", word("WIP", true, &[])), [2]);
        assert_eq!(
            words_found("a.rs", "WIPED, _WIP_\n", word("WIP", true, &[])),
            Vec::<usize>::new()
        );
        assert_eq!(words_found("a.rs", "see /attic/x\n", word("/attic/", false, &[])), [1]);
        assert_eq!(
            words_found("lock/a", "WIP\n", word("WIP", true, &["lock/"])),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn long_source_files_are_found() {
        let length_findings = |path: &str, n_lines: usize| {
            let mut findings = Vec::new();
            check_length(path, &"x\n".repeat(n_lines), 600, &mut findings);
            findings.len()
        };
        assert_eq!(length_findings("a.rs", 600), 0);
        assert_eq!(length_findings("a.rs", 601), 1);
        assert_eq!(length_findings("a.ts", 601), 1);
        assert_eq!(length_findings("a.csv", 601), 0);
    }
}
