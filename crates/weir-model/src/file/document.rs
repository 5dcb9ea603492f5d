//! A file's text, with the problems found in it.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::problem::Problem;

/// Largest file that is read: 16 MiB, a traffic matrix of about 200,000 links.
const LENGTH_MAX: u64 = 16 << 20;

/// A file's text with its name.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) file: PathBuf,
    folder: PathBuf,
    text: String,
    /// Positions at which lines begin, ascending; the first is 0.
    line_starts: Vec<usize>,
    on_disk: bool,
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect()
}

impl Document {
    /// Takes a text as the content of `file`, which need not exist; nor need the files that it names.
    pub fn new(text: &str, file: &Path) -> Document {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Document {
            file: file.to_owned(),
            folder,
            text: text.to_owned(),
            line_starts: line_starts(text),
            on_disk: false,
        }
    }

    /// Reads a file; from then on the files that it names must exist.
    ///
    /// # Errors
    /// The file is missing, cannot be read, is larger than 16 MiB or not UTF-8.
    pub fn read(file: &Path) -> Result<Document, Problem> {
        let problem = |message: String, remedy: &str| Problem {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            message,
            remedy: remedy.to_owned(),
        };
        let unreadable = |error: std::io::Error| {
            problem(
                format!("could not be read: {}", reason(&error)),
                "check the path and its permissions",
            )
        };
        let length = std::fs::metadata(file).map_err(unreadable)?.len();
        if length > LENGTH_MAX {
            return Err(problem(format!("is {length} B long"), "name a file of at most 16 MiB"));
        }
        // A device or a pipe has no length, and may have no end.
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        let read = opened
            .take(LENGTH_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if read as u64 > LENGTH_MAX {
            return Err(problem("does not end".to_owned(), "name a file of at most 16 MiB"));
        }
        let mut text = String::from_utf8(bytes)
            .map_err(|_| problem("is not UTF-8 text".to_owned(), "name a text file, saved as UTF-8"))?;
        // Spreadsheets mark UTF-8 with an invisible character, which would belong to the first word.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let folder = std::path::absolute(file)
            .map_err(unreadable)?
            .parent()
            .unwrap_or(Path::new("/"))
            .to_owned();
        Ok(Document {
            file: file.to_owned(),
            folder,
            line_starts: line_starts(&text),
            text,
            on_disk: true,
        })
    }

    /// Gives the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Gives the name under which the file was opened.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Joins a path with the folder of this file.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Names a file that this one names, as this one was named; for opening it and for problems in it.
    pub fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Says whether the text came from a file on disk.
    pub fn on_disk(&self) -> bool {
        self.on_disk
    }

    /// Gives the line of a position, from 1.
    pub fn line(&self, position: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= position)
    }
}

/// Says why the system refused, without the error number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
