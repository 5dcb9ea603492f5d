//! Reads a text with serde, past its first problem.

use std::{ops::Range, path::Path};

use serde::de::DeserializeOwned;
use toml::de::DeTable;
use weir_model::{Problem, file::nearest};

use super::place::{Place, line_at, place_at};

/// More problems than this in one file are not worth a list.
const PROBLEMS_MAX: usize = 50;

/// Reads a text as a `C`. serde stops at the first problem: a wrong key or value is blanked, and the rest of the text read again.
///
/// # Errors
/// Every key and value that cannot be read. Of a table in which something is missing no more is told, as nothing can be put in its place.
pub(super) fn parse<C: DeserializeOwned>(path: &Path, text: &str) -> Result<C, Vec<Problem>> {
    let mut rest = text.to_owned();
    let mut problems = Vec::new();
    while problems.len() < PROBLEMS_MAX {
        let error = match toml::from_str::<C>(&rest) {
            Ok(config) if problems.is_empty() => return Ok(config),
            Ok(_) => break,
            Err(error) => error,
        };
        let place = error.span().and_then(|span| {
            let table = DeTable::parse(&rest).ok()?;
            place_at(table.get_ref(), span.start)
        });
        let found = problem(path, text, error.message(), error.span(), place.as_ref());
        // A value that was blanked is missing now, which was told already.
        if problems.iter().all(|problem: &Problem| problem.key != found.key) {
            problems.push(found);
        }
        let Some(next) = place.and_then(|place| without(&rest, place.span)) else {
            break;
        };
        rest = next;
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}

/// The text without a key and its value, or without a table and all that stands in it. Every position stays where it is. `None`: nothing
/// can be left out so that TOML remains.
fn without(text: &str, span: Range<usize>) -> Option<String> {
    let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    if text[line..].trim_start().starts_with('[') {
        let next = text[span.end..].match_indices('\n').map(|(at, _)| span.end + at + 1);
        let is_header = |at: &usize| text[*at..].trim_start_matches([' ', '\t']).starts_with('[');
        let end = next.into_iter().find(is_header).unwrap_or(text.len());
        return blanked(text, line..end);
    }
    // A dotted key (`limits.x = 1`) and a table in braces are no TOML without a part of theirs: the whole lines go.
    let end = text[span.end..].find('\n').map_or(text.len(), |at| span.end + at);
    blanked(text, span).or_else(|| blanked(text, line..end))
}

/// The text with blanks in a range, if that is TOML and something else than before.
fn blanked(text: &str, range: Range<usize>) -> Option<String> {
    let blanks = text[range.clone()]
        .bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' });
    let next = format!(
        "{}{}{}",
        &text[..range.start],
        blanks.collect::<String>(),
        &text[range.end..]
    );
    (next != text && DeTable::parse(&next).is_ok()).then_some(next)
}

fn problem(path: &Path, text: &str, message: &str, span: Option<Range<usize>>, place: Option<&Place>) -> Problem {
    // The quantities name their own remedy: `size "1" has no unit; add a unit`.
    let message = message.lines().next().unwrap_or("is not TOML");
    let (message, own_remedy) = message
        .split_once("; ")
        .map_or((message, None), |(m, remedy)| (m, Some(remedy)));
    let mut quoted = message.split('`').skip(1).step_by(2);
    let named = quoted.next().unwrap_or_default();
    let mut key = place.map(|place| place.key.clone()).unwrap_or_default();
    let remedy = if let Some(remedy) = own_remedy {
        remedy.to_owned()
    } else if message.starts_with("unknown field") {
        match nearest(named, quoted) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "remove it".to_owned(),
        }
    } else if message.starts_with("missing field") {
        key = if key.is_empty() {
            named.to_owned()
        } else {
            format!("{key}.{named}")
        };
        format!("add `{named} = …`")
    } else if DeTable::parse(text).is_err() {
        "correct the TOML".to_owned()
    } else {
        "give a value of the kind that docs/running-services.md names".to_owned()
    };
    Problem {
        file: path.to_owned(),
        line: span.map(|span| line_at(text, span.start)),
        key,
        message: message.to_owned(),
        remedy,
    }
}
