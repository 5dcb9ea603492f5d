//! Forms: bodies and queries of the kind `application/x-www-form-urlencoded`.
//!
//! Source: WHATWG URL Standard, section 5. The reader is stricter in one point: bytes that are not UTF-8 are an error.
//! A replaced character in a secret or a scope would make another secret or scope of it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode, utf8_percent_encode};

/// Characters that are escaped: all but letters, digits and `-._*`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

/// A name or a value of a form is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the form is not UTF-8")]
pub struct NotUtf8;

/// Returns the fields of a form, in their order. A field without `=` has an empty value.
///
/// # Errors
/// [`NotUtf8`], of any field.
pub fn read(body: &[u8]) -> Result<Vec<(String, String)>, NotUtf8> {
    let fields = body.split(|byte| *byte == b'&').filter(|field| !field.is_empty());
    let field = |field: &[u8]| {
        let middle = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
        let value = field.get(middle + 1..).unwrap_or_default();
        Ok((decode(&field[..middle])?, decode(value)?))
    };
    fields.map(field).collect()
}

/// Decodes a name or a value of a form: `+` is a blank.
///
/// # Errors
/// [`NotUtf8`].
pub fn decode(text: &[u8]) -> Result<String, NotUtf8> {
    let blank = |byte: &u8| if *byte == b'+' { b' ' } else { *byte };
    let spaced = text.iter().map(blank).collect::<Vec<_>>();
    String::from_utf8(percent_decode(&spaced).collect()).map_err(|_| NotUtf8)
}

/// Encodes a name or a value of a form. A blank is `%20`, which every reader understands.
pub fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, ESCAPED)
}

/// Returns a form of these fields.
pub fn write<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut form = String::new();
    for (name, value) in fields {
        if !form.is_empty() {
            form.push('&');
        }
        form.extend(encode(name));
        form.push('=');
        form.extend(encode(value));
    }
    form
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn fields_are_decoded_in_their_order() {
        let fields = read(b"a=1+2&&b=%2B%26%C3%A9&c&=d&e=f=g");
        let expected = [
            pair("a", "1 2"),
            pair("b", "+&é"),
            pair("c", ""),
            pair("", "d"),
            pair("e", "f=g"),
        ];
        assert_eq!(fields, Ok(expected.to_vec()));
        assert_eq!(read(b""), Ok(Vec::new()));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(read(b"a=1&b=%ff"), Err(NotUtf8));
        assert_eq!(read(b"\xff=1"), Err(NotUtf8));
    }

    proptest! {
        #[test]
        fn a_written_form_reads_back(fields in proptest::collection::vec((".*", ".*"), 0..8)) {
            let written = write(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            prop_assert!(written.is_ascii());
            prop_assert_eq!(read(written.as_bytes()), Ok(fields));
        }
    }
}
