//! What the documents of clients have in common: read element by element, within limits.

use quick_xml::{
    NsReader,
    events::{BytesStart, Event},
    name::ResolveResult,
};

use super::propfind::Property;

/// The namespace of RFC 4918.
pub(super) const DAV: &str = "DAV:";

/// The namespaces of XML itself. No document may declare them, so that no answer can tell of a name in them
/// (Namespaces in XML 1.0 section 3).
const RESERVED: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"];

/// More than any client names at once (davix: 9); beyond it the request is refused.
const PROPERTIES_LIMIT: usize = 128;

/// The most bytes that the names of properties nobody knows may have together: each is told back for every entry.
const UNKNOWN_LIMIT: usize = 4096;

/// A body that is not the document that the method takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed body: {0}")]
pub struct Malformed(String);

impl Malformed {
    pub(super) fn because(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// Is told of each element's beginning and end.
pub(super) trait Visit {
    fn enter(&mut self, namespace: &str, name: &str) -> Result<(), Malformed>;
    fn leave(&mut self);
}

/// Reads a document to its end.
///
/// A document type is refused: entities have no use here, and their expansion has ended other servers.
pub(super) fn walk(body: &[u8], visitor: &mut impl Visit) -> Result<(), Malformed> {
    let mut reader = NsReader::from_reader(body);
    reader.config_mut().expand_empty_elements = true;
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(Malformed::because)?;
        match event {
            Event::Start(element) => {
                let namespace = bound(&namespace)?;
                check_declarations(&element)?;
                let name = element.local_name();
                let name = std::str::from_utf8(name.as_ref()).map_err(Malformed::because)?;
                visitor.enter(&namespace, name)?;
            }
            Event::End(_) => visitor.leave(),
            Event::DocType(_) => return Err(Malformed::because("a document type is not accepted")),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

fn bound(namespace: &ResolveResult<'_>) -> Result<String, Malformed> {
    match namespace {
        ResolveResult::Bound(namespace) => Ok(std::str::from_utf8(namespace.as_ref())
            .map_err(Malformed::because)?
            .to_owned()),
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Unknown(_) => Err(Malformed::because("a prefix is not declared")),
    }
}

/// Namespaces in XML 1.0 section 2.2: a prefix cannot be bound to nothing.
fn check_declarations(element: &BytesStart<'_>) -> Result<(), Malformed> {
    for attribute in element.attributes() {
        let attribute = attribute.map_err(Malformed::because)?;
        if attribute.key.as_ref().starts_with(b"xmlns:") && attribute.value.is_empty() {
            return Err(Malformed::because("a prefix is bound to no namespace"));
        }
    }
    Ok(())
}

/// The one element that holds all others.
#[derive(Default, PartialEq)]
pub(super) enum Root {
    #[default]
    Awaited,
    Open,
    Closed,
}

impl Root {
    pub(super) fn open(&mut self, expected: &str, namespace: &str, name: &str) -> Result<(), Malformed> {
        if *self == Self::Closed || (namespace, name) != (DAV, expected) {
            return Err(Malformed::because(format_args!("the root must be DAV: {expected}")));
        }
        *self = Self::Open;
        Ok(())
    }

    pub(super) fn close(&mut self) {
        *self = Self::Closed;
    }

    pub(super) fn finish(&self) -> Result<(), Malformed> {
        if *self == Self::Closed {
            return Ok(());
        }
        Err(Malformed::because("the document is not complete"))
    }
}

/// Properties that a document names, each once.
#[derive(Default)]
pub(super) struct Properties {
    list: Vec<Property>,
    /// Length of the names of unknown ones.
    unknown: usize,
}

impl Properties {
    pub(super) fn add(&mut self, namespace: &str, name: &str) -> Result<(), Malformed> {
        if self.list.len() == PROPERTIES_LIMIT {
            return Err(Malformed::because(format_args!(
                "more than {PROPERTIES_LIMIT} properties"
            )));
        }
        if !is_name(name) || RESERVED.contains(&namespace) || !namespace.chars().all(is_char) {
            return Err(Malformed::because("a property has no valid name"));
        }
        let property = Property::named(namespace, name);
        if self.list.contains(&property) {
            return Ok(());
        }
        if let Property::Unknown { namespace, name } = &property {
            self.unknown += namespace.len() + name.len();
            if self.unknown > UNKNOWN_LIMIT {
                return Err(Malformed::because(format_args!(
                    "the names of unknown properties have more than {UNKNOWN_LIMIT} bytes"
                )));
            }
        }
        self.list.push(property);
        Ok(())
    }

    pub(super) fn into_list(self) -> Vec<Property> {
        self.list
    }
}

/// A name without a colon (XML 1.0 section 2.3).
fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(begins_name) && characters.all(continues_name)
}

fn begins_name(character: char) -> bool {
    matches!(character,
        'A'..='Z' | 'a'..='z' | '_' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}'
        | '\u{37f}'..='\u{1fff}' | '\u{200c}' | '\u{200d}' | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}'
        | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
}

fn continues_name(character: char) -> bool {
    begins_name(character)
        || matches!(character, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}' | '\u{2040}')
}

/// What a document may hold at all (XML 1.0 section 2.2).
fn is_char(character: char) -> bool {
    !matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}
