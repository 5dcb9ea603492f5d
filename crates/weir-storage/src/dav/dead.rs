//! Dead properties (RFC 4918 section 4.2): clients' own properties, of which the server knows only the names.

use super::{
    propfind::Property,
    proppatch::{Update, parse_kept},
    xml::{DAV, PROPERTIES_LIMIT},
};

/// The most bytes that the properties of one file or directory may have together. Many file systems keep less (ext4: some 4000).
pub(super) const DEAD_LIMIT: usize = 16 << 10;

/// The document around the stored properties of a file: a PROPPATCH that would set them.
const HEAD: &str = "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop>";
const TAIL: &str = "</D:prop></D:set></D:propertyupdate>";

/// A property that a client has made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// Its namespace, maybe empty.
    pub namespace: String,
    /// Its local name.
    pub name: String,
    /// The whole element, well formed, with all namespaces that it needs.
    pub element: String,
}

impl Dead {
    /// Whether it goes by this name.
    pub(super) fn is(&self, wanted: &Property) -> bool {
        matches!(wanted, Property::Unknown { namespace, name } if *namespace == self.namespace && *name == self.name)
    }

    pub(super) fn property(&self) -> Property {
        Property::named(&self.namespace, &self.name)
    }
}

/// Whether clients may set it: neither a live property nor another name of the standard.
pub fn may_be_set(property: &Property) -> bool {
    matches!(property, Property::Unknown { namespace, .. } if namespace != DAV)
}

/// Why properties cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the properties take more than {DEAD_LIMIT} bytes, or are more than {PROPERTIES_LIMIT}")]
pub struct TooMany;

/// The properties after these instructions.
pub fn updated(mut properties: Vec<Dead>, updates: Vec<Update>) -> Result<Vec<Dead>, TooMany> {
    for Update { property, value } in updates {
        let place = properties.iter().position(|known| known.is(&property));
        match (place, value) {
            (Some(place), Some(value)) => properties[place] = value,
            (None, Some(value)) => properties.push(value),
            (Some(place), None) => drop(properties.remove(place)),
            // RFC 4918 section 14.23: removing an absent property is no error.
            (None, None) => {}
        }
    }
    let bytes: usize = properties.iter().map(|property| property.element.len()).sum();
    if bytes > DEAD_LIMIT || properties.len() > PROPERTIES_LIMIT {
        return Err(TooMany);
    }
    Ok(properties)
}

/// The properties as text, to be kept; none if there are none.
pub fn to_text(properties: &[Dead]) -> Option<String> {
    if properties.is_empty() {
        return None;
    }
    let elements: String = properties.iter().map(|property| property.element.as_str()).collect();
    Some(format!("{HEAD}{elements}{TAIL}"))
}

/// Parses a stored text. A text in another form holds no properties: another program has written it.
pub fn from_text(text: &str) -> Vec<Dead> {
    let updates = parse_kept(text.as_bytes()).unwrap_or_default();
    let properties = updates.into_iter().filter(|update| may_be_set(&update.property));
    properties.filter_map(|update| update.value).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::{super::parse_update, *};

    fn set(name: &str, value: &str) -> String {
        format!("<D:set><D:prop><z:{name}>{value}</z:{name}></D:prop></D:set>")
    }

    fn body(instructions: &str) -> Vec<Update> {
        let text = format!("<D:propertyupdate xmlns:D=\"DAV:\" xmlns:z=\"urn:z\">{instructions}</D:propertyupdate>");
        parse_update(text.as_bytes()).unwrap()
    }

    #[test]
    fn instructions_are_carried_out_in_their_order() {
        let remove = "<D:remove><D:prop><z:a/><z:none/></D:prop></D:remove>";
        let both = updated(Vec::new(), body(&(set("a", "1") + &set("b", "2") + &set("a", "3")))).unwrap();
        let values: Vec<&str> = both.iter().map(|dead| dead.element.as_str()).collect();
        assert!(
            values.len() == 2 && values[0].contains(">3<") && values[1].contains(">2<"),
            "{values:?}"
        );
        let gone = updated(both.clone(), body(&(set("a", "4") + remove))).unwrap();
        assert_eq!(gone.len(), 1);
        let again = updated(both, body(&(remove.to_owned() + &set("a", "5")))).unwrap();
        assert_eq!(again.len(), 2);
        let long = "x".repeat(DEAD_LIMIT);
        assert_eq!(updated(Vec::new(), body(&set("a", &long))), Err(TooMany));
    }

    #[test]
    fn an_unreadable_property_is_refused() {
        let text = |declared: &str| {
            format!(
                "<D:propertyupdate xmlns:D=\"DAV:\" {declared}><D:set><D:prop><W:p xmlns:W=\"urn:w\"/></D:prop></D:set></D:propertyupdate>"
            )
        };
        assert!(parse_update(text("xmlns:good=\"urn:z\"").as_bytes()).is_ok());
        for bad in [
            "xmlns:G\u{3}\u{0}DZ=\"urn:z\"",
            "xmlns:1=\"urn:z\"",
            "a\u{1}=\"b\"",
            "xmlns:a:b=\"urn:z\"",
        ] {
            assert!(parse_update(text(bad).as_bytes()).is_err(), "{bad:?}");
        }
        // Kept by an earlier version: the file has no such properties, and its folder can be listed.
        assert_eq!(from_text("<D:propertyupdate xmlns:D=\"DAV:\" xmlns:\u{3}=\"u\"/>"), []);
    }

    #[test]
    fn only_names_that_nobody_owns_may_be_set() {
        for (namespace, name, expected) in [
            ("urn:z", "a", true),
            ("", "a", true),
            (DAV, "getetag", false),
            (DAV, "owner", false),
        ] {
            assert_eq!(
                may_be_set(&Property::named(namespace, name)),
                expected,
                "{namespace} {name}"
            );
        }
        assert!(!may_be_set(&Property::Checksums));
    }

    proptest! {
        /// A property that is stored over and over must not change.
        #[test]
        fn a_kept_record_is_read_as_it_was(values in proptest::collection::vec("[a-z<&>\"' \t\r\n\u{e9}\u{10000}]{0,20}", 1..5)) {
            let instructions: String = values.iter().enumerate().map(|(number, value)| {
                set(&format!("p{number}"), &quick_xml::escape::escape(value).replace('\r', "&#13;"))
            }).collect();
            let properties = updated(Vec::new(), body(&instructions)).unwrap();
            let text = to_text(&properties).unwrap();
            prop_assert_eq!(from_text(&text), properties);
        }
    }
}
