//! The `[[area]]` tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_auth::{Rule, StoragePath};
use weir_units::{Algorithm, Bytes};

use super::{Invalid, IssuerConfig, wrong};
use crate::backend::PRIVATE_PREFIX;

/// A part of the name space with a directory of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaConfig {
    /// For metrics and logs: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// Where it appears in URLs.
    pub prefix: StoragePath,
    /// The directory that holds it.
    pub root: PathBuf,
    /// Makes the root if it is missing. Default: no, the endpoint does not start: the disk that should be there may not be mounted.
    #[serde(default)]
    pub create_root: bool,
    /// A directory at which a file system must be mounted, the root or one above it. Default: none is asked for.
    #[serde(default)]
    pub mount: Option<PathBuf>,
    /// Largest total size of its files. Default: the size of the file system.
    #[serde(default)]
    pub quota: Option<Bytes>,
    /// Refuses every change.
    #[serde(default)]
    pub read_only: bool,
    /// Reading, looking and listing without a token.
    #[serde(default)]
    pub anonymous_read: bool,
    /// Issuers whose tokens count in it. Default: all issuers.
    #[serde(default)]
    pub issuers: Vec<String>,
    /// Rights of callers whose token holds no capability, or who show a certificate. Default: none.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
    /// When a write counts as done.
    #[serde(default)]
    pub durability: Durability,
    /// Taken of every file on its way in. Default: adler32 and crc32c.
    #[serde(default = "default_checksums")]
    pub checksums: Vec<Algorithm>,
    /// Time after its writing in which every caller with the right to create may move a file. Later, and by default
    /// from the beginning, only its creator and callers with the right to modify may.
    #[serde(default, with = "weir_units::duration")]
    pub movable_for: Duration,
    /// The part of WebDAV that is offered beyond the needs of transfers.
    #[serde(default)]
    pub dav: Dav,
}

/// How much of WebDAV (RFC 4918) an area offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dav {
    /// The operations of transfer programs: a request copies one file, no file replaces a directory that is not empty,
    /// and clients' own properties are not stored.
    #[default]
    Basic,
    /// All of class 1, for the file managers of people: COPY of a directory, COPY and MOVE over one, PROPPATCH of dead properties.
    Full,
}

/// When a write counts as done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// When it survives a power cut: file and directory are synced before success is reported.
    #[default]
    Full,
    /// When the operating system has it: it survives the end of the process, not of the machine.
    Cache,
}

impl AreaConfig {
    /// An area of this name, there in URLs and here in the file system; all else by default.
    pub fn new(name: impl Into<String>, prefix: StoragePath, root: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            prefix,
            root: root.into(),
            create_root: false,
            mount: None,
            quota: None,
            read_only: false,
            anonymous_read: false,
            issuers: Vec::new(),
            rules: Vec::new(),
            durability: Durability::default(),
            checksums: default_checksums(),
            movable_for: Duration::ZERO,
            dav: Dav::default(),
        }
    }

    /// Checks it beside those before it; `place` is its number.
    pub(super) fn check(&self, place: usize, before: &[Self]) -> Result<(), Invalid> {
        let wrong = |key: &str, problem: String, remedy| Err(wrong(format!("area[{place}].{key}"), problem, remedy));
        let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(valid) {
            let problem = format!("\"{}\" is no name", self.name);
            return wrong("name", problem, "use letters, digits, '.', '_' and '-'");
        }
        if let Some(mount) = self.mount.as_ref().filter(|mount| !self.root.starts_with(mount)) {
            let problem = format!("{} does not lie below {}", self.root.display(), mount.display());
            return wrong(
                "mount",
                problem,
                "name the directory at which the disk of the root is mounted",
            );
        }
        let mut names = self.prefix.names();
        if names.any(|name| name.starts_with(PRIVATE_PREFIX)) {
            let problem = format!("{} is reserved", self.prefix);
            return wrong("prefix", problem, "choose names that do not begin with .weir-");
        }
        for other in before {
            if other.name == self.name {
                let problem = format!("\"{}\" is taken", self.name);
                return wrong("name", problem, "give each area a name of its own");
            }
            if other.prefix.is_same_place(&self.prefix) {
                let problem = format!("{} is taken", self.prefix);
                return wrong("prefix", problem, "give each area a prefix of its own");
            }
            if let Some(problem) = overlap(&other.name, &other.root, &self.root) {
                return wrong("root", problem, SEPARATE);
            }
        }
        Ok(())
    }
}

impl AreaConfig {
    /// Checks the access rules: configured issuers only, and rules that can apply.
    pub(super) fn check_access(&self, place: usize, issuers: &[IssuerConfig]) -> Result<(), Invalid> {
        const NO_ISSUER: &str = "name the url of an [[issuer]], character by character";
        let known = |url: &String| issuers.iter().any(|issuer| issuer.url == *url);
        if let Some(url) = self.issuers.iter().find(|url| !known(url)) {
            let problem = format!("\"{url}\" is no issuer");
            return Err(wrong(format!("area[{place}].issuers"), problem, NO_ISSUER));
        }
        for (number, rule) in self.rules.iter().enumerate() {
            let wrong =
                |key: &str, problem, remedy| Err(wrong(format!("area[{place}].rule[{number}].{key}"), problem, remedy));
            if let Err((key, problem)) = rule.check() {
                return wrong(key, problem, "see docs/storage-access.md on rules");
            }
            if let Some(url) = rule.issuer.as_ref().filter(|url| !known(url)) {
                return wrong("issuer", format!("\"{url}\" is no issuer"), NO_ISSUER);
            }
            if let Some(path) = rule.path.as_ref().filter(|path| !path.is_within(&self.prefix)) {
                let problem = format!("{path} lies outside {}", self.prefix);
                return wrong("path", problem, "give it as in URLs, below the area's prefix");
            }
        }
        Ok(())
    }
}

/// Remedy for areas inside one another.
pub(crate) const SEPARATE: &str = "give each area a directory of its own, outside of all others";

/// The problem of an area's root inside another one, if there is one: users of the outer area would reach the inner one
/// too, past its issuers, rules and quota.
pub(crate) fn overlap(other: &str, theirs: &Path, ours: &Path) -> Option<String> {
    if theirs == ours {
        Some(format!("{} is taken by area \"{other}\"", ours.display()))
    } else if ours.starts_with(theirs) {
        Some(format!(
            "{} lies inside {}, the directory of area \"{other}\"",
            ours.display(),
            theirs.display()
        ))
    } else if theirs.starts_with(ours) {
        Some(format!(
            "{} holds {}, the directory of area \"{other}\"",
            ours.display(),
            theirs.display()
        ))
    } else {
        None
    }
}

fn default_checksums() -> Vec<Algorithm> {
    vec![Algorithm::Adler32, Algorithm::Crc32c]
}
