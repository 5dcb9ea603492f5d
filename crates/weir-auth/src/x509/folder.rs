//! Directories that other programs keep up to date: authorities by the distribution and `fetch-crl`, VOMS servers by the
//! administrator.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::X509Error;

/// A file, with values that reveal a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    size: u64,
    modified: Option<SystemTime>,
}

impl Entry {
    pub(crate) fn extension(&self) -> &str {
        self.path.extension().and_then(|text| text.to_str()).unwrap_or("")
    }

    /// Whether the extension is a letter or nothing, and then one digit: `.0`, `.r0`.
    pub(crate) fn is_numbered(&self, letter: &str) -> bool {
        let number = self.extension().strip_prefix(letter);
        number.is_some_and(|number| number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// The files in a directory and so many levels of directories below, in order of their paths. A link counts as its
/// target; a dangling one is left out.
pub(crate) fn list(dir: &Path, levels: usize) -> Result<Vec<Entry>, X509Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(X509Error::trust(dir))? {
        let path = entry.map_err(X509Error::trust(dir))?.path();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_file() {
            found.push(Entry {
                path,
                size: metadata.len(),
                modified: metadata.modified().ok(),
            });
        } else if metadata.is_dir() && levels > 0 {
            found.extend(list(&path, levels - 1)?);
        }
    }
    found.sort();
    Ok(found)
}
