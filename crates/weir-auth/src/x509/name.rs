//! Distinguished names as grids write them: `/DC=ch/DC=cern/CN=Somebody`.

use std::fmt::Write as _;

use x509_parser::prelude::{FromDer as _, X509Name};

/// A name in slash form, as OpenSSL's `X509_NAME_oneline` prints it and as grid-mapfiles, LSC files and FTS write it:
/// bytes that are no printable ASCII become `\xHH`.
///
/// The form does not tell a slash in a value from one between values: chains that hold a name with such a value are refused
/// ([`reads_as_another`]).
pub(crate) fn slash_form(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for attribute in name.iter_attributes() {
        let oid = attribute.attr_type().to_id_string();
        text.push('/');
        text.push_str(short_name(&oid).unwrap_or(&oid));
        text.push('=');
        for byte in attribute.attr_value().data {
            match byte {
                b' '..=b'~' => text.push(char::from(*byte)),
                _ => write!(text, "\\x{byte:02X}").expect("writing to a string cannot fail"),
            }
        }
    }
    text
}

/// Whether a value of a name holds text that the slash form shows as a further attribute: `O=Good/CN=admin`. Slashes before
/// anything else are fine, as in `CN=host/node.example.org`.
pub(crate) fn reads_as_another(name: &X509Name<'_>) -> bool {
    name.iter_attributes().any(|attribute| {
        let value = attribute.attr_value().data;
        let parts = value.split(|byte| *byte == b'/').skip(1);
        let mut keys = parts.filter_map(|part| {
            part.split(|byte| *byte == b'=')
                .next()
                .filter(|key| key.len() < part.len())
        });
        keys.any(is_key)
    })
}

/// Whether this stands before `=` in a slash form: a short name, or a dotted number.
fn is_key(text: &[u8]) -> bool {
    let dotted = !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    dotted || SHORT_NAMES.iter().any(|(_, short)| short.as_bytes() == text)
}

/// The slash form of a name in DER; none if it is no name.
pub(crate) fn slash_form_of_der(der: &[u8]) -> Option<String> {
    let (rest, name) = X509Name::from_der(der).ok()?;
    rest.is_empty().then(|| slash_form(&name))
}

/// OpenSSL's short names of the attributes that certificates of grids hold; others are written as dotted numbers.
const SHORT_NAMES: [(&str, &str); 22] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
];

fn short_name(oid: &str) -> Option<&'static str> {
    let found = SHORT_NAMES.iter().find(|(known, _)| *known == oid);
    found.map(|(_, short)| *short)
}

/// The common name at the very end of a name, if there is one.
pub(crate) fn last_common_name<'a>(name: &X509Name<'a>) -> Option<&'a [u8]> {
    let last = name.iter_rdn().last()?;
    let mut attributes = last.iter();
    let attribute = attributes.next().filter(|_| attributes.next().is_none())?;
    (attribute.attr_type().to_id_string() == "2.5.4.3").then(|| attribute.attr_value().data)
}

/// A name as a file writes it, with the spellings of older OpenSSL converted to those of [`slash_form`].
pub(crate) fn usual_form(name: &str) -> String {
    let mut name = name.trim().to_owned();
    for (old, usual) in [
        ("/Email=", "/emailAddress="),
        ("/E=", "/emailAddress="),
        ("/USERID=", "/UID="),
    ] {
        name = name.replace(old, usual);
    }
    name
}
