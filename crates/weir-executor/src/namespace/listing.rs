//! The entries of a multistatus: the requested path, and its members.

use std::collections::BTreeMap;

use http::StatusCode;

use super::multistatus::{Attributes, Entry};

/// The entry of the requested path in a multistatus: the one with the fewest names (RFC 4918 section 9.1), and with
/// this name.
pub(super) fn own<'a>(entries: &'a [Entry], name: Option<&str>) -> Option<&'a Entry> {
    let own = entries.iter().min_by_key(|entry| entry.depth)?;
    (own.name.as_deref() == name).then_some(own)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// The directory itself may not be looked at, or is not there.
    Status(StatusCode),
    NoDirectory,
    Nonsense,
}

/// A directory's entries, by name. Entries without properties are left out; names that lead elsewhere too.
pub(super) fn listing(entries: Vec<Entry>, name: Option<&str>) -> Result<BTreeMap<String, Attributes>, Unlisted> {
    let own = own(&entries, name).ok_or(Unlisted::Nonsense)?;
    if let Some(status) = own.status {
        return Err(StatusCode::from_u16(status).map_or(Unlisted::Nonsense, Unlisted::Status));
    }
    if own.attributes.collection != Some(true) {
        return Err(Unlisted::NoDirectory);
    }
    let depth = own.depth + 1;
    let inside = entries
        .into_iter()
        .filter(|entry| entry.depth == depth && entry.status.is_none());
    let named = inside.filter_map(|entry| Some((entry.name?, entry.attributes)));
    Ok(named
        .filter(|(name, _)| name != ".." && !name.contains(['/', '\0']))
        .collect())
}
