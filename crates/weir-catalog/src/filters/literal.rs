//! Python literals: Rucio's client sends its filters as the text that Python prints for a list of dictionaries.

use serde_json::{Map, Number, Value};

/// Lists and dictionaries within each other, at most.
const DEPTH_MAX: usize = 8;

/// The reader's place in a text.
struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

/// Reads a literal: dictionaries with texts as keys, lists, tuples, texts, numbers, `True`, `False`, `None`, and JSON. Gives a sentence if the
/// text is none.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text, depth: 0 };
    let value = reader.value()?;
    reader.space();
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(reader.unexpected("the end"))
    }
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self, wanted: &str) -> String {
        let found = self.rest.chars().take(10).collect::<String>();
        format!("{wanted} was expected where {found:?} is")
    }

    fn take(&mut self, start: &str) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self) -> Result<Value, String> {
        self.space();
        match self.rest.chars().next() {
            Some('{') => self.nested(Self::dictionary),
            Some('[') => self.nested(|reader| reader.list(']')),
            Some('(') => self.nested(|reader| reader.list(')')),
            Some('\'' | '"') => self.text().map(Value::String),
            Some(_) => self.word(),
            None => Err(self.unexpected("a value")),
        }
    }

    fn nested(&mut self, read: impl Fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth == DEPTH_MAX {
            return Err(format!("lists are more than {DEPTH_MAX} deep"));
        }
        self.depth += 1;
        self.rest = &self.rest[1..];
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn list(&mut self, end: char) -> Result<Value, String> {
        let (mut all, end) = (Vec::new(), end.to_string());
        while !self.take(&end) {
            all.push(self.value()?);
            if !self.take(",") && !self.rest.trim_start().starts_with(&end) {
                return Err(self.unexpected("a comma"));
            }
        }
        Ok(Value::Array(all))
    }

    fn dictionary(&mut self) -> Result<Value, String> {
        let mut all = Map::new();
        while !self.take("}") {
            self.space();
            let key = self.text()?;
            if !self.take(":") {
                return Err(self.unexpected("a colon"));
            }
            let value = self.value()?;
            all.insert(key, value);
            if !self.take(",") && !self.rest.trim_start().starts_with('}') {
                return Err(self.unexpected("a comma"));
            }
        }
        Ok(Value::Object(all))
    }

    fn text(&mut self) -> Result<String, String> {
        let mut chars = self.rest.char_indices();
        let Some((_, quote @ ('\'' | '"'))) = chars.next() else {
            return Err(self.unexpected("a text"));
        };
        let mut text = String::new();
        while let Some((at, one)) = chars.next() {
            if one == quote {
                self.rest = &self.rest[at + 1..];
                return Ok(text);
            }
            if one != '\\' {
                text.push(one);
                continue;
            }
            let digits = match chars.next() {
                Some((_, 'n')) => {
                    text.push('\n');
                    continue;
                }
                Some((_, 't')) => {
                    text.push('\t');
                    continue;
                }
                Some((_, 'x')) => 2,
                Some((_, 'u')) => 4,
                Some((_, 'U')) => 8,
                Some((_, other)) => {
                    text.push(other);
                    continue;
                }
                None => break,
            };
            let code = chars.by_ref().take(digits).map(|(_, digit)| digit).collect::<String>();
            let read = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
            text.push(read.ok_or_else(|| format!("{code:?} is no character"))?);
        }
        Err("a text has no end".to_owned())
    }

    fn word(&mut self) -> Result<Value, String> {
        let is_part = |one: char| one.is_ascii_alphanumeric() || "+-._".contains(one);
        let end = self.rest.find(|one| !is_part(one)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let number = || {
            let whole = word.parse::<i64>().ok().map(Number::from);
            whole
                .or_else(|| Number::from_f64(word.parse().ok()?))
                .map(Value::Number)
        };
        let value = match word {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            _ => number().ok_or_else(|| self.unexpected("a value"))?,
        };
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_as_python_prints_them_are_read() {
        // Printed by Python 3.11.
        let text = r#"[{'name': 'd*', "it's": "o'clock", 'n': -3, 'x': 1.5, 'y': True, 'z': None, 'l': [1, (2,)], 'e': '\\ \xe9 \n'}, {}]"#;
        let expected = json!([
            { "name": "d*", "it's": "o'clock", "n": -3, "x": 1.5, "y": true, "z": null, "l": [1, [2]], "e": "\\ é \n" },
            {}
        ]);
        assert_eq!(read(text).unwrap(), expected);
        for bad in [
            "",
            "[",
            "{'a'}",
            "{'a': }",
            "{1: 2}",
            "['a' 'b']",
            "'a",
            "abc",
            "[1] x",
            "nan",
            "'\\ud800'",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&"[".repeat(100_000)).unwrap_err().contains("deep"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[\\[\\]{}()'\":, \\\\a-zTFN0-9é]{0,40}") {
            let _ = read(&text);
        }

        /// JSON is read as JSON.
        #[test]
        fn json_is_read(text in "[a-z é\"\\\\]{0,8}", number in any::<i32>(), yes in any::<bool>()) {
            let value = json!([{ "a": text, "b": number, "c": yes, "d": null }]);
            prop_assert_eq!(read(&value.to_string()).unwrap(), value);
        }
    }
}
