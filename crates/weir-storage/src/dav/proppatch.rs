//! The body of a PROPPATCH.

use super::{
    dead::{DEAD_LIMIT, Dead},
    propfind::Property,
    xml::{DAV, Malformed, Properties, Root, Tag, Visit, walk, write_escaped},
};

/// One instruction of a PROPPATCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The property.
    pub property: Property,
    /// The property as it is to be; none if it is to be removed.
    pub value: Option<Dead>,
}

/// Reads the body of a PROPPATCH (RFC 4918 section 14.19): its instructions, in their order.
pub fn parse_update(body: &[u8]) -> Result<Vec<Update>, Malformed> {
    let updates = read(body, ProppatchReader::default())?;
    if updates.is_empty() {
        return Err(Malformed::because("no property is named"));
    }
    Ok(updates)
}

/// As [`parse_update`], for a stored document whose values are complete.
pub(super) fn parse_kept(body: &[u8]) -> Result<Vec<Update>, Malformed> {
    let reading = ProppatchReader {
        kept: true,
        ..ProppatchReader::default()
    };
    read(body, reading)
}

fn read(body: &[u8], mut reading: ProppatchReader) -> Result<Vec<Update>, Malformed> {
    walk(body, &mut reading)?;
    reading.root.finish()?;
    Ok(reading.updates)
}

/// The properties of the instructions, each once.
pub fn named(updates: &[Update]) -> Vec<&Property> {
    let mut properties: Vec<&Property> = Vec::new();
    for update in updates {
        if !properties.contains(&&update.property) {
            properties.push(&update.property);
        }
    }
    properties
}

/// How far the document has been understood. `depth` counts open elements.
#[derive(Default)]
struct ProppatchReader {
    depth: usize,
    root: Root,
    /// The languages of the elements around the properties, by their depth.
    languages: [Option<String>; PROPERTY],
    /// Inside `set` or `remove`.
    instruction: Option<Instruction>,
    /// Inside its `prop`, whose children are properties.
    collecting: bool,
    properties: Properties,
    updates: Vec<Update>,
    /// The property that is to be set, as far as it was read.
    element: Option<String>,
    /// Length of those before it.
    bytes: usize,
    /// Whether values stay as they are.
    kept: bool,
}

/// The most bytes that all properties of one request may have: each comes with all namespaces around it, so that they may be far longer
/// than the request.
const BYTES_LIMIT: usize = 4 * DEAD_LIMIT;

/// How deep properties lie: in `propertyupdate`, in `set` or `remove`, in `prop`.
const PROPERTY: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Instruction {
    Set,
    Remove,
}

impl ProppatchReader {
    fn begin(&mut self, namespace: &str, name: &str, tag: &Tag<'_>) -> Result<(), Malformed> {
        self.properties.add(namespace, name)?;
        let property = Property::named(namespace, name);
        let value = if self.instruction == Some(Instruction::Set) {
            let mut element = String::new();
            if self.kept {
                tag.write_inner(&mut element)?;
            } else {
                let language = self.languages.iter().rev().flatten().next();
                tag.write_outermost(&mut element, language.map(String::as_str))?;
            }
            self.element = Some(element);
            Some(Dead {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                element: String::new(),
            })
        } else {
            None
        };
        self.updates.push(Update { property, value });
        Ok(())
    }

    fn end(&mut self) {
        let value = self.updates.last_mut().and_then(|update| update.value.as_mut());
        if let (Some(value), Some(element)) = (value, self.element.take()) {
            self.bytes += element.len();
            value.element = element;
        }
    }

    fn check_length(&self) -> Result<(), Malformed> {
        let length = self.bytes + self.element.as_ref().map_or(0, String::len);
        if length > BYTES_LIMIT {
            return Err(Malformed::because(format_args!(
                "the properties have more than {BYTES_LIMIT} bytes"
            )));
        }
        Ok(())
    }
}

