//! Rule `prose`: doc comments are sentences that are understood at first reading.
//!
//! Two habits make riddles: a sentence that begins with a pronoun where a thing has a name ("What …", "Those that …"),
//! and a sentence of more than thirty words. Only the doc comments of `crates/*/src` are counted.

use std::collections::BTreeMap;

use super::Finding;

/// Beginnings of sentences that name no subject.
const OPENINGS: [&str; 15] = [
    "Who",
    "What",
    "Whoever",
    "Whatever",
    "Whose",
    "Whom",
    "Which",
    "Those",
    "One that",
    "One who",
    "Somebody",
    "Nobody",
    "Everybody",
    "That",
    "Where what",
];

/// Words that stand for a thing that has a name, where a comma, semicolon or colon is before them.
const PRONOUNS: [&str; 3] = ["who", "whoever", "what"];

/// Endings that end no sentence.
const ABBREVIATIONS: [&str; 4] = ["e.g.", "i.e.", "etc.", "cf."];

/// A paragraph or list item of a doc comment.
#[derive(Debug)]
struct Paragraph {
    /// Its first line in the file, from 1.
    line: usize,
    text: String,
}

/// Holds that the doc comments of each crate have at most `per_thousand` unclear sentences for 1,000 lines, and no
/// sentence of more than `words_max` words.
pub(super) fn check(
    files: &BTreeMap<String, String>,
    (per_thousand, words_max): (usize, usize),
    findings: &mut Vec<Finding>,
) {
    let mut crates: BTreeMap<&str, (usize, Vec<Finding>)> = BTreeMap::new();
    for (path, content) in files {
        let Some(name) = crate_of(path) else { continue };
        let (n_lines, unclear) = crates.entry(name).or_default();
        *n_lines += content.lines().filter(|line| doc_text(line).is_some()).count();
        for paragraph in paragraphs(content) {
            for sentence in sentences(&paragraph.text) {
                let n_words = sentence.split_whitespace().count();
                if n_words > words_max {
                    let message = format!(
                        "a sentence of {n_words} words (at most {words_max}): `{}`",
                        start(sentence)
                    );
                    findings.push(Finding::new(path, paragraph.line, message));
                }
                if is_unclear(sentence) {
                    let message = format!("name the subject: `{}`", start(sentence));
                    unclear.push(Finding::new(path, paragraph.line, message));
                }
            }
        }
    }
    for (n_lines, unclear) in crates.into_values() {
        if unclear.len() * 1000 > per_thousand * n_lines {
            findings.extend(unclear);
        }
    }
}

/// The crate of a source file, `None` for other files.
fn crate_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    (rest.starts_with("src/") && super::rooms::is_rust(path)).then_some(name)
}

/// The text of a line of a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// Paragraphs and list items of doc comments; code, tables and headings are left out.
fn paragraphs(content: &str) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (index, line) in content.lines().enumerate() {
        let Some(text) = doc_text(line) else {
            (is_code, is_open) = (false, false);
            continue;
        };
        let text = text.trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.is_empty() || text.starts_with(['|', '#']) || text.starts_with("```") {
            is_open = false;
            continue;
        }
        let item = item_text(text);
        match all.last_mut() {
            Some(last) if is_open && item.is_none() => {
                last.text.push(' ');
                last.text.push_str(text);
            }
            _ => all.push(Paragraph {
                line: index + 1,
                text: item.unwrap_or(text).to_owned(),
            }),
        }
        is_open = true;
    }
    all
}

/// The text of a list item without its mark.
fn item_text(text: &str) -> Option<&str> {
    let numbered = || {
        let (number, rest) = text.split_once(". ")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(rest)
    };
    text.strip_prefix("- ")
        .or_else(|| text.strip_prefix("* "))
        .or_else(numbered)
}

/// The sentences of a paragraph.
fn sentences(text: &str) -> Vec<&str> {
    let (mut all, mut begin) = (Vec::new(), 0);
    for (at, _) in text.match_indices(['.', '?', '!']) {
        let end = at + 1;
        let ends = text[end..].starts_with(' ') && !ABBREVIATIONS.iter().any(|word| text[..end].ends_with(word));
        if ends {
            all.push(text[begin..end].trim());
            begin = end;
        }
    }
    all.push(text[begin..].trim());
    all.retain(|sentence| !sentence.is_empty());
    all
}

fn is_unclear(sentence: &str) -> bool {
    let begins = |opening: &str| {
        let rest = sentence.strip_prefix(opening);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\''))
    };
    let pronoun = |word: &str| {
        [", ", "; ", ": "]
            .iter()
            .any(|mark| sentence.contains(&format!("{mark}{word} ")))
    };
    OPENINGS.into_iter().any(begins) || PRONOUNS.into_iter().any(pronoun)
}

/// The first words of a sentence, for a finding.
fn start(sentence: &str) -> String {
    let words: Vec<&str> = sentence.split_whitespace().take(8).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str, limits: (usize, usize)) -> Vec<usize> {
        let mut findings = Vec::new();
        let files = BTreeMap::from([("crates/weir-a/src/lib.rs".to_owned(), content.to_owned())]);
        check(&files, limits, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn sentences_without_a_subject_are_found() {
        // A summary that begins with a pronoun would come back.
        for text in [
            "/// What is kept.",
            "/// A list.\n/// Those that ended are left out.",
            "/// The peer: who sends it.",
            "//! - One that waits.",
        ] {
            assert_eq!(found(text, (0, 30)).len(), 1, "{text}");
        }
        for text in [
            "/// Whatsoever names a crate.",
            "/// The value that is kept.",
            "// What a comment says is not counted.",
            "/// ```\n/// What is code\n/// ```",
            "/// | What | Who |",
        ] {
            assert_eq!(found(text, (0, 30)), Vec::<usize>::new(), "{text}");
        }
    }

    #[test]
    fn a_crate_may_have_a_few() {
        let content = format!("/// What is kept.\n{}", "/// A line.\n".repeat(400));
        assert_eq!(found(&content, (3, 30)), Vec::<usize>::new());
        assert_eq!(found(&content, (2, 30)), [1]);
    }

    #[test]
    fn long_sentences_are_found() {
        // Lines of one paragraph are one text; a list item, an empty line or a table ends it.
        let words = "word ".repeat(16);
        assert_eq!(found(&format!("/// {words}\n/// {words}."), (0, 30)), [1]);
        for text in [
            format!("/// {words}.\n/// {words}."),
            format!("/// {words}\n///\n/// {words}"),
            format!("/// - {words}\n/// - {words}"),
            format!("/// {words} e.g. more."),
        ] {
            assert_eq!(found(&text, (0, 30)), Vec::<usize>::new(), "{text}");
        }
    }
}
