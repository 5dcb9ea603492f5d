//! The answer to a PROPFIND: one `response` per resource, written as it comes.

use std::{fmt::Write as _, time::SystemTime};

use quick_xml::escape::escape;
use weir_units::Timestamp;

use super::{
    dead::{Dead, may_be_set},
    propfind::{OWNCLOUD, Property, STORM, WEIR, Wanted},
};

/// Opens the document.
pub const OPEN: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
/// Closes it.
pub const CLOSE: &str = "</D:multistatus>\n";

/// The properties of allprop (RFC 4918 section 15 and RFC 4331).
const ALL: &[Property] = &[
    Property::CreationDate,
    Property::DisplayName,
    Property::ContentLength,
    Property::ContentType,
    Property::Etag,
    Property::LastModified,
    Property::ResourceType,
    Property::SupportedLock,
    Property::QuotaAvailable,
    Property::QuotaUsed,
];

/// One resource as PROPFIND shows it.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Absolute and percent-encoded; ends in `/` for a collection.
    pub href: String,
    /// The last component, decoded.
    pub name: String,
    /// A directory.
    pub collection: bool,
    /// In bytes; 0 for a collection.
    pub size: u64,
    /// When the content last changed.
    pub modified: SystemTime,
    /// When it was made, where the file system knows.
    pub created: Option<SystemTime>,
    /// With its quotes.
    pub etag: String,
    /// Available and used bytes, for collections of an area with known sizes.
    pub quota: Option<(u64, u64)>,
    /// Known checksums as `adler32:0a1b2c3d`; empty if none are stored or none were asked for.
    pub checksums: Vec<String>,
    /// Properties that clients have made up; empty if there are none or none were asked for.
    pub dead: Vec<Dead>,
}

/// The path of a URL, of decoded components.
pub fn href<'a>(components: impl IntoIterator<Item = &'a str>, collection: bool) -> String {
    let mut href = String::new();
    for component in components {
        href.push('/');
        href.extend(weir_auth::url_segment(component));
    }
    if collection || href.is_empty() {
        href.push('/');
    }
    href
}

/// Appends one `response` element.
pub fn write_resource(text: &mut String, resource: &Resource, wanted: &Wanted) {
    let _ = write!(text, "<D:response><D:href>{}</D:href>", escape(&resource.href));
    match wanted {
        Wanted::Names => {
            let own = ALL.iter().filter_map(|property| name_of(property, resource));
            let dead = resource.dead.iter().map(|dead| empty_element(&dead.property()));
            write_found(text, own.chain(dead));
        }
        Wanted::All(include) => {
            let own = ALL.iter().chain(include);
            let own = own.filter_map(|property| value_of(property, resource));
            // A property included by name is there already.
            let dead = resource.dead.iter();
            let dead = dead.filter(|dead| !include.iter().any(|named| dead.is(named)));
            write_found(text, own.chain(dead.map(|dead| dead.element.clone())));
        }
        Wanted::These(properties) => {
            let (found, missing): (Vec<_>, Vec<_>) = properties
                .iter()
                .map(|property| (property, value_of(property, resource)))
                .partition(|(_, value)| value.is_some());
            if !found.is_empty() || missing.is_empty() {
                write_found(text, found.into_iter().filter_map(|(_, value)| value));
            }
            if !missing.is_empty() {
                let names = missing.into_iter().map(|(property, _)| empty_element(property));
                write_propstat(text, names, "404 Not Found");
            }
        }
    }
    text.push_str("</D:response>\n");
}

/// Appends the `response` of a resource whose properties were all changed.
pub fn write_changed(text: &mut String, href: &str, properties: &[&Property]) {
    let _ = write!(text, "<D:response><D:href>{}</D:href>", escape(href));
    write_found(text, properties.iter().map(|property| empty_element(property)));
    text.push_str("</D:response>\n");
}

/// Why properties were not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchanged {
    /// Clients' own properties are not stored here.
    NotKept,
    /// At least one of them is protected; the others were not changed for that.
    Protected,
    /// There is no room for them.
    NoRoom,
}

