//! Positions in the text of a file. The JSON parser reports neither the key of an unreadable value nor the line of a
//! readable one.

use super::Problem;

/// A container that is open.
enum Frame {
    /// With the position of its entry.
    List(usize),
    /// With the key of its entry, once it is known.
    Table(Option<String>),
}

/// A walk over the tokens of a text that may be no JSON at all.
struct Walk<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    open: Vec<Frame>,
}

impl Walk<'_> {
    /// Moves past one token, and gives what it begins with.
    fn step(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        match byte {
            b'\n' => self.line += 1,
            b'{' => self.open.push(Frame::Table(None)),
            b'[' => self.open.push(Frame::List(0)),
            b'}' | b']' => drop(self.open.pop()),
            b',' => match self.open.last_mut() {
                Some(Frame::List(at)) => *at += 1,
                Some(Frame::Table(key)) => *key = None,
                None => {}
            },
            b'"' => self.string(),
            _ => {}
        }
        Some(byte)
    }

    /// Moves past a string whose opening quote has been passed; notes it where it is a key.
    fn string(&mut self) {
        let from = self.at;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 1,
                b'\n' => self.line += 1,
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.at.min(self.text.len());
        if let Some(Frame::Table(key @ None)) = self.open.last_mut() {
            *key = Some(String::from_utf8_lossy(&self.text[from..self.at]).into_owned());
        }
        self.at += 1;
    }

    /// The place as `links[3].bandwidth_bps`, of so many of the containers that are open.
    fn path(&self, depth: usize) -> String {
        let mut path = String::new();
        for frame in &self.open[..depth] {
            match frame {
                Frame::List(at) => path = format!("{path}[{at}]"),
                Frame::Table(Some(key)) if path.is_empty() => path.clone_from(key),
                Frame::Table(Some(key)) => path = format!("{path}.{key}"),
                Frame::Table(None) => {}
            }
        }
        path
    }
}

fn walk(text: &str) -> Walk<'_> {
    Walk {
        text: text.as_bytes(),
        at: 0,
        line: 1,
        open: Vec::new(),
    }
}

/// The path of the value read at a line and a column, which count from 1 and in bytes, as the JSON parser gives them.
///
/// The closing bracket of a container belongs to the container, or with `last` to its last entry.
pub(super) fn path_at(text: &str, line: usize, column: usize, last: bool) -> String {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let (mut walk, mut path) = (walk(text), String::new());
    while walk.at < before + column {
        if !last && matches!(walk.text.get(walk.at), Some(b'}' | b']')) {
            path = walk.path(walk.open.len().saturating_sub(1));
        }
        match walk.step() {
            None => break,
            Some(byte) if b"}],".contains(&byte) || byte.is_ascii_whitespace() => {}
            Some(_) => path = walk.path(walk.open.len()),
        }
    }
    path
}

/// Gives each problem the line of its key, or of the entry that the key is missing in.
pub(super) fn find_lines(text: &str, problems: &mut [Problem]) {
    let (mut walk, mut found) = (walk(text), vec![0; problems.len()]);
    while let Some(byte) = walk.step() {
        if b"[],:}".contains(&byte) || byte.is_ascii_whitespace() {
            continue;
        }
        // All keys of problems begin with a list of the file and a place in it: the rest need not be spelled out.
        let [Frame::Table(Some(list)), Frame::List(at), ..] = &walk.open[..] else {
            continue;
        };
        let entry = format!("{list}[{at}]");
        if !problems.iter().any(|problem| problem.key.starts_with(&entry)) {
            continue;
        }
        let path = walk.path(walk.open.len());
        for (problem, found) in problems.iter_mut().zip(&mut found) {
            let rest = problem.key.strip_prefix(&path);
            if path.len() > *found && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])) {
                (problem.line, *found) = (Some(walk.line), path.len());
            }
        }
    }
}

impl Problem {
    /// Finds the line of its key in the text of the file.
    #[must_use]
    pub fn locate(mut self, text: &str) -> Problem {
        find_lines(text, std::slice::from_mut(&mut self));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An unreadable value would be reported at another key.
    #[test]
    fn the_path_is_that_of_what_was_read_last() {
        let text = "{\"links\": [{\"name\": \"a\\\"]\",\n \"x\": [1, {\"y\": 25}]}, 7 ],\"z\": null}";
        for (line, column, expected) in [
            (1, 1, ""),
            (1, 8, "links"),
            (1, 11, "links[0]"),
            (1, 26, "links[0].name"),
            (2, 8, "links[0].x[0]"),
            (2, 17, "links[0].x[1].y"),
            (2, 19, "links[0].x[1]"),
            (2, 20, "links[0].x"),
            (2, 21, "links[0]"),
            (2, 24, "links[1]"),
            (2, 26, "links"),
            (2, 30, "z"),
            (9, 9, ""),
        ] {
            assert_eq!(path_at(text, line, column, false), expected, "{line}:{column}");
        }
        assert_eq!(path_at(text, 2, 19, true), "links[0].x[1].y");
    }

    /// Nothing that a file may hold may stop the search for a place.
    #[test]
    fn any_text_can_be_walked() {
        for text in [
            "",
            "]]]]",
            "}{",
            "\"",
            "\"\\",
            "[\"a\":",
            "{\"a\"\"b\"",
            "{,,,:\u{e9}\"\u{e9}",
        ] {
            for column in 0..text.len() + 3 {
                path_at(text, 1, column, column % 2 == 0);
            }
        }
    }
}
