//! Paths in a storage endpoint's name space, after every encoding has been taken off.
//!
//! A [`StoragePath`] is a list of names, and rules compare whole names: `/foo` covers `/foo/x` and does not cover
//! `/foobar`. It is kept as one text, with a slash between names and nowhere else: a request makes several paths, and
//! each is one allocation. Names with two possible meanings (`..`, `.`, an encoded slash, NUL and other control
//! characters, bytes that are no UTF-8) are refused at the door.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Longest name of one file or directory, in bytes: the limit of Linux file systems.
pub const NAME_MAX: usize = 255;
/// Longest path, in bytes after decoding: Linux's `PATH_MAX`.
pub const PATH_MAX: usize = 4096;

/// The characters that are encoded in a segment of a URL's path: all but `pchar` (RFC 3986 section 3.3). Clients compare the paths of answers
/// with their own literally, so that an answer encodes nothing else.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Encodes a name as a segment of a URL's path: all characters but `pchar`, so that a slash is encoded, too.
pub fn url_segment(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, SEGMENT)
}

/// Why a text is no path here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathError {
    /// It does not begin with a slash.
    #[error("the path does not begin with /")]
    NotAbsolute,
    /// A name is `.` or `..`, plainly or encoded.
    #[error("the path holds {0:?}")]
    DotSegment(String),
    /// Two slashes follow each other where only the normal form is taken.
    #[error("the path holds an empty name (//)")]
    EmptyName,
    /// A name holds a slash that was encoded.
    #[error("the path holds an encoded slash")]
    EncodedSlash,
    /// A name holds NUL or another control character.
    #[error("the path holds a control character")]
    ControlCharacter,
    /// A name holds U+FFFE or U+FFFF, which no XML document can hold (XML 1.0 section 2.2).
    #[error("the path holds U+FFFE or U+FFFF, which no listing can show")]
    NotXml,
    /// `%` is not followed by two hexadecimal digits.
    #[error("the path holds a % that encodes nothing")]
    BadEscape,
    /// The decoded bytes are no UTF-8.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// A name is longer than [`NAME_MAX`] or the path longer than [`PATH_MAX`].
    #[error("the path or one of its names is too long")]
    TooLong,
}

/// An absolute, normal path: names in order, and whether it ended in a slash.
///
/// The root is the path without names; it counts as a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoragePath {
    /// The names with a slash between each two; empty for the root.
    names: String,
    directory: bool,
}

impl StoragePath {
    /// The root, `/`.
    pub fn root() -> Self {
        Self {
            names: String::new(),
            directory: true,
        }
    }

    /// Reads the path of a URL (percent-encoded, without query), as a request line carries it.
    ///
    /// Repeated slashes count as one: clients join prefixes and names carelessly, and no file has an empty name.
    pub fn from_url_path(text: &str) -> Result<Self, PathError> {
        Self::read(text, Decode::Percent, Slashes::Merge)
    }

    /// Reads the path of a scope (percent-encoded), which must be in normal form.
    pub fn from_scope_path(text: &str) -> Result<Self, PathError> {
        Self::read(text, Decode::Percent, Slashes::Strict)
    }

    /// Reads a path as a person writes it in a configuration: nothing is decoded.
    pub fn from_plain(text: &str) -> Result<Self, PathError> {
        Self::read(text, Decode::Nothing, Slashes::Merge)
    }