/// Appends the `response` of a resource whose properties were not changed: live ones are protected (RFC 4918 sections
/// 9.2.1 and 16).
pub fn write_refused(text: &mut String, href: &str, properties: &[&Property], why: Unchanged) {
    let _ = write!(text, "<D:response><D:href>{}</D:href>", escape(href));
    let is_other = |property: &&Property| match why {
        Unchanged::NotKept => matches!(property, Property::Unknown { .. }),
        Unchanged::Protected => may_be_set(property),
        Unchanged::NoRoom => true,
    };
    let (others, protected): (Vec<&Property>, Vec<&Property>) = properties.iter().copied().partition(is_other);
    if !protected.is_empty() {
        text.push_str("<D:propstat><D:prop>");
        text.extend(protected.into_iter().map(empty_element));
        text.push_str(
            "</D:prop><D:status>HTTP/1.1 403 Forbidden</D:status>\
             <D:error><D:cannot-modify-protected-property/></D:error></D:propstat>",
        );
    }
    if !others.is_empty() {
        let status = match why {
            Unchanged::NotKept => "403 Forbidden",
            Unchanged::Protected => "424 Failed Dependency",
            Unchanged::NoRoom => "507 Insufficient Storage",
        };
        write_propstat(text, others.into_iter().map(empty_element), status);
    }
    text.push_str("</D:response>\n");
}

fn write_found(text: &mut String, elements: impl Iterator<Item = String>) {
    write_propstat(text, elements, "200 OK");
}

fn write_propstat(text: &mut String, elements: impl Iterator<Item = String>, status: &str) {
    text.push_str("<D:propstat><D:prop>");
    text.extend(elements);
    let _ = write!(text, "</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>");
}

/// The element's name without a value, for properties that the resource has.
fn name_of(property: &Property, resource: &Resource) -> Option<String> {
    value_of(property, resource).map(|_| empty_element(property))
}

fn empty_element(property: &Property) -> String {
    match property {
        Property::Unknown { namespace, name } if namespace.is_empty() => format!("<{name} xmlns=\"\"/>"),
        Property::Unknown { namespace, name } => format!("<X:{name} xmlns:X=\"{}\"/>", escape(namespace.as_str())),
        Property::Mode => "<L:mode xmlns:L=\"LCGDM:\"/>".into(),
        Property::Checksums => format!("<W:checksums xmlns:W=\"{WEIR}\"/>"),
        Property::StormChecksum => format!("<S:Checksum xmlns:S=\"{STORM}\"/>"),
        Property::OwncloudChecksums => format!("<O:checksums xmlns:O=\"{OWNCLOUD}\"/>"),
        _ => format!("<D:{}/>", dav_name(property)),
    }
}

fn dav_name(property: &Property) -> &'static str {
    match property {
        Property::CreationDate => "creationdate",
        Property::DisplayName => "displayname",
        Property::ContentLength => "getcontentlength",
        Property::ContentType => "getcontenttype",
        Property::Etag => "getetag",
        Property::LastModified => "getlastmodified",
        Property::ResourceType => "resourcetype",
        Property::SupportedLock => "supportedlock",
        Property::QuotaAvailable => "quota-available-bytes",
        Property::QuotaUsed => "quota-used-bytes",
        _ => unreachable!("only properties of the DAV: namespace come here"),
    }
}

fn value_of(property: &Property, resource: &Resource) -> Option<String> {
    let file = !resource.collection;
    let value = match property {
        Property::CreationDate => Timestamp::from(resource.created.unwrap_or(resource.modified)).rfc3339_seconds(),
        Property::DisplayName => escape(&resource.name).into_owned(),
        Property::ContentLength if file => resource.size.to_string(),
        Property::ContentType if file => "application/octet-stream".into(),
        Property::Etag if file => escape(&resource.etag).into_owned(),
        Property::LastModified => httpdate::fmt_http_date(resource.modified),
        Property::ResourceType if resource.collection => "<D:collection/>".into(),
        Property::ResourceType | Property::SupportedLock => String::new(),
        Property::QuotaAvailable => resource.quota?.0.to_string(),
        Property::QuotaUsed => resource.quota?.1.to_string(),
        Property::Mode => {
            let mode = if resource.collection { "40755" } else { "100644" };
            return Some(format!("<L:mode xmlns:L=\"LCGDM:\">{mode}</L:mode>"));
        }
        Property::Checksums => {
            let all = listed(&resource.checksums, str::to_owned)?;
            return Some(format!("<W:checksums xmlns:W=\"{WEIR}\">{all}</W:checksums>"));
        }
        Property::StormChecksum => {
            let value = resource
                .checksums
                .iter()
                .find_map(|checksum| checksum.strip_prefix("adler32:"))?;
            return Some(format!("<S:Checksum xmlns:S=\"{STORM}\">{value}</S:Checksum>"));
        }
        Property::OwncloudChecksums => {
            let all = listed(&resource.checksums, |checksum| {
                let (algorithm, value) = checksum.split_once(':').unwrap_or((checksum, ""));
                format!("{}:{value}", algorithm.to_ascii_uppercase())
            })?;
            return Some(format!(
                "<O:checksums xmlns:O=\"{OWNCLOUD}\"><O:checksum>{all}</O:checksum></O:checksums>"
            ));
        }
        unknown => {
            return resource
                .dead
                .iter()
                .find(|dead| dead.is(unknown))
                .map(|dead| dead.element.clone());
        }
    };
    let name = dav_name(property);
    Some(format!("<D:{name}>{value}</D:{name}>"))
}

