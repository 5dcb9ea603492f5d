//! A reader of DER, one element after the other, where no structure of `x509-parser` fits; and a writer for the few
//! elements that we make.

use x509_parser::asn1_rs::{Any, Class, FromDer as _};

/// Universal tags in use here.
pub(crate) const INTEGER: u32 = 2;
pub(crate) const BIT_STRING: u32 = 3;
pub(crate) const OCTET_STRING: u32 = 4;
pub(crate) const OID: u32 = 6;
pub(crate) const SEQUENCE: u32 = 16;
pub(crate) const SET: u32 = 17;

/// One element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a> {
    /// With tag and length.
    pub(crate) raw: &'a [u8],
    pub(crate) content: &'a [u8],
    class: Class,
    tag: u32,
}

impl<'a> Element<'a> {
    pub(crate) fn is(&self, tag: u32) -> bool {
        self.class == Class::Universal && self.tag == tag
    }

    /// A context-specific tag, `[n]`.
    pub(crate) fn is_context(&self, tag: u32) -> bool {
        self.class == Class::ContextSpecific && self.tag == tag
    }

    /// The content.
    pub(crate) fn inside(&self) -> Der<'a> {
        Der { rest: self.content }
    }
}

/// A sequence of elements. Every error is the name of the expected element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Der<'a> {
    rest: &'a [u8],
}

impl<'a> Der<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, of any type; `None` at the end and before invalid DER.
    pub(crate) fn next(&mut self) -> Option<Element<'a>> {
        let (rest, any) = Any::from_der(self.rest).ok()?;
        let raw = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Some(Element {
            raw,
            content: any.data,
            class: any.class(),
            tag: any.tag().0,
        })
    }

    /// The next element if it fits; else nothing is taken.
    pub(crate) fn next_if(&mut self, fits: impl Fn(&Element<'a>) -> bool) -> Option<Element<'a>> {
        let mut ahead = *self;
        let element = ahead.next().filter(fits)?;
        *self = ahead;
        Some(element)
    }

    /// The next element, which must have this universal tag.
    pub(crate) fn expect(&mut self, tag: u32, what: &'static str) -> Result<Element<'a>, &'static str> {
        self.next_if(|element| element.is(tag)).ok_or(what)
    }

    /// All elements; an error if invalid DER follows the last one.
    pub(crate) fn all(mut self, what: &'static str) -> Result<Vec<Element<'a>>, &'static str> {
        let mut elements = Vec::new();
        while !self.is_empty() {
            elements.push(self.next().ok_or(what)?);
        }
        Ok(elements)
    }
}

/// An element with this identifier octet, and these parts one after the other inside.
pub(crate) fn encode(identifier: u8, inside: &[&[u8]]) -> Vec<u8> {
    let content = inside.concat();
    let mut element = vec![identifier];
    if let Ok(short @ 0..=127) = u8::try_from(content.len()) {
        element.push(short);
    } else {
        let length = content.len().to_be_bytes();
        let zeros = length.iter().take_while(|byte| **byte == 0).count();
        let length = &length[zeros..];
        element.push(0x80 | length.len().to_le_bytes()[0]);
        element.extend(length);
    }
    element.extend(content);
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our own output would be readable by no program, ours included.
    #[test]
    fn a_written_value_reads_back() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let der = encode(0x30, &[&content[..length / 2], &content[length / 2..]]);
            let mut row = Der::new(&der);
            let element = row
                .next()
                .map(|element| (element.is(SEQUENCE), element.content.to_vec()));
            assert_eq!(element, Some((true, content)), "{length}");
            assert!(row.is_empty());
        }
    }
}
