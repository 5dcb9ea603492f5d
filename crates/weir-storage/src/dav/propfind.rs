//! The body of a PROPFIND.

use super::xml::{DAV, Malformed, Properties, Root, Tag, Visit, walk};

/// The namespace that davix and the disk pool manager share.
const LCGDM: &str = "LCGDM:";
/// Our own namespace.
pub(super) const WEIR: &str = "urn:weir:dav";
/// Where StoRM WebDAV shows its adler32.
pub(super) const STORM: &str = "http://storm.italiangrid.org/2014/webdav";
/// Where ownCloud shows checksums; rclone reads them.
pub(super) const OWNCLOUD: &str = "http://owncloud.org/ns";

/// A property that a client names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// `DAV:creationdate`.
    CreationDate,
    /// `DAV:displayname`.
    DisplayName,
    /// `DAV:getcontentlength`.
    ContentLength,
    /// `DAV:getcontenttype`.
    ContentType,
    /// `DAV:getetag`.
    Etag,
    /// `DAV:getlastmodified`.
    LastModified,
    /// `DAV:resourcetype`.
    ResourceType,
    /// `DAV:supportedlock`: empty, since there are no locks.
    SupportedLock,
    /// `DAV:quota-available-bytes` (RFC 4331).
    QuotaAvailable,
    /// `DAV:quota-used-bytes` (RFC 4331).
    QuotaUsed,
    /// `LCGDM:mode`, as davix shows it in a long listing.
    Mode,
    /// `urn:weir:dav checksums`: all that are known, as `adler32:0a1b2c3d crc32c:…`.
    Checksums,
    /// StoRM WebDAV's `Checksum`: adler32 in hexadecimal.
    StormChecksum,
    /// ownCloud's `checksums`.
    OwncloudChecksums,
    /// Anything else: answered by 404 under its own name.
    Unknown {
        /// The namespace, maybe empty.
        namespace: String,
        /// The local name; a valid XML name.
        name: String,
    },
}

impl Property {
    pub(super) fn named(namespace: &str, name: &str) -> Self {
        match (namespace, name) {
            (DAV, "creationdate") => Self::CreationDate,
            (DAV, "displayname") => Self::DisplayName,
            (DAV, "getcontentlength") => Self::ContentLength,
            (DAV, "getcontenttype") => Self::ContentType,
            (DAV, "getetag") => Self::Etag,
            (DAV, "getlastmodified") => Self::LastModified,
            (DAV, "resourcetype") => Self::ResourceType,
            (DAV, "supportedlock") => Self::SupportedLock,
            (DAV, "quota-available-bytes") => Self::QuotaAvailable,
            (DAV, "quota-used-bytes") => Self::QuotaUsed,
            (LCGDM, "mode") => Self::Mode,
            (WEIR, "checksums") => Self::Checksums,
            (STORM, "Checksum") => Self::StormChecksum,
            (OWNCLOUD, "checksums") => Self::OwncloudChecksums,
            _ => Self::Unknown {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
        }
    }

    /// Whether it needs the file's stored checksums.
    pub fn is_checksum(&self) -> bool {
        matches!(self, Self::Checksums | Self::StormChecksum | Self::OwncloudChecksums)
    }
}

/// The request of a PROPFIND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All of RFC 4918's own, and these beside them.
    All(Vec<Property>),
    /// Only the names.
    Names,
    /// These, in this order.
    These(Vec<Property>),
}

impl Wanted {
    /// Whether the properties that clients have made up must be read.
    pub fn needs_dead(&self) -> bool {
        match self {
            Self::All(_) | Self::Names => true,
            Self::These(properties) => properties
                .iter()
                .any(|property| matches!(property, Property::Unknown { .. })),
        }
    }

    /// Whether stored checksums must be read.
    pub fn needs_checksums(&self) -> bool {
        match self {
            Self::All(properties) | Self::These(properties) => properties.iter().any(Property::is_checksum),
            Self::Names => false,
        }
    }
}

/// Reads the body of a PROPFIND (RFC 4918 section 14.20). An empty one asks for everything (section 9.1).
pub fn parse(body: &[u8]) -> Result<Wanted, Malformed> {
    if body.trim_ascii().is_empty() {
        return Ok(Wanted::All(Vec::new()));
    }
    let mut reading = PropfindReader::default();
    walk(body, &mut reading)?;
    reading.finish()
}

/// How far the document has been understood. `depth` counts open elements.
#[derive(Default)]
struct PropfindReader {
    depth: usize,
    root: Root,
    form: Option<Form>,
    /// Inside `prop` or `include`, whose children are properties.
    collecting: bool,
    properties: Properties,
}

enum Form {
    AllProp,
    PropName,
    Prop,
}

