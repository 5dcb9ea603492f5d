//! RSEs that share a storage: where the folder of one lies in that of another, or is the same, one file has a path at each.

use weir_database::{Row, Session, values};
use weir_model::RseName;
use weir_rules::ids::RseId;
use weir_store::StoreError;

use super::{protocols::Endpoint, rse_id};
use crate::pfn;

/// Another RSE whose folder overlaps with that of an RSE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The other RSE.
    pub rse: RseId,
    /// Its name.
    pub name: RseName,
    /// The RSE's prefix, without slashes at its ends.
    ours: String,
    /// The other RSE's.
    theirs: String,
}

impl Overlap {
    /// The path at the other RSE of the file that has this path at the RSE; `None`: it lies outside of the other's folder.
    pub fn path(&self, path: &str) -> Option<String> {
        let whole = if self.ours.is_empty() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.ours)
        };
        if self.theirs.is_empty() {
            return Some(whole);
        }
        whole.strip_prefix(&self.theirs)?.strip_prefix('/').map(str::to_owned)
    }

    /// Whether the other's folder lies in that of the RSE, and is not the same: its content belongs to the other.
    pub fn is_inside(&self) -> bool {
        self.theirs.len() > self.ours.len()
    }
}

/// The RSEs that overlap with one: a protocol of each has the same host and port, and the prefix of one begins with that of the other.
///
/// # Errors
/// The database fails.
pub fn overlaps(session: &mut dyn Session, rse: RseId) -> Result<Vec<Overlap>, StoreError> {
    let text = "SELECT o.rse_id, r.name, p.scheme, p.hostname, p.port, p.prefix, o.scheme, o.hostname, o.port, o.prefix FROM rse_protocols p
        JOIN rse_protocols o ON lower(o.hostname) = lower(p.hostname) AND o.rse_id <> p.rse_id JOIN rses r ON r.rse_id = o.rse_id
        WHERE p.rse_id = $1 AND r.deleted IS NULL ORDER BY o.rse_id";
    let mut found = Vec::<Overlap>::new();
    for row in session.query(text, &values![rse.0])? {
        let (ours, theirs) = (folder(&row, 2)?, folder(&row, 6)?);
        if let Some((ours, theirs)) = shared(&ours, &theirs) {
            let (rse, name) = (rse_id(&row, 0)?, row.parsed(1)?);
            found.push(Overlap {
                rse,
                name,
                ours,
                theirs,
            });
        }
    }
    found.dedup();
    Ok(found)
}

/// Where a protocol has its files: its port, and the prefix without slashes at its ends.
fn folder(row: &Row, column: usize) -> Result<(u16, String), StoreError> {
    let endpoint = Endpoint {
        scheme: row.text(column)?.to_owned(),
        hostname: row.text(column + 1)?.to_owned(),
        port: row.size(column + 2)? as u16,
    };
    Ok((pfn::port(&endpoint), row.text(column + 3)?.trim_matches('/').to_owned()))
}

/// The prefixes of two protocols of one server, if one begins with the other.
fn shared(ours: &(u16, String), theirs: &(u16, String)) -> Option<(String, String)> {
    let begins = |long: &str, short: &str| {
        short.is_empty()
            || long
                .strip_prefix(short)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let ((our_port, ours), (their_port, theirs)) = (ours, theirs);
    let is_same = our_port == their_port && (begins(ours, theirs) || begins(theirs, ours));
    is_same.then(|| (ours.clone(), theirs.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_file_has_a_path_in_each_folder_that_holds_it() {
        let path = |ours: &str, theirs: &str, path: &str| {
            let [ours, theirs] = [ours, theirs].map(str::to_owned);
            let (rse, name) = (RseId(1), "A".parse().unwrap());
            Overlap {
                rse,
                name,
                ours,
                theirs,
            }
            .path(path)
        };
        assert_eq!(path("data", "data", "a").as_deref(), Some("a"));
        assert_eq!(path("data", "data/nd", "nd/a").as_deref(), Some("a"));
        assert_eq!(path("data", "data/nd", "nda"), None);
        assert_eq!(path("data/nd", "data", "a").as_deref(), Some("nd/a"));
        assert_eq!(path("data", "", "a").as_deref(), Some("data/a"));
        assert_eq!(path("", "data", "data/a").as_deref(), Some("a"));
    }
}
