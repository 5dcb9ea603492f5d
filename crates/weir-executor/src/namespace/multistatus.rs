//! A streaming reader of multistatus documents (RFC 4918 section 13) that keeps only the requested properties.
//!
//! Storages differ in their output: prefixes and order are free, unknown elements are skipped, XRootD has its own date
//! format and sets `iscollection` for files. Limits apply to all bytes, to those of one name or text, to depth,
//! entries, and the names of all.

use std::io;

use bytes::Bytes;
use http_body::Body;
use quick_xml::{
    NsReader,
    escape::resolve_predefined_entity,
    events::{BytesRef, Event},
    name::ResolveResult,
};

use super::bounded::{BYTES_MAX, Bounded, PIECE_MAX};
use crate::job::SIZE_MAX;

/// Entries of one directory that are shown.
pub(crate) const ENTRIES_MAX: usize = 100_000;

/// Bytes of all names together, as JSON has them.
const NAMES_MAX: usize = 16 << 20;

/// Elements in each other; eight are needed.
const DEPTH_MAX: usize = 32;

/// Size of a name in JSON: control characters are written with six.
fn json_length(name: &str) -> usize {
    name.chars()
        .map(|one| match one {
            '"' | '\\' => 2,
            _ if one.is_ascii_control() => 6,
            _ => one.len_utf8(),
        })
        .sum()
}

/// The properties of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Names in its path.
    pub(super) depth: usize,
    /// The last of them, decoded; `None` of the root.
    pub(super) name: Option<String>,
    /// If nothing could be told but this.
    pub(super) status: Option<u16>,
    pub(super) attributes: Attributes,
}

/// Properties of a path, as far as they were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Whether it is a directory.
    pub collection: Option<bool>,
    /// Bytes.
    pub size: Option<u64>,
    /// When it was last changed, in seconds since the epoch.
    pub modified: Option<i64>,
    /// When it was made.
    pub created: Option<i64>,
    /// Kind and permissions, as `st_mode` has them.
    pub mode: Option<u32>,
}

impl Attributes {
    fn complete(&mut self, other: Self) {
        self.collection = other.collection.or(self.collection);
        self.size = other.size.or(self.size);
        self.modified = other.modified.or(self.modified);
        self.created = other.created.or(self.created);
        self.mode = other.mode.or(self.mode);
    }
}

/// Why an answer was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error("more than {0} entries")]
    TooMany(usize),
    #[error("more than {} MiB", BYTES_MAX >> 20)]
    TooLarge,
    #[error("names of more than {} MiB", NAMES_MAX >> 20)]
    TooLong,
    #[error("the answer broke off: {0}")]
    Broken(String),
    #[error("the answer is no multistatus: {0}")]
    Garbage(String),
}

fn garbage(why: impl std::fmt::Display) -> Unread {
    Unread::Garbage(why.to_string())
}

/// Reads a body to its end, or to the first entry that is one too many.
pub(super) async fn read<B>(body: B, entries_max: usize) -> Result<Vec<Entry>, Unread>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut reader = NsReader::from_reader(Bounded::new(body));
    reader.config_mut().expand_empty_elements = true;
    let (mut reading, mut piece) = (Reading::default(), Vec::new());
    let (mut entries, mut names) = (Vec::new(), 0);
    loop {
        piece.clear();
        reader.get_mut().begin_piece();
        let (namespace, event) = match reader.read_resolved_event_into_async(&mut piece).await {
            Ok(read) => read,
            Err(quick_xml::Error::Io(error)) => return Err(stopped(&error)),
            Err(error) => return Err(garbage(error)),
        };
        match event {
            Event::Start(element) => {
                let namespace = XmlNamespace::of(&namespace);
                reading.enter(namespace, element.local_name().as_ref())?;
            }
            Event::Text(text) => reading.say(&text.decode().map_err(garbage)?)?,
            Event::CData(text) => reading.say(&text.decode().map_err(garbage)?)?,
            Event::GeneralRef(reference) => reading.refer(&reference)?,
            Event::End(_) => {
                let Some(entry) = reading.leave() else { continue };
                names += entry.name.as_deref().map_or(0, json_length);
                if entries.len() == entries_max {
                    return Err(Unread::TooMany(entries_max));
                }
                if names > NAMES_MAX {
                    return Err(Unread::TooLong);
                }
                entries.push(entry);
            }
            // Entities have no use here, and their expansion has ended other programs.
            Event::DocType(_) => return Err(garbage("it has a document type")),
            Event::Eof if reading.closed => return Ok(entries),
            Event::Eof => return Err(garbage("it ends too early")),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
        }
    }
}

