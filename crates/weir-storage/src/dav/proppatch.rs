//! The body of a PROPPATCH.

use super::{
    propfind::Property,
    xml::{DAV, Malformed, Properties, Root, Visit, walk},
};

/// Reads the body of a PROPPATCH (RFC 4918 section 14.19): the properties that it would set or remove, each once.
pub fn parse_update(body: &[u8]) -> Result<Vec<Property>, Malformed> {
    let mut reading = Update::default();
    walk(body, &mut reading)?;
    reading.root.finish()?;
    let properties = reading.properties.into_list();
    if properties.is_empty() {
        return Err(Malformed::because("no property is named"));
    }
    Ok(properties)
}

/// How far the document has been understood. `depth` counts open elements.
#[derive(Default)]
struct Update {
    depth: usize,
    root: Root,
    /// Inside `set` or `remove`.
    instruction: bool,
    /// Inside its `prop`, whose children are properties.
    collecting: bool,
    properties: Properties,
}

impl Visit for Update {
    fn enter(&mut self, namespace: &str, name: &str) -> Result<(), Malformed> {
        match self.depth {
            0 => self.root.open("propertyupdate", namespace, name)?,
            1 => self.instruction = namespace == DAV && matches!(name, "set" | "remove"),
            2 => self.collecting = self.instruction && namespace == DAV && name == "prop",
            3 if self.collecting => self.properties.add(namespace, name)?,
            _ => {}
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.collecting &= self.depth > 2;
        self.instruction &= self.depth > 1;
        if self.depth == 0 {
            self.root.close();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn what_is_set_and_removed_is_named() {
        let body = br#"<?xml version="1.0"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:z">
            <D:set><D:prop><D:getetag>x</D:getetag><Z:author><Z:name>n</Z:name></Z:author></D:prop></D:set>
            <D:remove><D:prop><Z:old/></D:prop></D:remove></D:propertyupdate>"#;
        let unknown = |name: &str| Property::Unknown {
            namespace: "urn:z".to_owned(),
            name: name.to_owned(),
        };
        assert_eq!(
            parse_update(body).unwrap(),
            [Property::Etag, unknown("author"), unknown("old")]
        );
    }

    #[test]
    fn what_is_no_update_is_refused() {
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
    }
}