    fn read(text: &str, decode: Decode, slashes: Slashes) -> Result<Self, PathError> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(PathError::NotAbsolute);
        };
        if text.len() > PATH_MAX * 3 {
            return Err(PathError::TooLong);
        }
        let directory = rest.is_empty() || rest.ends_with('/');
        let rest_of_names = rest.strip_suffix('/').unwrap_or(rest);
        let mut names = String::with_capacity(rest_of_names.len());
        if !rest_of_names.is_empty() || (slashes == Slashes::Strict && !rest.is_empty()) {
            for name in rest_of_names.split('/') {
                if name.is_empty() {
                    match slashes {
                        Slashes::Merge => continue,
                        Slashes::Strict => return Err(PathError::EmptyName),
                    }
                }
                if !names.is_empty() {
                    names.push('/');
                }
                let begin = names.len();
                match decode {
                    Decode::Percent if name.contains('%') => names.push_str(&percent_decode(name)?),
                    Decode::Percent | Decode::Nothing => names.push_str(name),
                }
                check_name(&names[begin..])?;
            }
        }
        if names.len() >= PATH_MAX {
            return Err(PathError::TooLong);
        }
        Ok(Self {
            directory: directory || names.is_empty(),
            names,
        })
    }

    /// The names, from the root down. None for the root.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        // No name is empty, and the text of the root splits into one empty name.
        self.names.split('/').filter(|name| !name.is_empty())
    }

    /// The names with a slash between each two and none around them; empty for the root.
    pub fn relative(&self) -> &str {
        &self.names
    }

    /// How many names it has.
    pub fn depth(&self) -> usize {
        self.names().count()
    }

    /// Whether the text ended in a slash (always so for the root).
    pub fn is_directory(&self) -> bool {
        self.directory
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    /// The same place, said to be a directory.
    #[must_use]
    pub fn as_directory(&self) -> Self {
        Self {
            names: self.names.clone(),
            directory: true,
        }
    }

    /// The same place, said to be a file.
    #[must_use]
    pub fn as_file(&self) -> Self {
        Self {
            names: self.names.clone(),
            directory: false,
        }
    }

    /// The last name; none for the root.
    pub fn name(&self) -> Option<&str> {
        self.names().next_back()
    }

    /// The directory that holds this path; none for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let above = self.names.rsplit_once('/').map_or("", |(above, _)| above);
        Some(Self {
            names: above.to_owned(),
            directory: true,
        })
    }

    /// This path with another one, taken as relative, below it.
    #[must_use]
    pub fn join(&self, below: &Self) -> Self {
        let mut names = String::with_capacity(self.names.len() + 1 + below.names.len());
        names.push_str(&self.names);
        if !names.is_empty() && !below.is_root() {
            names.push('/');
        }
        names.push_str(&below.names);
        Self {
            names,
            directory: below.directory,
        }
    }

    /// The names below those of `above`; `None` if it does not lie there.
    fn below(&self, above: &Self) -> Option<&str> {
        if above.is_root() {
            return Some(&self.names);
        }
        let rest = self.names.strip_prefix(above.names.as_str())?;
        // Only whole names count.
        if rest.is_empty() {
            Some(rest)
        } else {
            rest.strip_prefix('/')
        }
    }

    /// Whether `self` is `other` or lies below it, by names; trailing slashes do not count.
    pub fn is_within(&self, other: &Self) -> bool {
        self.below(other).is_some()
    }

    /// Whether `self` and `other` have the same names; trailing slashes do not count.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.names == other.names
    }

    /// Whether `self` lies strictly above `other`.
    pub fn is_ancestor_of(&self, other: &Self) -> bool {
        other.is_within(self) && !other.is_same_place(self)
    }

    /// Whether a right to `self` is a right to `path`.
    ///
    /// `/foo` covers `/foo`, `/foo/` and `/foo/x`, not `/foobar`. `/foo/` covers `/foo/` and `/foo/x`, but not the file
    /// `/foo` (WLCG token profile: a trailing slash means a directory).
    pub fn covers(&self, path: &Self) -> bool {
        path.is_within(self) && (!self.directory || path.directory || !path.is_same_place(self))
    }

    /// This path as seen from `above`; none if it does not lie there.
    pub fn relative_to(&self, above: &Self) -> Option<Self> {
        let names = self.below(above)?;
        Some(Self {
            directory: self.directory || names.is_empty(),
            names: names.to_owned(),
        })
    }

    /// About how many bytes the names take in memory.
    pub(crate) fn memory(&self) -> usize {
        // With the allocator's own bytes.
        self.names.len() + 16
    }

    /// The percent-encoded form, for URLs and scopes.
    pub fn to_url_path(&self) -> String {
        let mut text = String::with_capacity(self.names.len() + 2);
        for name in self.names() {
            text.push('/');
            text.extend(url_segment(name));
        }
        if self.directory || self.is_root() {
            text.push('/');
        }
        text
    }
}

impl Ord for StoragePath {
    /// By names, as a walk through directories meets them; a file before a directory of the same names.
    fn cmp(&self, other: &Self) -> Ordering {
        let names = self.names().cmp(other.names());
        names.then(self.directory.cmp(&other.directory))
    }
}

impl PartialOrd for StoragePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Copy)]
enum Decode {
    Percent,
    Nothing,
}

