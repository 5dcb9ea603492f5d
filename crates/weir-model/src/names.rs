//! Names of sites, RSEs and VOs, and the link between two RSEs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Longest name: fits a DNS label and a column of a table.
const LENGTH_MAX: usize = 63;

/// Says why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no character at all.
    #[error("the name is empty")]
    Empty,
    /// There are more than 63 characters.
    #[error("the name is longer than 63 characters")]
    TooLong,
    /// A character is none of letters, digits, `.`, `_`, `-`, or the first one is no letter or digit.
    #[error("the name \"{name}\" holds '{character}'")]
    Character {
        /// The name as it was read.
        name: String,
        /// The first character that does not belong there.
        character: char,
    },
}

/// A name as a part of a shell variable's name: `DC-1.disk` becomes `DC_1_DISK`. The RSEs of one grid file differ in it.
pub fn variable(name: &str) -> String {
    name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
        .to_ascii_uppercase()
}

fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > LENGTH_MAX {
        return Err(NameError::TooLong);
    }
    let fits = |(at, c): (usize, char)| c.is_ascii_alphanumeric() || (at > 0 && matches!(c, '.' | '_' | '-'));
    match name.chars().enumerate().find(|item| !fits(*item)) {
        Some((_, character)) => Err(NameError::Character {
            name: name.to_owned(),
            character,
        }),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        ///
        /// 1 to 63 characters: a letter or digit, then letters, digits, `.`, `_` and `-`. Safe in paths and URLs.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $type(String);

        impl $type {
            /// Makes a name of a text that follows the rule.
            pub fn new(name: impl Into<String>) -> Result<$type, NameError> {
                let name = name.into();
                check(&name).map(|()| $type(name))
            }

            /// Gives the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<$type, NameError> {
                $type::new(text)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                $type::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }
    };
}

name! {
    /// Names a storage element (RSE) within its grid.
    RseName
}
name! {
    /// Names a site: an institute with one or more RSEs.
    SiteName
}
name! {
    /// Names a virtual organisation.
    VoName
}
name! {
    /// Names a grid.
    GridName
}

/// An ordered pair of RSEs. Prints as `RAL→QMUL`; ordered by source, then destination.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// Where the data is.
    pub source: RseName,
    /// Where the data goes.
    pub destination: RseName,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}→{}", self.source, self.destination))
    }
}

impl FromStr for Link {
    type Err = NameError;

    /// Reads `RAL→QMUL` or `RAL->QMUL`.
    fn from_str(text: &str) -> Result<Link, NameError> {
        let parts = text.split_once('→').or_else(|| text.split_once("->"));
        let (source, destination) = parts.ok_or_else(|| NameError::Character {
            name: text.to_owned(),
            character: ' ',
        })?;
        Ok(Link {
            source: RseName::new(source.trim())?,
            destination: RseName::new(destination.trim())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_words_of_any_shell() {
        assert_eq!(variable("DC-1.disk"), "DC_1_DISK");
    }
}
