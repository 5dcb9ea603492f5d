//! Parsing of a storage's answer to a PROPFIND (RFC 4918 section 9.1).

use quick_xml::{NsReader, events::Event, name::ResolveResult};
use serde::Serialize;

/// The requested properties.
pub const WANTED: &str = concat!(
    r#"<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/><D:getcontentlength/>"#,
    "<D:getlastmodified/><D:quota-used-bytes/><D:quota-available-bytes/></D:prop></D:propfind>"
);

/// Elements within one another: a listing has seven.
const DEPTH: usize = 64;

/// The answer is no listing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the listing cannot be read: {0}")]
pub struct NoListing(String);

type Result<T> = std::result::Result<T, NoListing>;

/// A file or a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its path as the server writes it, decoded; a directory's ends in `/`.
    pub path: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Of a file, where the server tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// As HTTP writes dates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of a directory, bytes in use, where the server tells.
    pub used: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of a directory, bytes that are free, where the server tells.
    pub available: Option<u64>,
}

impl Entry {
    /// The last component of its path.
    pub fn name(&self) -> &str {
        self.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
    }
}

/// Reads a multistatus document.
///
/// # Errors
/// It is none, or has elements deep within one another.
pub fn parse(document: &[u8]) -> Result<Vec<Entry>> {
    let mut reader = NsReader::from_reader(document);
    reader.config_mut().expand_empty_elements = true;
    reader.config_mut().trim_text(true);
    let mut open: Vec<String> = Vec::new();
    let mut entries = Vec::new();
    let mut entry = Entry::default();
    let mut text = String::new();
    let mut rooted = false;
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(no("it is no XML"))?;
        match event {
            Event::Start(element) => {
                let dav = matches!(namespace, ResolveResult::Bound(namespace) if namespace.as_ref() == b"DAV:");
                let name = weir_auth::peer_text(element.local_name().as_ref());
                if open.is_empty() && !(dav && name == "multistatus") {
                    return Err(NoListing(format!("its root is {name}, not multistatus")));
                }
                rooted = true;
                if open.len() == DEPTH {
                    return Err(NoListing(format!(
                        "it has more than {DEPTH} elements within one another"
                    )));
                }
                text.clear();
                if dav && name == "collection" {
                    entry.directory = true;
                }
                open.push(if dav { name } else { String::new() });
            }
            Event::Text(part) => text.push_str(&part.xml_content().map_err(no("its text cannot be read"))?),
            Event::GeneralRef(part) => text.push(reference(&part)?),
            Event::End(_) => {
                let name = open.pop().unwrap_or_default();
                if name == "response" {
                    entries.push(std::mem::take(&mut entry));
                } else {
                    take(&mut entry, &name, open.last().map_or("", String::as_str), &text);
                }
                text.clear();
            }
            Event::DocType(_) => return Err(NoListing("it has a document type".to_owned())),
            Event::Eof if open.is_empty() && rooted => return Ok(entries),
            Event::Eof => return Err(NoListing("it ends in the middle".to_owned())),
            _ => {}
        }
    }
}

fn no<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> NoListing {
    move |error| NoListing(format!("{what}: {error}"))
}

fn reference(part: &quick_xml::events::BytesRef<'_>) -> Result<char> {
    if let Some(character) = part.resolve_char_ref().map_err(no("a character reference is wrong"))? {
        return Ok(character);
    }
    Ok(match &**part {
        b"lt" => '<',
        b"gt" => '>',
        b"amp" => '&',
        b"apos" => '\'',
        b"quot" => '"',
        _ => return Err(NoListing("it has an entity that is not declared".to_owned())),
    })
}

/// Takes the value of an element that ends. Properties that the server lacks come empty, with another status.
fn take(entry: &mut Entry, name: &str, within: &str, text: &str) {
    let number = || text.trim().parse().ok();
    match name {
        "href" if within == "response" => entry.path = path(text.trim()),
        "getcontentlength" => entry.size = number(),
        "getlastmodified" if !text.is_empty() => entry.modified = Some(text.trim().to_owned()),
        "quota-used-bytes" => entry.used = number(),
        "quota-available-bytes" => entry.available = number(),
        _ => {}
    }
}

/// The path of an `href`, which may be a whole URL.
fn path(href: &str) -> String {
    let path = match href.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => href,
    };
    percent_encoding::percent_decode_str(path)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn other_servers_prefixes_and_whole_urls_are_read() {
        let document = br#"<?xml version="1.0"?><a:multistatus xmlns:a="DAV:" xmlns:z="urn:z">
            <a:response><a:href>https://h:1/d/</a:href><a:propstat><a:prop><a:resourcetype><a:collection/></a:resourcetype>
            <a:quota-used-bytes>5</a:quota-used-bytes><a:quota-available-bytes>7</a:quota-available-bytes></a:prop>
            <a:status>HTTP/1.1 200 OK</a:status></a:propstat></a:response>
            <a:response><a:href>/d/x%20&amp;%C3%A9</a:href><a:propstat><a:prop><a:getcontentlength>12</a:getcontentlength>
            <z:getcontentlength>99</z:getcontentlength><a:getlastmodified>Sun, 22 Nov 2026 12:00:00 GMT</a:getlastmodified>
            <a:resourcetype/></a:prop></a:propstat><a:propstat><a:prop><a:quota-used-bytes/></a:prop>
            <a:status>HTTP/1.1 404 Not Found</a:status></a:propstat></a:response></a:multistatus>"#;
        let entries = parse(document).unwrap();
        let directory = Entry {
            path: "/d/".into(),
            directory: true,
            used: Some(5),
            available: Some(7),
            ..Entry::default()
        };
        let file = Entry {
            path: "/d/x &é".into(),
            size: Some(12),
            modified: Some("Sun, 22 Nov 2026 12:00:00 GMT".into()),
            ..Entry::default()
        };
        assert_eq!(entries, [directory, file]);
        assert_eq!(entries[1].name(), "x &é");
        assert_eq!(entries[0].name(), "d");
    }

    #[test]
    fn an_answer_that_is_no_listing_is_an_error() {
        for document in [
            "",
            "hello",
            "<html/>",
            "<multistatus/>",
            "<D:multistatus xmlns:D=\"DAV:\"><D:response>",
            "<!DOCTYPE a><D:multistatus xmlns:D=\"DAV:\"/>",
            "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>&x;</D:href></D:response></D:multistatus>",
        ] {
            assert!(parse(document.as_bytes()).is_err(), "{document}");
        }
        let deep = "<a>".repeat(1000);
        assert!(parse(format!("<D:multistatus xmlns:D=\"DAV:\">{deep}").as_bytes()).is_err());
    }
}
