//! Parsing of clients' documents: element by element, within limits.

use std::fmt::Write as _;

use quick_xml::{
    NsReader,
    escape::escape,
    events::{BytesRef, BytesStart, Event},
    name::{PrefixDeclaration, ResolveResult},
};

use super::propfind::Property;

/// The namespace of RFC 4918.
pub(super) const DAV: &str = "DAV:";

/// The namespaces of XML itself. No document may declare them, so that no answer can tell of a name in them
/// (Namespaces in XML 1.0 section 3).
const RESERVED: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"];

/// More than any client names at once (davix: 9); beyond it the request is refused.
pub(super) const PROPERTIES_LIMIT: usize = 128;

/// Largest total size of the names of unknown properties: each is returned for every entry.
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

/// Is told of each element's beginning and end, and of the text between them.
pub(super) trait Visit {
    fn enter(&mut self, namespace: &str, name: &str, tag: &Tag<'_>) -> Result<(), Malformed>;
    /// `tag`: the name as the document has it, with its prefix.
    fn leave(&mut self, tag: &str);
    /// A piece of text, decoded.
    fn text(&mut self, _text: &str) {}
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
                check_names(&element)?;
                let name = element.local_name();
                let tag = Tag {
                    reader: &reader,
                    element: &element,
                };
                visitor.enter(&namespace, utf8(name.as_ref())?, &tag)?;
            }
            Event::End(element) => visitor.leave(utf8(element.name().as_ref())?),
            Event::Text(text) => visitor.text(checked(&text.decode().map_err(Malformed::because)?)?),
            Event::CData(text) => visitor.text(checked(&text.decode().map_err(Malformed::because)?)?),
            Event::GeneralRef(reference) => visitor.text(checked(referred(&reference)?.encode_utf8(&mut [0; 4]))?),
            Event::DocType(_) => return Err(Malformed::because("a document type is not accepted")),
            Event::Eof => return Ok(()),
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// The character that a reference stands for: a number, or one of the five names that need no document type.
fn referred(reference: &BytesRef<'_>) -> Result<char, Malformed> {
    if let Some(character) = reference.resolve_char_ref().map_err(Malformed::because)? {
        return Ok(character);
    }
    match &*reference.decode().map_err(Malformed::because)? {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(Malformed::because("an entity is not declared")),
    }
}

/// Text that a document of ours may hold as well.
fn checked(text: &str) -> Result<&str, Malformed> {
    if text.chars().all(is_char) {
        return Ok(text);
    }
    Err(Malformed::because("a character is not allowed in XML"))
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(Malformed::because)
}

/// The beginning of an element, as the document has it.
pub(super) struct Tag<'a> {
    reader: &'a NsReader<&'a [u8]>,
    element: &'a BytesStart<'a>,
}

impl Tag<'_> {
    /// The value of `xml:lang`, if it has one.
    pub(super) fn language(&self) -> Result<Option<String>, Malformed> {
        for attribute in self.element.attributes() {
            let attribute = attribute.map_err(Malformed::because)?;
            if attribute.key.as_ref() == LANGUAGE.as_bytes() {
                let value = attribute.unescape_value().map_err(Malformed::because)?;
                return Ok(Some(checked(&value)?.to_owned()));
            }
        }
        Ok(None)
    }

    /// Writes it out as the beginning of a document, which must stand wherever it is put: with all namespaces that are declared around
    /// it, and with the language around it.
    pub(super) fn write_outermost(&self, text: &mut String, language: Option<&str>) -> Result<(), Malformed> {
        self.write_name(text)?;
        for (prefix, namespace) in self.reader.prefixes() {
            let namespace = utf8(namespace.0)?;
            match prefix {
                PrefixDeclaration::Default => write_attribute(text, "xmlns", unescaped(namespace)?.as_ref()),
                PrefixDeclaration::Named(prefix) => {
                    let name = format!("xmlns:{}", utf8(prefix)?);
                    write_attribute(text, &name, unescaped(namespace)?.as_ref());
                }
            }
        }
        self.write_attributes(text, |name| name != "xmlns" && !name.starts_with("xmlns:"))?;
        if let Some(language) = language.filter(|_| matches!(self.language(), Ok(None))) {
            write_attribute(text, LANGUAGE, language);
        }
        text.push('>');
        Ok(())
    }

    /// Writes it out within such a document.
    pub(super) fn write_inner(&self, text: &mut String) -> Result<(), Malformed> {
        self.write_name(text)?;
        self.write_attributes(text, |_| true)?;
        text.push('>');
        Ok(())
    }

    fn write_name(&self, text: &mut String) -> Result<(), Malformed> {
        let name = self.element.name();
        text.push('<');
        text.push_str(qualified(utf8(name.as_ref())?)?);
        Ok(())
    }

    fn write_attributes(&self, text: &mut String, wanted: impl Fn(&str) -> bool) -> Result<(), Malformed> {
        for attribute in self.element.attributes() {
            let attribute = attribute.map_err(Malformed::because)?;
            let name = qualified(utf8(attribute.key.as_ref())?)?;
            if name != "xmlns" && !name.starts_with("xmlns:") {
                bound(&self.reader.resolver().resolve_attribute(attribute.key).0)?;
            }
            if wanted(name) {
                let value = attribute.unescape_value().map_err(Malformed::because)?;
                write_attribute(text, name, checked(&value)?);
            }
        }
        Ok(())
    }
}

const LANGUAGE: &str = "xml:lang";

/// Namespaces are kept by the reader as the document writes them.
fn unescaped(namespace: &str) -> Result<std::borrow::Cow<'_, str>, Malformed> {
    let namespace = quick_xml::escape::unescape(namespace).map_err(Malformed::because)?;
    checked(&namespace)?;
    Ok(namespace)
}

/// A name, with or without a prefix.
fn qualified(name: &str) -> Result<&str, Malformed> {
    let (prefix, local) = name.split_once(':').unwrap_or(("xml", name));
    if is_name(prefix) && is_name(local) {
        return Ok(name);
    }
    Err(Malformed::because("a name is not valid"))
}

fn write_attribute(text: &mut String, name: &str, value: &str) {
    let _ = write!(text, " {name}=\"");
    write_escaped(text, value);
    text.push('"');
}

/// Readers turn white space into blanks in attributes, and carriage returns into line feeds everywhere: not where it is written as a
/// number.
pub(super) fn write_escaped(text: &mut String, value: &str) {
    for character in escape(value).chars() {
        match character {
            '\t' | '\n' | '\r' => drop(write!(text, "&#{};", u32::from(character))),
            other => text.push(other),
        }
    }
}

fn bound(namespace: &ResolveResult<'_>) -> Result<String, Malformed> {
    match namespace {
        ResolveResult::Bound(namespace) => Ok(unescaped(utf8(namespace.as_ref())?)?.into_owned()),
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Unknown(_) => Err(Malformed::because("a prefix is not declared")),
    }
}

/// Names of elements, attributes and prefixes are names (XML 1.0 section 2.3), and a prefix is bound (Namespaces
/// section 2.2). The stored part of a document must be a document again.
fn check_names(element: &BytesStart<'_>) -> Result<(), Malformed> {
    qualified(utf8(element.name().as_ref())?)?;
    for attribute in element.attributes() {
        let attribute = attribute.map_err(Malformed::because)?;
        let name = qualified(utf8(attribute.key.as_ref())?)?;
        if name.starts_with("xmlns:") && attribute.value.is_empty() {
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

/// The characters that a document may contain (XML 1.0 section 2.2).
fn is_char(character: char) -> bool {
    !matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}