fn stopped(error: &io::Error) -> Unread {
    match error.kind() {
        io::ErrorKind::FileTooLarge => Unread::TooLarge,
        io::ErrorKind::InvalidData => garbage(error),
        _ => Unread::Broken(error.to_string()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XmlNamespace {
    Dav,
    /// davix and the disk pool manager share it.
    Lcgdm,
    Other,
}

impl XmlNamespace {
    fn of(resolved: &ResolveResult<'_>) -> Self {
        match resolved {
            ResolveResult::Bound(bound) if bound.as_ref() == b"DAV:" => Self::Dav,
            ResolveResult::Bound(bound) if bound.as_ref() == b"LCGDM:" => Self::Lcgdm,
            _ => Self::Other,
        }
    }
}

/// Elements that mean something, where they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Multistatus,
    Response,
    Href,
    Status,
    PropStat,
    StatusOfProperties,
    Prop,
    Kind,
    Collection,
    IsCollection,
    Length,
    Modified,
    Created,
    Mode,
    Other,
}

impl Tag {
    fn below(above: Self, namespace: XmlNamespace, name: &[u8]) -> Self {
        if (above, namespace, name) == (Self::Prop, XmlNamespace::Lcgdm, b"mode") {
            return Self::Mode;
        }
        if namespace != XmlNamespace::Dav {
            return Self::Other;
        }
        match (above, name) {
            (Self::Multistatus, b"response") => Self::Response,
            (Self::Response, b"href") => Self::Href,
            (Self::Response, b"status") => Self::Status,
            (Self::Response, b"propstat") => Self::PropStat,
            (Self::PropStat, b"status") => Self::StatusOfProperties,
            (Self::PropStat, b"prop") => Self::Prop,
            (Self::Prop, b"resourcetype") => Self::Kind,
            (Self::Kind, b"collection") => Self::Collection,
            (Self::Prop, b"iscollection") => Self::IsCollection,
            (Self::Prop, b"getcontentlength") => Self::Length,
            (Self::Prop, b"getlastmodified") => Self::Modified,
            (Self::Prop, b"creationdate") => Self::Created,
            _ => Self::Other,
        }
    }

    /// Whether its text is read.
    fn is_text(self) -> bool {
        matches!(
            self,
            Self::Href
                | Self::Status
                | Self::StatusOfProperties
                | Self::IsCollection
                | Self::Length
                | Self::Modified
                | Self::Created
                | Self::Mode
        )
    }
}

/// How far a document has been understood.
#[derive(Debug, Default)]
struct Reading {
    open: Vec<Tag>,
    closed: bool,
    /// The text of the innermost element, if it is read.
    text: String,
    response: Response,
    properties: PropStat,
}

#[derive(Debug, Default)]
struct Response {
    href: Option<String>,
    status: Option<u16>,
    /// Of the first properties that could not be told.
    missing: Option<u16>,
    found: Option<Attributes>,
}

#[derive(Debug, Default)]
struct PropStat {
    attributes: Attributes,
    status: Option<u16>,
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

impl Reading {
    fn enter(&mut self, namespace: XmlNamespace, name: &[u8]) -> Result<(), Unread> {
        let tag = match self.open.last() {
            None if self.closed || (namespace, name) != (XmlNamespace::Dav, b"multistatus") => {
                return Err(garbage("the root must be DAV: multistatus"));
            }
            None => Tag::Multistatus,
            Some(above) => Tag::below(*above, namespace, name),
        };
        if self.open.len() == DEPTH_MAX {
            return Err(garbage("its elements are nested too deeply"));
        }
        match tag {
            Tag::Response => self.response = Response::default(),
            Tag::PropStat => self.properties = PropStat::default(),
            Tag::Kind => self.properties.attributes.collection = Some(false),
            Tag::Collection => self.properties.attributes.collection = Some(true),
            _ => {}
        }
        self.text.clear();
        self.open.push(tag);
        Ok(())
    }

    fn say(&mut self, text: &str) -> Result<(), Unread> {
        if self.open.last().is_none_or(|tag| !tag.is_text()) {
            return Ok(());
        }
        if self.text.len() + text.len() > PIECE_MAX {
            return Err(garbage("a text is too long"));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn refer(&mut self, reference: &BytesRef<'_>) -> Result<(), Unread> {
        if let Some(character) = reference.resolve_char_ref().map_err(garbage)? {
            return self.say(character.encode_utf8(&mut [0; 4]));
        }
        let name = reference.decode().map_err(garbage)?;
        let text = resolve_predefined_entity(&name).ok_or_else(|| garbage("it refers to an unknown entity"))?;
        self.say(text)
    }

    /// The entry that ends with an element, if one does.
    fn leave(&mut self) -> Option<Entry> {
        let tag = self.open.pop()?;
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let attributes = &mut self.properties.attributes;
        match tag {
            Tag::Multistatus => self.closed = true,
            Tag::Href => self.response.href = self.response.href.take().or_else(|| Some(text.to_owned())),
            Tag::Status => self.response.status = status(text),
            Tag::StatusOfProperties => self.properties.status = status(text),
            Tag::IsCollection => attributes.collection = attributes.collection.or(flag(text)),
            Tag::Length => attributes.size = text.parse().ok().filter(|size| *size <= SIZE_MAX),
            Tag::Modified => attributes.modified = seconds(text),
            Tag::Created => attributes.created = seconds(text),
            Tag::Mode => attributes.mode = mode(text),
            Tag::PropStat => self.response.add(&self.properties),
            Tag::Response => return std::mem::take(&mut self.response).entry(),
            Tag::Prop | Tag::Kind | Tag::Collection | Tag::Other => {}
        }
        None
    }
}

impl Response {
    fn add(&mut self, properties: &PropStat) {
        match properties.status {
            Some(status) if !is_success(status) => self.missing = self.missing.or(Some(status)),
            _ => self.found.get_or_insert_default().complete(properties.attributes),
        }
    }

    /// One without a path is about nothing.
    fn entry(self) -> Option<Entry> {
        let href = self.href?;
        let names = names(&href);
        let attributes = self.found.unwrap_or_default();
        let failed = self.status.filter(|status| !is_success(*status));
        let missing = if self.found.is_none() { self.missing } else { None };
        Some(Entry {
            depth: names.clone().count(),
            name: names.last().map(decoded),
            status: failed.or(missing),
            attributes,
        })
    }
}

/// The names in the path of a URL, or in a path alone.
fn names(href: &str) -> impl Iterator<Item = &str> + Clone {
    let path = match href.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]),
        _ => href,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}

fn decoded(name: &str) -> String {
    percent_encoding::percent_decode_str(name)
        .decode_utf8_lossy()
        .into_owned()
}

/// `HTTP/1.1 200 OK`.
fn status(text: &str) -> Option<u16> {
    text.split_whitespace().nth(1)?.parse().ok()
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" | "F" | "false" => Some(false),
        "1" | "T" | "true" => Some(true),
        _ => None,
    }
}

/// As HTTP writes times, or as RFC 3339 does.
pub(super) fn seconds(text: &str) -> Option<i64> {
    if let Ok(time) = httpdate::parse_http_date(text) {
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        return i64::try_from(since.as_secs()).ok();
    }
    let time = text.parse::<jiff::Timestamp>().ok()?;
    Some(time.as_second().max(0))
}

/// Octal digits.
fn mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o177_777)
}

#[cfg(test)]
mod tests;
