//! URLs that commands put together.

/// All but the unreserved characters of RFC 3986 section 2.3.
const RESERVED: percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A text as one component of a path, or as a value in a query.
pub(crate) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, &RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An escaped dot would show another name; an unescaped slash or question mark would request another path.
    #[test]
    fn plain_characters_are_not_escaped() {
        assert_eq!(encoded("data-1_a.b~c.bin"), "data-1_a.b~c.bin");
        assert_eq!(encoded("a/b?c d%e"), "a%2Fb%3Fc%20d%25e");
        assert_eq!(encoded("é"), "%C3%A9");
    }
}
