//! Files in history: some of one job together, as JSON in one value. They never change again, so they need no row of
//! their own: a job of 200 files costs one row instead of 200, and so does its removal.

use serde::{Deserialize, Serialize};

use super::StoreError;
use weir_executor::job::{File, Retry};

/// Files in one value, at most: some 500 KB, read in a few milliseconds to show one of them.
pub(super) const PACK_MAX: usize = 1000;

/// A file with its attempts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Packed {
    /// The file as it was at its end.
    pub file: File,
    /// Attempts that were followed by another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<Retry>,
}

/// Packs files, and their attempts in the order of files.
pub(super) fn pack(files: Vec<File>, retries: Vec<Retry>) -> Result<String, StoreError> {
    let mut retries = retries.into_iter().peekable();
    let packed = files.into_iter().map(|file| {
        let id = file.spec.id;
        let mut own = Vec::new();
        while let Some(retry) = retries.next_if(|retry| retry.file <= id) {
            if retry.file == id {
                own.push(retry);
            }
        }
        Packed { file, retries: own }
    });
    serde_json::to_string(&packed.collect::<Vec<_>>()).map_err(|error| StoreError::Broken(error.into()))
}

/// Reads the files of a value that [`pack`] wrote.
pub(super) fn unpack(text: &str) -> Result<Vec<Packed>, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Unreadable(format!("files in history: {error}")))
}

/// One file of a pack.
pub(super) fn one(text: &str, id: u64) -> Result<Option<Packed>, StoreError> {
    Ok(unpack(text)?.into_iter().find(|packed| packed.file.spec.id == id))
}

/// Merges live files and files of history, by id. The live ones were read first: a file that moved in between is in
/// both.
pub(super) fn merge(present: Vec<File>, packs: &[String]) -> Result<Vec<File>, StoreError> {
    let by_id = |file: File| (file.spec.id, file);
    let mut files = present
        .into_iter()
        .map(by_id)
        .collect::<std::collections::BTreeMap<_, _>>();
    for pack in packs {
        files.extend(unpack(pack)?.into_iter().map(|packed| by_id(packed.file)));
    }
    Ok(files.into_values().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn an_older_pack_is_read() {
        // History lives for months: a newer service must read rows of this one, in which its new fields are absent.
        let text = r#"[{"file":{"spec":{"id":7,"index":0,"source":"https://a/f","destination":"https://b/f"},
            "job":"00000000-0000-0000-0000-000000000001","state":"FINISHED","attempts":1,"stopping":false,
            "result":{"bytes_moved":5}}}]"#;
        let packed = one(text, 7).unwrap().unwrap();
        assert_eq!(
            (packed.file.state.as_str(), packed.file.result.bytes_moved),
            ("FINISHED", 5)
        );
        assert!(packed.retries.is_empty() && one(text, 8).unwrap().is_none());
        assert!(matches!(unpack("[{"), Err(StoreError::Unreadable(_))));
    }
}