impl Visit for PropfindReader {
    fn enter(&mut self, namespace: &str, name: &str, _tag: &Tag<'_>) -> Result<(), Malformed> {
        match self.depth {
            0 => self.root.open("propfind", namespace, name)?,
            1 if namespace == DAV => match name {
                "allprop" => self.choose(Form::AllProp)?,
                "propname" => self.choose(Form::PropName)?,
                "prop" => {
                    self.choose(Form::Prop)?;
                    self.collecting = true;
                }
                "include" => self.collecting = true,
                // Unknown elements are ignored (section 17).
                _ => {}
            },
            2 if self.collecting => self.properties.add(namespace, name)?,
            _ => {}
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self, _tag: &str) {
        self.depth -= 1;
        self.collecting &= self.depth > 1;
        if self.depth == 0 {
            self.root.close();
        }
    }
}

impl PropfindReader {
    fn choose(&mut self, form: Form) -> Result<(), Malformed> {
        match self.form.replace(form) {
            None => Ok(()),
            Some(_) => Err(Malformed::because("only one of allprop, propname and prop is allowed")),
        }
    }

    fn finish(self) -> Result<Wanted, Malformed> {
        self.root.finish()?;
        let properties = self.properties.into_list();
        match self.form {
            Some(Form::AllProp) => Ok(Wanted::All(properties)),
            Some(Form::PropName) => Ok(Wanted::Names),
            Some(Form::Prop) => Ok(Wanted::These(properties)),
            None => Err(Malformed::because("one of allprop, propname and prop is needed")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn check(body: &str, expected: &Wanted) {
        assert_eq!(&parse(body.as_bytes()).unwrap(), expected, "{body}");
    }

    /// A client that gets other properties than it asked for shows no sizes or dates.
    #[test]
    fn bodies_as_clients_send_them() {
        check("", &Wanted::All(vec![]));
        check(
            r#"<?xml version="1.0"?><propfind xmlns="DAV:"><allprop/></propfind>"#,
            &Wanted::All(vec![]),
        );
        check(
            r#"<D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>"#,
            &Wanted::Names,
        );
        check(
            r#"<?xml version="1.0" encoding="utf-8" ?><D:propfind xmlns:D="DAV:" xmlns:L="LCGDM:"><D:prop><D:displayname/><D:getlastmodified></D:getlastmodified><L:mode/><D:owner/></D:prop></D:propfind>"#,
            &Wanted::These(vec![
                Property::DisplayName,
                Property::LastModified,
                Property::Mode,
                Property::Unknown {
                    namespace: "DAV:".into(),
                    name: "owner".into(),
                },
            ]),
        );
        check(
            r#"<d:propfind xmlns:d="DAV:"><d:allprop/><d:include><checksums xmlns="urn:weir:dav"/></d:include></d:propfind>"#,
            &Wanted::All(vec![Property::Checksums]),
        );
        check(
            r#"<a:propfind xmlns:a="DAV:"><a:prop><x/></a:prop></a:propfind>"#,
            &Wanted::These(vec![Property::Unknown {
                namespace: String::new(),
                name: "x".into(),
            }]),
        );
    }

    /// A body accepted by mistake hides a client's bug; an entity expanded by mistake ends the server.
    #[test]
    fn malformed_bodies_are_refused() {
        for body in [
            "<",
            "x",
            "<propfind/>",
            r#"<propfind xmlns="DAV:"/>"#,
            r#"<propfind xmlns="DAV:"><allprop/>"#,
            r#"<propfind xmlns="DAV:"><allprop/></propfin>"#,
            r#"<propfind xmlns="DAV:"><allprop/><propname/></propfind>"#,
            "<D:propfind><D:allprop/></D:propfind>",
            r#"<D:propfind xmlns:D="DAV:"><D:prop><bar:foo xmlns:bar=""/></D:prop></D:propfind>"#,
            r#"<D:propfind xmlns:D="DAV:"><D:prop><xmlns:foo/></D:prop></D:propfind>"#,
            r#"<D:propfind xmlns:D="DAV:"><D:prop><xml:foo/></D:prop></D:propfind>"#,
            r#"<propfind xmlns="DAV:"><prop><a²/></prop></propfind>"#,
            r#"<propfind xmlns="DAV:"><prop><µ/></prop></propfind>"#,
            "<propfind xmlns=\"DAV:\"><prop><a xmlns=\"\u{1}\"/></prop></propfind>",
            r#"<!DOCTYPE x [<!ENTITY a "b">]><propfind xmlns="DAV:"><allprop/></propfind>"#,
            r#"<propfind xmlns="DAV:"><allprop/></propfind><propfind xmlns="DAV:"><allprop/></propfind>"#,
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
        let many = "<a/>".repeat(10_000);
        assert!(
            parse(format!(r#"<propfind xmlns="DAV:"><prop>{many}</prop></propfind>"#).as_bytes()).is_ok(),
            "duplicates count once"
        );
        let many = (0..1000).map(|n| format!("<a{n}/>")).collect::<Vec<_>>().concat();
        assert!(parse(format!(r#"<propfind xmlns="DAV:"><prop>{many}</prop></propfind>"#).as_bytes()).is_err());
    }
}