#[derive(Clone, Copy, PartialEq)]
enum Slashes {
    Merge,
    Strict,
}

fn percent_decode(name: &str) -> Result<String, PathError> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            match (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(PathError::BadEscape),
            }
        } else {
            byte
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| PathError::NotUtf8)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn check_name(name: &str) -> Result<(), PathError> {
    match name {
        "." | ".." => return Err(PathError::DotSegment(name.to_owned())),
        _ if name.len() > NAME_MAX => return Err(PathError::TooLong),
        _ if name.contains('/') => return Err(PathError::EncodedSlash),
        _ if name.chars().any(char::is_control) => return Err(PathError::ControlCharacter),
        // A listing is a document of XML, which cannot represent these: with one such name its directory could not be
        // listed.
        _ if name.contains(['\u{fffe}', '\u{ffff}']) => return Err(PathError::NotXml),
        _ => {}
    }
    Ok(())
}

impl fmt::Display for StoragePath {
    /// The decoded form, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.directory && !self.is_root() { "/" } else { "" };
        write!(f, "/{}{end}", self.names)
    }
}

impl FromStr for StoragePath {
    type Err = PathError;

    /// As [`StoragePath::from_plain`].
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::from_plain(text)
    }
}

impl Serialize for StoragePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StoragePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> StoragePath {
        StoragePath::from_url_path(text).unwrap()
    }

    #[test]
    fn an_ambiguous_message_is_refused() {
        // A request could leave the directory that its token is for.
        for text in [
            "",
            "a",
            "../a",
            "/..",
            "/.",
            "/a/../b",
            "/a/..",
            "/a/./b",
            "/%2e%2e/a",
            "/a/%2E./b",
            "/.%2e",
            "/a%2fb",
            "/a%2Fb",
            "/%00",
            "/a\0b",
            "/a%0d%0ab",
            "/a\nb",
            "/a%7f",
            "/a%c2%85",
            "/%",
            "/%2",
            "/%zz",
            "/%2x",
            "/%ff",
            "/%c0%af",
            "/a/%+1",
        ] {
            assert!(StoragePath::from_url_path(text).is_err(), "{text:?}");
            assert!(StoragePath::from_scope_path(text).is_err(), "{text:?}");
        }
        for text in [
            "/...",
            "/..a",
            "/a..",
            "/%252e%252e",
            "/a\\b",
            "/~",
            "/a%20b",
            "/é",
            "/%C3%A9",
            "/%F0%9F%98%80",
        ] {
            assert!(StoragePath::from_url_path(text).is_ok(), "{text:?}");
        }
        assert!(
            StoragePath::from_plain("/a%2fb").is_ok(),
            "nothing is decoded in a configuration"
        );
        assert!(StoragePath::from_plain("/a/../b").is_err());
    }

    #[test]
    fn doubled_slashes_merge_in_requests_and_break_scopes() {
        // Clients that join a prefix and a name would find nothing, or a scope would be read in two ways.
        assert_eq!(url("//a///b//"), url("/a/b/"));
        assert_eq!(url("//"), StoragePath::root());
        for text in ["//", "//a", "/a//b", "/a//"] {
            assert_eq!(StoragePath::from_scope_path(text), Err(PathError::EmptyName), "{text}");
        }
        assert_eq!(StoragePath::from_scope_path("/").unwrap(), StoragePath::root());
        assert_eq!(StoragePath::from_scope_path("/a/").unwrap(), url("/a/"));
    }

    #[test]
    fn lengths_are_bounded() {
        // A path would be taken that no file system can hold, or of any size.
        assert!(StoragePath::from_url_path(&format!("/{}", "a".repeat(NAME_MAX))).is_ok());
        assert!(StoragePath::from_url_path(&format!("/{}", "a".repeat(NAME_MAX + 1))).is_err());
        assert!(StoragePath::from_url_path(&format!("/{}", "é".repeat(128))).is_err());
        assert!(StoragePath::from_url_path(&"/a".repeat(PATH_MAX / 2)).is_ok());
        assert!(StoragePath::from_url_path(&"/a".repeat(PATH_MAX / 2 + 1)).is_err());
        assert!(StoragePath::from_url_path(&"/".repeat(1_000_000)).is_err());
    }

    #[test]
    fn parts_of_a_path_are_what_they_say() {
        // A parent would be made in the wrong place, or a prefix cut in the wrong one.
        let path = url("/a/b%20c/d");
        assert_eq!((path.name(), path.parent().unwrap()), (Some("d"), url("/a/b%20c/")));
        assert_eq!((StoragePath::root().name(), StoragePath::root().parent()), (None, None));
        assert_eq!(url("/p/").join(&path).to_string(), "/p/a/b c/d");
        assert_eq!(path.relative_to(&url("/a")).unwrap().to_url_path(), "/b%20c/d");
        assert_eq!(path.relative_to(&path).unwrap(), StoragePath::root());
        assert_eq!(path.relative_to(&url("/a/b")), None);
        assert!(url("/a").is_ancestor_of(&path) && !path.is_ancestor_of(&path));
    }

    /// Paths of few short names, so that they often lie within each other.
    fn any_path() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec!["a", "b", "ab", "a.b", "a b"]);
        (prop::collection::vec(name, 0..4), any::<bool>()).prop_map(|(names, slash)| {
            let text = format!("/{}", names.join("/"));
            if slash && text != "/" { text + "/" } else { text }
        })
    }

    /// The rule as one would say it of texts: equal, or longer from a slash on.
    fn model(scope: &str, path: &str) -> bool {
        let dir = if scope.ends_with('/') {
            scope.to_owned()
        } else {
            format!("{scope}/")
        };
        path.starts_with(&dir) || (path == scope && !scope.ends_with('/'))
    }

    /// The text with some of its characters encoded that need not be.
    fn encoded(text: &str, choice: &[bool]) -> String {
        let choice = choice.iter().cycle();
        text.bytes()
            .zip(choice)
            .map(|(byte, encode)| match byte {
                b'/' => "/".to_owned(),
                b' ' => "%20".to_owned(),
                _ if *encode => format!("%{byte:02x}"),
                _ => char::from(byte).to_string(),
            })
            .collect()
    }

    // Rucio's client compares the paths of a listing with its own, character by character.
    #[test]
    fn allowed_characters_of_a_path_are_not_encoded() {
        let pchar = "azAZ09-._~!$&'()*+,;=:@";
        assert_eq!(url_segment(pchar).to_string(), pchar);
        assert_eq!(
            url_segment("a b/c%?#[]\"<>\\^`{|}é").to_string(),
            "a%20b%2Fc%25%3F%23%5B%5D%22%3C%3E%5C%5E%60%7B%7C%7D%C3%A9"
        );
    }

    proptest! {
        #[test]
        fn covering_agrees_with_the_rule_of_texts(scope in any_path(), path in any_path()) {
            // A token would open its neighbours' files, or not its own.
            let (from_scope, from_url) = (StoragePath::from_scope_path(&encoded(&scope, &[false])).unwrap(), url(&path));
            prop_assert_eq!(from_scope.covers(&from_url), model(&scope, &path), "{} {}", scope, path);
        }

        #[test]
        fn encoding_changes_nothing(path in any_path(), choice in prop::collection::vec(any::<bool>(), 1..20)) {
            // The same file would have two names with different rights.
            prop_assert_eq!(url(&encoded(&path, &choice)), StoragePath::from_plain(&path).unwrap());
        }

        #[test]
        fn every_path_reads_back_what_it_writes(text in "/[^/]{0,12}(/[^/]{1,12}){0,4}/?") {
            // A scope or a URL that we write would name another file.
            if let Ok(path) = StoragePath::from_plain(&text) {
                prop_assert_eq!(&StoragePath::from_scope_path(&path.to_url_path()).unwrap(), &path);
                prop_assert_eq!(&StoragePath::from_url_path(&path.to_url_path()).unwrap(), &path);
                prop_assert_eq!(&StoragePath::from_plain(&path.to_string()).unwrap(), &path);
            }
        }

        #[test]
        fn no_path_that_is_read_can_climb(text in "[/.%2eEfFa0]{0,30}") {
            // A request could leave its storage area.
            if let Ok(path) = StoragePath::from_url_path(&format!("/{text}")) {
                for name in path.names() {
                    prop_assert!(!name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']));
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            // A strange request would take the service down.
            let _ = (StoragePath::from_url_path(&text), StoragePath::from_scope_path(&text), StoragePath::from_plain(&text));
        }
    }
}
