//! Configuration files of `weir serve`: wrong ones are told by file, line, key and remedy before anything starts.
//!
//! Each room reads its own configuration with serde. serde's errors know a position and a sentence; here they become a
//! [`Problem`] as grid and challenge files have it.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use weir_model::Problem;
use weir_model::file::nearest;

/// Holds that the file can be read as a `T`.
///
/// # Errors
/// The first problem in it.
pub(crate) fn check<T: DeserializeOwned>(path: &Path) -> Result<(), Problem> {
    let text = read(path)?;
    match toml::from_str::<T>(&text) {
        Ok(_) => Ok(()),
        Err(error) => Err(problem(path, &text, error.message(), error.span())),
    }
}

/// A problem that a room found with a key (`area[0].name`) of a file that can be read; finds its line.
pub(crate) fn invalid(path: &Path, key: &str, message: String, remedy: String) -> Problem {
    let line = read(path).ok().and_then(|text| line_of_key(&text, key));
    Problem {
        file: path.to_owned(),
        line,
        key: key.to_owned(),
        message,
        remedy,
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path).map_err(|error| Problem {
        file: path.to_owned(),
        line: None,
        key: String::new(),
        message: format!("could not be read: {error}"),
        remedy: "name a TOML file that you may read".to_owned(),
    })
}

fn problem(path: &Path, text: &str, message: &str, span: Option<Range<usize>>) -> Problem {
    // The quantities say themselves what to do: `size "1" has no unit; add a unit`.
    let message = message.lines().next().unwrap_or("is not TOML");
    let (message, own_remedy) = message
        .split_once("; ")
        .map_or((message, None), |(m, remedy)| (m, Some(remedy)));
    let mut quoted = message.split('`').skip(1).step_by(2);
    let named = quoted.next().unwrap_or_default();
    let at = span.map(|span| span.start);
    let table = DeTable::parse(text).ok();
    let mut key = match (&table, at) {
        (Some(table), Some(at)) => key_at(table.get_ref(), at),
        _ => String::new(),
    };
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
    } else if table.is_none() {
        "correct the TOML".to_owned()
    } else {
        "give a value of the kind that docs/running-services.md names".to_owned()
    };
    let line = at.map(|at| line_at(text, at));
    Problem {
        file: path.to_owned(),
        line,
        key,
        message: message.to_owned(),
        remedy,
    }
}

fn line_at(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

/// The key, with its tables, whose name or value stands at a position: `area[1].quota`; empty for the file's own table.
fn key_at(table: &DeTable<'_>, position: usize) -> String {
    for (key, value) in table {
        let inside = |span: Range<usize>| span.contains(&position);
        let below = match value.get_ref() {
            DeValue::Table(table) => key_at(table, position),
            DeValue::Array(items) => key_in_array(items.iter().map(|item| (item.span(), item.get_ref())), position),
            _ => String::new(),
        };
        if inside(key.span()) || inside(value.span()) || !below.is_empty() {
            let dot = if below.is_empty() || below.starts_with('[') {
                ""
            } else {
                "."
            };
            return format!("{}{dot}{below}", key.get_ref());
        }
    }
    String::new()
}

fn key_in_array<'a, 'i: 'a>(items: impl Iterator<Item = (Range<usize>, &'a DeValue<'i>)>, position: usize) -> String {
    for (index, (span, item)) in items.enumerate() {
        let below = item.as_table().map(|table| key_at(table, position)).unwrap_or_default();
        if !below.is_empty() {
            return format!("[{index}].{below}");
        }
        if span.contains(&position) {
            return format!("[{index}]");
        }
    }
    String::new()
}

/// The line where a key stands; of its table if it stands nowhere itself.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    for part in key.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((word, value)) = table.iter().find(|(word, _)| word.get_ref() == name) else {
            break;
        };
        found = Some(word.span().start);
        let value = match (value.get_ref(), index) {
            (DeValue::Array(items), Some(index)) => {
                let Some(item) = items.get(index) else { break };
                found = Some(item.span().start);
                item.get_ref()
            }
            (value, _) => value,
        };
        let Some(below) = value.as_table() else { break };
        table = below;
    }
    found.map(|position| line_at(text, position))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "read by serde only")]
    struct Config {
        listen: std::net::SocketAddr,
        #[serde(default)]
        area: Vec<Area>,
    }

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "read by serde only")]
    struct Area {
        name: String,
        quota: Option<weir_units::Bytes>,
    }

    fn check_text(text: &str, expected: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let problem = check::<Config>(file.path()).unwrap_err();
        let shown = problem
            .to_string()
            .replace(&file.path().display().to_string(), "c.toml");
        assert_eq!(shown, expected);
    }

    #[test]
    fn wrong_files_are_told_by_line_key_and_remedy() {
        // An operator would search a long file for what one line tells.
        check_text(
            "liste = \"127.0.0.1:1\"\n",
            "c.toml:1: liste: unknown field `liste`, expected `listen` or `area`; did you mean `listen`?",
        );
        check_text(
            "\n[[area]]\nname = \"a\"\n",
            "c.toml:1: listen: missing field `listen`; add `listen = …`",
        );
        check_text(
            "listen = \"127.0.0.1:1\"\n[[area]]\nname = \"a\"\n[[area]]\nquota = \"1 GB\"\n",
            "c.toml:4: area[1].name: missing field `name`; add `name = …`",
        );
        check_text(
            "listen = \n",
            "c.toml:1: string values must be quoted, expected literal string; correct the TOML",
        );
        check_text(
            "listen = \"127.0.0.1:1\"\n[[area]]\nname = \"a\"\nquota = \"1\"\n",
            "c.toml:4: area[0].quota: size \"1\" has no unit; add a unit, such as \"1 GB\"",
        );
    }

    #[test]
    fn keys_are_found_by_name() {
        let text = "listen = 1\n\n[limits]\nx = 1\n\n[[area]]\nname = \"a\"\n\n[[area]]\nname = \"b\"\n";
        assert_eq!(line_of_key(text, "limits.x"), Some(4));
        assert_eq!(line_of_key(text, "limits.absent"), Some(3));
        assert_eq!(line_of_key(text, "area[1].name"), Some(10));
        assert_eq!(line_of_key(text, "absent"), None);
    }
}
