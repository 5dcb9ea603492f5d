//! Data identifiers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::word::words;

/// Longest scope (Rucio's `SCOPE_LENGTH`).
const SCOPE_MAX: usize = 30;

/// Longest name, in characters (Rucio's `NAME_LENGTH`).
const NAME_MAX: usize = 250;

/// Says why a text is no scope, no name or no DID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// It is no scope.
    #[error("\"{0}\" is no scope: 1 to 30 letters, digits, -, _ and .")]
    Scope(String),
    /// There is no character, or there are more than 250.
    #[error("the name of a DID has 1 to 250 characters, \"{start}…\" has {length}")]
    Length {
        /// Its first characters.
        start: String,
        /// The number of its characters.
        length: usize,
    },
    /// A control character would break a log, a URL or a file name, and clients write a space as `+` in paths.
    #[error("the name \"{0}\" holds a control character or white space")]
    Control(String),
    /// A part of the name would lead to another folder of a storage.
    #[error("the name \"{0}\" holds the path segment \"{1}\"")]
    Segment(String, &'static str),
    /// There is no colon.
    #[error("\"{0}\" is not of the form scope:name")]
    Form(String),
}

/// Names a namespace of DIDs: 1 to 30 letters, digits, `-`, `_` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Scope(Box<str>);

/// Names a DID in its scope: 1 to 250 characters, no control characters, no white space, and no path segment `.` or `..`. Slashes, quotes and letters of
/// every language are allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DidName(Box<str>);

impl Scope {
    /// The scope as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DidName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn shown(text: &str) -> String {
    text.chars()
        .take(40)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

impl FromStr for Scope {
    type Err = DidError;

    fn from_str(text: &str) -> Result<Self, DidError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        // A scope is a folder at a storage, too.
        if (1..=SCOPE_MAX).contains(&text.len()) && text.chars().all(fits) && !matches!(text, "." | "..") {
            Ok(Self(text.into()))
        } else {
            Err(DidError::Scope(shown(text)))
        }
    }
}

impl FromStr for DidName {
    type Err = DidError;

    fn from_str(text: &str) -> Result<Self, DidError> {
        // A longer text is not counted to its end.
        let length = text.chars().take(NAME_MAX + 1).count();
        if !(1..=NAME_MAX).contains(&length) {
            let (start, length) = (shown(text), text.chars().count());
            return Err(DidError::Length { start, length });
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(DidError::Control(shown(text)));
        }
        for segment in [".", ".."] {
            if text.split('/').any(|part| part == segment) {
                return Err(DidError::Segment(shown(text), segment));
            }
        }
        Ok(Self(text.into()))
    }
}

macro_rules! as_text {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}
as_text!(Scope);
as_text!(DidName);

/// A data identifier: `scope:name`. Unique in a catalogue, for ever: the name of a deleted DID is not given again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Did {
    /// Its namespace.
    pub scope: Scope,
    /// Its name there.
    pub name: DidName,
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.scope, self.name))
    }
}

impl FromStr for Did {
    type Err = DidError;

    /// Reads `scope:name`; the first colon separates.
    fn from_str(text: &str) -> Result<Self, DidError> {
        let (scope, name) = text.split_once(':').ok_or_else(|| DidError::Form(shown(text)))?;
        Ok(Self {
            scope: scope.parse()?,
            name: name.parse()?,
        })
    }
}

words! {
    /// The type of a DID.
    DidType, "DID type" {
        /// A file: the unit of replicas and locks.
        File = "FILE", 'F';
        /// A set of files.
        Dataset = "DATASET", 'D';
        /// A set of datasets and containers.
        Container = "CONTAINER", 'C';
    }
}

impl DidType {
    /// Whether DIDs of this type may be attached to one of `parent`.
    pub fn fits_into(self, parent: Self) -> bool {
        match parent {
            Self::File => false,
            Self::Dataset => self == Self::File,
            Self::Container => self != Self::File,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn names_hold_every_letter_and_no_way_out_of_a_folder() {
        for name in [
            "f",
            "/store/data/f",
            "a:b",
            "it's\"quoted\"",
            "𝔘ber",
            "..a",
            "a..",
            "a+b",
        ] {
            let did = format!("user.alice:{name}");
            assert_eq!(did.parse::<Did>().unwrap().to_string(), did);
        }
        let refused = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Did>().unwrap_err().to_string(), expected);
        };
        refused("nothing", "\"nothing\" is not of the form scope:name");
        refused("a b:c", "\"a b\" is no scope: 1 to 30 letters, digits, -, _ and .");
        refused("..:c", "\"..\" is no scope: 1 to 30 letters, digits, -, _ and .");
        refused("a:", "the name of a DID has 1 to 250 characters, \"…\" has 0");
        refused("a:b/../c", "the name \"b/../c\" holds the path segment \"..\"");
        refused("a:./c", "the name \"./c\" holds the path segment \".\"");
        refused("a:b\nc", "the name \"b?c\" holds a control character or white space");
        refused("a:b c", "the name \"b c\" holds a control character or white space");
        assert!("é".repeat(250).parse::<DidName>().is_ok() && "é".repeat(251).parse::<DidName>().is_err());
    }

    #[test]
    fn files_are_in_datasets_and_datasets_in_containers() {
        use DidType::{Container, Dataset, File};
        assert!(File.fits_into(Dataset) && Dataset.fits_into(Container) && Container.fits_into(Container));
        assert!(!File.fits_into(Container) && !Dataset.fits_into(Dataset) && !File.fits_into(File));
    }
}
