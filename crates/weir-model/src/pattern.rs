//! Patterns over names: `T2-*` and `CERN->*`.

use std::fmt;

use toml::de::DeValue;

use crate::Link;
use crate::file::{FromValue, Refusal};

/// A name in which each `*` stands for any text, also none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Reads a name of 1 to 63 characters in which `*` may stand.
    ///
    /// # Errors
    /// Other characters, or too many of them.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '*');
        if text.is_empty() || text.len() > 63 || !text.chars().all(allowed) {
            return Err(Refusal::new(
                format!("\"{text}\" is no name and no pattern"),
                "write a name, or one with * for any text, such as \"T2-*\"",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it stands for this name.
    pub fn fits(&self, name: &str) -> bool {
        fits(self.0.as_bytes(), name.as_bytes())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Matches greedily with one place to come back to: linear in practice, quadratic at worst over 63 characters.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name, mut star, mut resume) = (0, 0, None, 0);
    while in_name < name.len() {
        if pattern.get(at) == Some(&b'*') {
            (star, resume) = (Some(at), in_name);
            at += 1;
        } else if pattern.get(at) == Some(&name[in_name]) {
            at += 1;
            in_name += 1;
        } else if let Some(star) = star {
            resume += 1;
            (at, in_name) = (star + 1, resume);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

impl FromValue for Pattern {
    fn from_value(value: &DeValue<'_>) -> Result<Self, Refusal> {
        Self::new(&String::from_value(value)?)
    }
}

/// A link whose ends are patterns: `"CERN->*"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPattern {
    /// Its sources.
    pub source: Pattern,
    /// Its destinations.
    pub destination: Pattern,
}

impl LinkPattern {
    /// Whether it stands for this link.
    pub fn fits(&self, link: &Link) -> bool {
        self.source.fits(link.source.as_str()) && self.destination.fits(link.destination.as_str())
    }
}

impl fmt::Display for LinkPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}→{}", self.source, self.destination)
    }
}

impl FromValue for LinkPattern {
    fn from_value(value: &DeValue<'_>) -> Result<Self, Refusal> {
        let text = String::from_value(value)?;
        let Some((source, destination)) = text.split_once("->").or_else(|| text.split_once('→')) else {
            return Err(Refusal::new(
                format!("\"{text}\" is not a link"),
                "write \"SOURCE->DESTINATION\"; either may hold *",
            ));
        };
        Ok(Self {
            source: Pattern::new(source.trim())?,
            destination: Pattern::new(destination.trim())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    /// A table would speak of other storage elements than its reader thinks.
    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, name, expected) in [
            ("*", "RAL", true),
            ("RAL", "RAL", true),
            ("RAL", "RALPP", false),
            ("RAL*", "RALPP", true),
            ("*-T2", "UK-T2", true),
            ("*-T2", "UK-T2-b", false),
            ("T*-*x", "T2-abx", true),
            ("a*a", "a", false),
        ] {
            let pattern = Pattern::new(pattern).expect("valid");
            assert_eq!(pattern.fits(name), expected, "{pattern:?} {name}");
        }
        assert!(Pattern::new("a b").is_err());
        assert!(Pattern::new("").is_err());
    }
}