fn listed(checksums: &[String], each: impl Fn(&str) -> String) -> Option<String> {
    if checksums.is_empty() {
        return None;
    }
    Some(
        checksums
            .iter()
            .map(|checksum| each(checksum))
            .collect::<Vec<_>>()
            .join(" "),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::dav::parse;

    fn file() -> Resource {
        Resource {
            href: href(["dir", "a b+c&<é>%.root"], false),
            name: "a b+c&<é>%.root".into(),
            collection: false,
            size: 12,
            modified: UNIX_EPOCH + Duration::from_secs(1_709_208_000),
            created: None,
            etag: "\"1-c-2\"".into(),
            quota: None,
            checksums: vec!["adler32:0a1b2c3d".into(), "crc32c:00000001".into()],
            dead: Vec::new(),
        }
    }

    fn written(resource: &Resource, wanted: &Wanted) -> String {
        let mut text = OPEN.to_owned();
        write_resource(&mut text, resource, wanted);
        text.push_str(CLOSE);
        // The result must be well formed for every input.
        let mut reader = quick_xml::Reader::from_str(&text);
        while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
        text
    }

    /// Names with reserved characters would point elsewhere, or break the document.
    #[test]
    fn names_are_encoded_twice_over() {
        let text = written(&file(), &Wanted::All(vec![]));
        assert!(
            text.contains("<D:href>/dir/a%20b+c&amp;%3C%C3%A9%3E%25.root</D:href>"),
            "{text}"
        );
        assert!(
            text.contains("<D:displayname>a b+c&amp;&lt;é&gt;%.root</D:displayname>"),
            "{text}"
        );
        assert!(
            text.contains("<D:getlastmodified>Thu, 29 Feb 2024 12:00:00 GMT</D:getlastmodified>"),
            "{text}"
        );
        assert!(
            text.contains("<D:creationdate>2024-02-29T12:00:00Z</D:creationdate>"),
            "{text}"
        );
        assert!(
            text.contains("<D:getcontentlength>12</D:getcontentlength>") && !text.contains("collection"),
            "{text}"
        );
        assert_eq!(href([], true), "/");
    }

    /// davix reads size, dates and type from named properties, and must not see others as found.
    #[test]
    fn named_properties_are_split_into_found_and_missing() {
        let wanted = parse(br#"<propfind xmlns="DAV:" xmlns:z="urn:&lt;z&gt;"><prop><getcontentlength/><quota-used-bytes/><z:q/><n xmlns=""/></prop></propfind>"#).unwrap();
        let text = written(&file(), &wanted);
        let (found, missing) = text
            .split_once("404 Not Found")
            .map(|(before, _)| before.split_once("200 OK").unwrap())
            .unwrap();
        assert!(
            found.contains("getcontentlength") && missing.contains("quota-used-bytes") && missing.contains(":q "),
            "{text}"
        );
        let directory = Resource {
            collection: true,
            quota: Some((5, 7)),
            ..file()
        };
        let text = written(&directory, &wanted);
        assert!(text.contains("<D:quota-used-bytes>7<"), "{text}");
        let names = written(&directory, &Wanted::Names);
        assert!(
            names.contains("<D:quota-available-bytes/>") && !names.contains("getcontentlength"),
            "{names}"
        );
    }

    /// rclone and StoRM's clients each look for checksums under their own name.
    #[test]
    fn checksums_are_shown_in_three_dialects() {
        let wanted = Wanted::These(vec![
            Property::Checksums,
            Property::StormChecksum,
            Property::OwncloudChecksums,
        ]);
        let text = written(&file(), &wanted);
        assert!(
            text.contains(">adler32:0a1b2c3d crc32c:00000001<")
                && text.contains(">0a1b2c3d<")
                && text.contains(">ADLER32:0a1b2c3d CRC32C:00000001<"),
            "{text}"
        );
    }
}
