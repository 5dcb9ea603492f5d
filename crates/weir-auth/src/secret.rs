//! Values that must never be seen: they print as `***` everywhere.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::files::read_own;

/// The replacement of a secret in every text.
pub const MASK: &str = "***";

/// A token, a password or a private key.
///
/// `Debug`, `Display` and `Serialize` give `***`, whatever the length; only [`Secret::expose`] gives the value. Clones are
/// cheap and share the memory, which is overwritten when the last one is dropped.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Takes the value into custody.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Arc::new(Zeroizing::new(value.into())))
    }

    /// The value itself: for the wire, never for a text that a person reads.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Reads a secret from a file of the user's own ([`read_own`]), without the white space around it.
    ///
    /// # Errors
    /// The errors of reading the file, and `InvalidData` if it is empty.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        let text = Zeroizing::new(read_own(path)?);
        let value = text.trim();
        if value.is_empty() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "the file is empty",
            ));
        }
        Ok(Self::new(value))
    }

    /// Compares in a time that does not depend on where the two differ.
    ///
    /// The digests of both are compared, so that the length does not show either.
    pub fn matches(&self, other: &str) -> bool {
        let ours = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.expose().as_bytes());
        let theirs = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, other.as_bytes());
        aws_lc_rs::constant_time::verify_slices_are_equal(ours.as_ref(), theirs.as_ref()).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.expose())
    }
}

impl Eq for Secret {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use super::*;

    #[test]
    fn no_formatting_shows_the_value_or_its_length() {
        // A secret could be read in a log.
        let secret = Secret::new("correct horse");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "*** *** ***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
        assert_eq!(secret.expose(), "correct horse");
    }

    #[test]
    fn only_the_same_value_matches() {
        // A wrong password would be let in, or a right one refused.
        let secret = Secret::new("abc");
        assert!(secret.matches("abc"));
        for wrong in ["", "ab", "abcd", "abd", "ABC"] {
            assert!(!secret.matches(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_is_trimmed_and_must_hold_something() {
        // A trailing newline would become part of a token; an empty file a valid password.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "  value\n").unwrap();
        assert_eq!(Secret::read(&file).unwrap().expose(), "value");
        std::fs::write(&file, " \n").unwrap();
        assert!(Secret::read(&file).is_err());
    }
}
