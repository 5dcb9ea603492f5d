//! Scopes: the rights of a token's bearer (WLCG Common JWT Profiles 1.3, "Capability based authorization").

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::path::{PathError, StoragePath};

/// The action that a storage scope allows at and below its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageAction {
    /// `storage.read`: reads files and lists directories.
    Read,
    /// `storage.create`: makes new files and directories, replaces nothing.
    Create,
    /// `storage.modify`: makes, replaces, moves and deletes.
    Modify,
    /// `storage.stage`: brings files from tape to disk.
    Stage,
    /// `storage.poll`: asks where a file is and how its staging goes.
    Poll,
}

impl StorageAction {
    /// All actions, in the order of the profile.
    pub const ALL: [Self; 5] = [Self::Read, Self::Create, Self::Modify, Self::Stage, Self::Poll];

    /// The name in a scope, such as `storage.read`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "storage.read",
            Self::Create => "storage.create",
            Self::Modify => "storage.modify",
            Self::Stage => "storage.stage",
            Self::Poll => "storage.poll",
        }
    }

    /// The last word of the name, such as `read`.
    pub fn word(self) -> &'static str {
        &self.as_str()["storage.".len()..]
    }
}

/// One scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A right in a storage endpoint's name space.
    Storage {
        /// The allowed action.
        action: StorageAction,
        /// Where, relative to the issuer's prefix.
        path: StoragePath,
    },
    /// A right at a computing endpoint, such as `compute.read`: of no use here, but it makes the token one of capabilities.
    Compute(String),
    /// Anything else, such as `openid`, `offline_access` or `fts`: of no meaning to storage.
    Other(String),
}

/// Why a scope makes its token invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScopeError {
    /// A storage scope without the path that the profile demands.
    #[error("scope {0} has no path")]
    NoPath(&'static str),
    /// A storage scope whose path is not absolute and normal.
    #[error("scope {action} has a path that is not normal")]
    Path {
        /// The name of the scope.
        action: &'static str,
        /// The problem with the path.
        source: PathError,
    },
}

/// Scopes of computing that the profile defines.
const COMPUTE: [&str; 4] = ["compute.read", "compute.modify", "compute.create", "compute.cancel"];

impl Scope {
    /// Parses one scope.
    ///
    /// # Errors
    /// Only for storage scopes: without a path, or with one that holds `.`, `..`, `//` or is otherwise not normal.
    /// Scopes that the profile does not define are [`Scope::Other`].
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let (name, path) = match text.split_once(':') {
            Some((name, path)) => (name, Some(path)),
            None => (text, None),
        };
        if let Some(action) = StorageAction::ALL.into_iter().find(|action| action.as_str() == name) {
            let path = path
                .filter(|path| !path.is_empty())
                .ok_or(ScopeError::NoPath(action.as_str()))?;
            let path = StoragePath::from_scope_path(path).map_err(|source| ScopeError::Path {
                action: action.as_str(),
                source,
            })?;
            return Ok(Self::Storage { action, path });
        }
        if COMPUTE.contains(&name) {
            return Ok(Self::Compute(text.to_owned()));
        }
        Ok(Self::Other(text.to_owned()))
    }

    /// Whether a right to `self` is a right to `other` too.
    ///
    /// For storage scopes: the same action, and the path covers the other's. Otherwise: equal.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Storage { action, path },
                Self::Storage {
                    action: asked,
                    path: below,
                },
            ) => action == asked && path.covers(below),
            _ => self == other,
        }
    }

    /// Whether this is a capability in the profile's sense (`storage.*`, `compute.*`).
    pub fn is_capability(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage { action, path } => write!(f, "{}:{}", action.as_str(), path.to_url_path()),
            Self::Compute(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

/// Parses a `scope` claim: scopes separated by spaces, in their order.
///
/// # Errors
/// The error of the first invalid scope, which makes the whole token invalid.
pub fn parse_scopes(text: &str) -> Result<Vec<Scope>, ScopeError> {
    text.split(' ')
        .filter(|scope| !scope.is_empty())
        .map(Scope::parse)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use super::*;

    #[test]
    fn scopes_are_told_apart() {
        // A right would be read as another one, or as none.
        for (text, capability) in [
            ("storage.read:/", true),
            ("storage.create:/a/b", true),
            ("storage.modify:/a%20b/", true),
            ("storage.stage:/t", true),
            ("storage.poll:/t", true),
            ("compute.cancel", true),
            ("openid", false),
            ("wlcg.groups:/dteam", false),
            ("storage.write:/a", false),
            ("Storage.read:/a", false),
            ("storage.readx:/a", false),
        ] {
            let scope = Scope::parse(text).unwrap();
            assert_eq!(scope.is_capability(), capability, "{text}");
            assert_eq!(scope.to_string(), text);
        }
    }

    #[test]
    fn storage_scopes_without_a_normal_path_are_refused() {
        // A token could reach paths that its scopes do not name.
        for text in [
            "storage.read",
            "storage.read:",
            "storage.poll",
            "storage.read:a",
            "storage.read:/..",
            "storage.read:/a/../b",
            "storage.read:/a/%2e%2E/b",
            "storage.read:/a//b",
            "storage.read://",
            "storage.read:/./a",
            "storage.read:/a%2fb",
            "storage.read:/a%00",
            "storage.read:/a%",
            "storage.read:/%ff",
            "storage.read:/a%0A",
        ] {
            assert!(Scope::parse(text).is_err(), "{text}");
            assert!(parse_scopes(&format!("openid {text}")).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wider_scope_covers_a_narrower_one_of_its_kind() {
        // An issuer would hand out more than the client may ask for.
        let covers = |wide: &str, narrow: &str| Scope::parse(wide).unwrap().covers(&Scope::parse(narrow).unwrap());
        assert!(covers("storage.read:/", "storage.read:/a/b"));
        assert!(covers("storage.read:/", "storage.read:/"));
        assert!(covers("storage.read:/a", "storage.read:/a/"));
        assert!(covers("fts", "fts"));
        assert!(!covers("storage.read:/a/", "storage.read:/a"));
        assert!(!covers("storage.read:/a", "storage.read:/ab"));
        assert!(!covers("storage.read:/a", "storage.read:/"));
        assert!(!covers("storage.modify:/", "storage.create:/a"));
        assert!(!covers("fts", "fts:submit"));
    }
}