impl Visit for ProppatchReader {
    fn enter(&mut self, namespace: &str, name: &str, tag: &Tag<'_>) -> Result<(), Malformed> {
        match self.depth {
            0 => self.root.open("propertyupdate", namespace, name)?,
            1 => {
                self.instruction = match name {
                    "set" if namespace == DAV => Some(Instruction::Set),
                    "remove" if namespace == DAV => Some(Instruction::Remove),
                    _ => None,
                }
            }
            2 => self.collecting = self.instruction.is_some() && namespace == DAV && name == "prop",
            PROPERTY if self.collecting => self.begin(namespace, name, tag)?,
            _ => {
                if let Some(element) = &mut self.element {
                    tag.write_inner(element)?;
                }
            }
        }
        self.check_length()?;
        if let Some(language) = self.languages.get_mut(self.depth) {
            *language = tag.language()?;
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self, tag: &str) {
        self.depth -= 1;
        if let Some(element) = &mut self.element {
            element.push_str("</");
            element.push_str(tag);
            element.push('>');
        }
        if let Some(language) = self.languages.get_mut(self.depth) {
            *language = None;
        }
        match self.depth {
            0 => self.root.close(),
            1 => self.instruction = None,
            2 => self.collecting = false,
            PROPERTY => self.end(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(element) = &mut self.element {
            write_escaped(element, text);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn unknown(namespace: &str, name: &str) -> Property {
        Property::Unknown {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn set_and_removed_properties_are_named() {
        let body = br#"<?xml version="1.0"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:z">
            <D:set><D:prop><D:getetag>x</D:getetag><Z:author><Z:name>n</Z:name></Z:author></D:prop></D:set>
            <D:remove><D:prop><Z:old/><D:getetag/></D:prop></D:remove></D:propertyupdate>"#;
        let updates = parse_update(body).unwrap();
        assert_eq!(
            named(&updates),
            [&Property::Etag, &unknown("urn:z", "author"), &unknown("urn:z", "old")]
        );
        assert_eq!(updates.len(), 4);
        let set: Vec<bool> = updates.iter().map(|update| update.value.is_some()).collect();
        assert_eq!(set, [true, true, false, false]);
    }

    /// A value is repeated in answers of another shape than the request: its namespace declarations must come along.
    #[test]
    fn a_value_is_kept_with_all_that_it_needs() {
        let body = r#"<D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:&lt;z&gt;"><D:set><D:prop xml:lang="de">
            <Z:a b="&quot;1&#10;2" D:c="x">t&amp;<!-- no --><![CDATA[<&>]]>&#65536;<Z:d xmlns="urn:e"><f xmlns=""/></Z:d></Z:a><n xml:lang="fr" xmlns="">v</n>
            </D:prop></D:set></D:propertyupdate>"#;
        let updates = parse_update(body.as_bytes()).unwrap();
        let values: Vec<&str> = updates
            .iter()
            .map(|update| update.value.as_ref().unwrap().element.as_str())
            .collect();
        assert_eq!(
            values,
            [
                "<Z:a xmlns:D=\"DAV:\" xmlns:Z=\"urn:&lt;z&gt;\" b=\"&quot;1&#10;2\" D:c=\"x\" xml:lang=\"de\">t&amp;&lt;&amp;&gt;\u{10000}\
                 <Z:d xmlns=\"urn:e\"><f xmlns=\"\"></f></Z:d></Z:a>",
                "<n xmlns:D=\"DAV:\" xmlns:Z=\"urn:&lt;z&gt;\" xml:lang=\"fr\">v</n>",
            ]
        );
        assert_eq!(updates[0].property, unknown("urn:<z>", "a"));
    }

    #[test]
    fn an_invalid_update_is_refused() {
        for body in [
            "",
            "<D:propfind xmlns:D=\"DAV:\"><D:set><D:prop><D:a/></D:prop></D:set></D:propfind>",
            "<D:propertyupdate xmlns:D=\"DAV:\"/>",
            "<D:propertyupdate xmlns:D=\"DAV:\"><D:prop><D:a/></D:prop></D:propertyupdate>",
            "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><D:a/></D:prop></D:set>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><D:a/></D:prop></D:set></D:propertyupdate>",
        ] {
            assert!(parse_update(body.as_bytes()).is_err(), "{body}");
        }
        let with = |value: &str| {
            format!(
                "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><a>{value}</a></D:prop></D:set></D:propertyupdate>"
            )
        };
        assert!(parse_update(with("<b c='1'/>&#x41;").as_bytes()).is_ok());
        for value in [
            "&b;",
            "&#0;",
            "\u{1}",
            "<c:b/>",
            "<b c:d='1'/>",
            "<b c='1' c='2'/>",
            "<b c='&e;'/>",
            "<1b/>",
            "<b 1='2'/>",
            "<a:b:c xmlns:a='x'/>",
        ] {
            assert!(parse_update(with(value).as_bytes()).is_err(), "{value}");
        }
    }
}
