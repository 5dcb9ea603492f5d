//! RSEs that share a storage: where the folder of one lies in that of another, or is the same, one file has a path at each.

use weir_model::RseName;
use weir_rules::ids::RseId;
use weir_store::StoreError;

use super::protocols::{self, Protocol};
use crate::{database::Session, pfn};

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

    /// Whether the other's folder lies in that of the RSE, and is not the same: what is in there is the other's.
    pub fn is_inside(&self) -> bool {
        self.theirs.len() > self.ours.len()
    }
}

/// The RSEs that overlap with one: a protocol of each has the same host and port, and the prefix of one begins with that of the other.
///
/// # Errors
/// The database fails.
pub fn overlaps(session: &mut dyn Session, rse: RseId) -> Result<Vec<Overlap>, StoreError> {
    let all = protocols::all(session)?;
    let own = all.get(&rse).map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::<Overlap>::new();
    for (other, theirs) in all.iter().filter(|(other, _)| **other != rse) {
        let pairs = own
            .iter()
            .flat_map(|ours| theirs.iter().map(move |theirs| (ours, theirs)));
        let mut prefixes = pairs
            .filter_map(|(ours, theirs)| shared(ours, theirs))
            .collect::<Vec<_>>();
        prefixes.sort_unstable();
        prefixes.dedup();
        if prefixes.is_empty() {
            continue;
        }
        // An RSE that is deleted keeps its protocols, and has no files.
        let Some(described) = super::by_number(session, *other)? else {
            continue;
        };
        let name = described.rse.name;
        found.extend(prefixes.into_iter().map(|(ours, theirs)| Overlap {
            rse: *other,
            name: name.clone(),
            ours,
            theirs,
        }));
    }
    Ok(found)
}

/// The prefixes of two protocols of one server, if one begins with the other.
fn shared(ours: &Protocol, theirs: &Protocol) -> Option<(String, String)> {
    let (one, other) = (&ours.endpoint, &theirs.endpoint);
    let is_same = one.hostname.eq_ignore_ascii_case(&other.hostname) && pfn::port(one) == pfn::port(other);
    let [ours, theirs] = [&ours.prefix, &theirs.prefix].map(|prefix| prefix.trim_matches('/').to_owned());
    let begins = |long: &str, short: &str| {
        short.is_empty()
            || long
                .strip_prefix(short)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    (is_same && (begins(&ours, &theirs) || begins(&theirs, &ours))).then_some((ours, theirs))
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
