//! One table of a file while it is read.

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::document::Document;
use super::part::Part;
use super::problem::Problem;
use super::reader::Reader;
use super::suggest::nearest;
use super::table::Table;
use super::value::{FromValue, Refusal, one_of, wrong_kind};

/// One table of a file, its keys already checked against the known ones.
///
/// Every method that finds something wrong notes a problem and gives `None`, so that reading goes on.
#[derive(Debug)]
pub struct Section<'d> {
    reader: &'d Reader<'d>,
    table: &'static Table,
    path: String,
    span: Option<Range<usize>>,
    content: &'d DeTable<'d>,
}

impl<'d> Section<'d> {
    pub(super) fn new(
        reader: &'d Reader<'d>,
        table: &'static Table,
        path: String,
        span: Option<Range<usize>>,
        content: &'d DeTable<'d>,
    ) -> Section<'d> {
        let section = Section {
            reader,
            table,
            path,
            span,
            content,
        };
        for key in content.keys() {
            section.check_known(key);
        }
        section
    }

    fn check_known(&self, key: &Spanned<DeString<'_>>) {
        let name: &str = key.get_ref();
        if self.table.key(name).is_some() {
            return;
        }
        let known = self.table.keys.iter().map(|key| key.name);
        let remedy = match nearest(name, known.clone()) {
            Some(known) => format!("did you mean \"{known}\"?"),
            None => format!("known here: {}", known.collect::<Vec<_>>().join(", ")),
        };
        self.reader
            .report(Some(&key.span()), &self.full(name), "unknown key", remedy);
    }

    /// Gives the document that is read.
    pub fn document(&self) -> &'d Document {
        self.reader.document
    }

    /// Gives the line on which this table begins, from 1; `None` for the file's own table.
    pub fn line(&self) -> Option<usize> {
        self.span.as_ref().map(|span| self.document().line(span.start))
    }

    /// Says whether the key is there and its value is a text.
    pub fn is_text(&self, key: &str) -> bool {
        self.content.get(key).is_some_and(|value| value.get_ref().is_str())
    }

    /// Says whether the key is there, valid or not.
    pub fn has(&self, key: &str) -> bool {
        self.content.contains_key(key)
    }

    /// Reads a value that may be left out.
    pub fn optional<T: FromValue>(&self, key: &str) -> Option<T> {
        let value = self.find(key)?;
        match T::from_value(value.get_ref()) {
            Ok(read) => Some(read),
            Err(refusal) => {
                self.refuse_at(&value.span(), key, refusal);
                None
            }
        }
    }

    /// Reads a value that may be left out, in place of which `default` holds.
    pub fn or<T: FromValue>(&self, key: &str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// Reads a value that may not be left out.
    pub fn required<T: FromValue>(&self, key: &str) -> Option<T> {
        if !self.has(key) {
            let kind = self.table.key(key).map_or("value", |key| key.kind);
            self.miss(key, format!("add {key} ({kind})"));
        }
        self.optional(key)
    }

    /// Notes that a required key is missing.
    pub fn miss(&self, key: &str, remedy: impl Into<String>) {
        self.reader
            .report(self.span.as_ref(), &self.full(key), "is missing", remedy);
    }

    /// Reads a value and asks more of it than its type says.
    pub fn checked<T: FromValue>(&self, key: &str, check: impl Fn(&T) -> Result<(), Refusal>) -> Option<T> {
        let value: T = self.optional(key)?;
        match check(&value) {
            Ok(()) => Some(value),
            Err(refusal) => {
                self.refuse(key, refusal);
                None
            }
        }
    }

    /// Reads an optional number of at least 1.
    pub fn positive(&self, key: &str, default: u32) -> u32 {
        let check = |n: &u32| {
            if *n > 0 {
                Ok(())
            } else {
                Err(Refusal::new("must be above zero", "write 1 or more"))
            }
        };
        self.checked(key, check).unwrap_or(default)
    }

    /// Reads a list of values; each that is refused is noted and left out. `None` if the key is not there.
    pub fn list<T: FromValue>(&self, key: &str) -> Option<Vec<T>> {
        let value = self.find(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.refuse_at(
                &value.span(),
                key,
                wrong_kind(value.get_ref(), "a list", "it in brackets, such as [\"…\"]"),
            );
            return None;
        };
        let mut list = Vec::new();
        for item in items {
            match T::from_value(item.get_ref()) {
                Ok(read) => list.push(read),
                Err(refusal) => self.refuse_at(&item.span(), key, refusal),
            }
        }
        Some(list)
    }

    /// Reads a path, joined with the file's folder; a file on disk may name existing files only.
    pub fn file(&self, key: &str) -> Option<PathBuf> {
        let written: PathBuf = self.optional(key)?;
        let path = self.document().resolve(&written);
        if self.document().on_disk() && !path.is_file() {
            let message = format!("there is no file {}", path.display());
            self.refuse(
                key,
                Refusal::new(message, "correct the path; it is relative to this file's folder"),
            );
            return None;
        }
        Some(path)
    }

    /// Reads the path of a folder that may be made later, joined with the file's folder; it may not be a file.
    pub fn folder(&self, key: &str) -> Option<PathBuf> {
        let written: PathBuf = self.optional(key)?;
        let path = self.document().resolve(&written);
        if self.document().on_disk() && path.exists() && !path.is_dir() {
            let message = format!("{} is not a folder", path.display());
            self.refuse(key, Refusal::new(message, "name a folder, or one that can be made"));
            return None;
        }
        Some(path)
    }

    /// Opens a table below this one; `None` if it is not there.
    pub fn table(&self, key: &str, table: &'static Table) -> Option<Section<'d>> {
        let value = self.find(key)?;
        let section = self.open(key, table, value);
        if section.is_none() {
            let example = format!("it as {}", table.title);
            self.refuse_at(&value.span(), key, wrong_kind(value.get_ref(), "a table", &example));
        }
        section
    }

    /// Takes a table below this one for another reader: the table itself, or the path of a file that holds it. `None` if it is not there.
    pub fn part(&self, key: &str) -> Option<Part> {
        let value = self.find(key)?;
        if let Some(content) = value.get_ref().as_table() {
            return Some(Part::under(self.document(), key, super::value::table(content)));
        }
        let path: PathBuf = self.optional(key)?;
        match Part::of_file(&self.document().beside(&path)) {
            Ok(part) => Some(part),
            Err(problems) if problems.iter().all(|problem| problem.line.is_none()) => {
                for problem in problems {
                    let message = format!("the file {} {}", path.display(), problem.message);
                    self.refuse(key, Refusal::new(message, problem.remedy));
                }
                None
            }
            Err(problems) => {
                self.pass_on(problems);
                None
            }
        }
    }

    /// Opens a list of tables below this one, in the order of the file; empty if it is not there.
    pub fn tables(&self, key: &str, table: &'static Table) -> Vec<Section<'d>> {
        let open = |item| {
            self.open(key, table, item)
                .or_else(|| self.refuse_list(key, table.title, item))
        };
        self.items(key, table.title).into_iter().filter_map(open).collect()
    }

    /// Opens a list of tables below this one whose keys depend on the text under `kind`; gives each with its kind.
    ///
    /// In place of a table without kind, or of a kind that is not among the choices, stands `None`.
    pub fn tables_by_kind(
        &self,
        key: &str,
        kind: &str,
        choices: &[(&'static str, &'static Table)],
    ) -> Vec<Option<(&'static str, Section<'d>)>> {
        let title = format!("[[{key}]]");
        let words: Vec<_> = choices.iter().map(|choice| (choice.0, *choice)).collect();
        let open = |item: &'d Spanned<DeValue<'d>>| {
            let Some(content) = item.get_ref().as_table() else {
                return self.refuse_list(key, &title, item);
            };
            let path = format!("{}.{kind}", self.full(key));
            let Some(value) = content.get(kind) else {
                let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                let remedy = format!("add {kind}: one of {}", names.join(", "));
                self.reader.report(Some(&item.span()), &path, "is missing", remedy);
                return None;
            };
            match String::from_value(value.get_ref()).and_then(|text| one_of(&text, &words)) {
                Ok((word, table)) => self.open(key, table, item).map(|section| (word, section)),
                Err(refusal) => {
                    self.reader
                        .report(Some(&value.span()), &path, refusal.message, refusal.remedy);
                    None
                }
            }
        };
        self.items(key, &title).into_iter().map(open).collect()
    }

    fn items(&self, key: &str, title: &str) -> Vec<&'d Spanned<DeValue<'d>>> {
        let Some(value) = self.find(key) else { return Vec::new() };
        if let DeValue::Array(items) = value.get_ref() {
            return items.iter().collect();
        }
        self.refuse_list::<()>(key, title, value);
        Vec::new()
    }

    /// Reports that a value is no list of tables, and returns nothing.
    fn refuse_list<T>(&self, key: &str, title: &str, value: &Spanned<DeValue<'_>>) -> Option<T> {
        let refusal = wrong_kind(value.get_ref(), "a list of tables", &format!("it as {title}"));
        self.refuse_at(&value.span(), key, refusal);
        None
    }

    fn open(&self, key: &str, table: &'static Table, value: &'d Spanned<DeValue<'d>>) -> Option<Section<'d>> {
        let content = value.get_ref().as_table()?;
        Some(Section::new(
            self.reader,
            table,
            self.full(key),
            Some(value.span()),
            content,
        ))
    }

    /// Reports a problem with a key; with the table where the key is absent.
    pub fn refuse(&self, key: &str, refusal: Refusal) {
        let span = self.content.get(key).map(Spanned::span).or_else(|| self.span.clone());
        self.reader
            .report(span.as_ref(), &self.full(key), refusal.message, refusal.remedy);
    }

    /// Notes problems that were found in another file on behalf of this one.
    pub fn pass_on(&self, problems: Vec<Problem>) {
        for problem in problems {
            self.reader.add(problem);
        }
    }

    fn refuse_at(&self, span: &Range<usize>, key: &str, refusal: Refusal) {
        self.reader
            .report(Some(span), &self.full(key), refusal.message, refusal.remedy);
    }

    fn find(&self, key: &str) -> Option<&'d Spanned<DeValue<'d>>> {
        assert!(
            self.table.key(key).is_some(),
            "{key} is read from {} but not listed there",
            self.table.title
        );
        self.content.get(key)
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}
