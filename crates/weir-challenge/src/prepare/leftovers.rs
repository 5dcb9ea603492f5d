//! Reports leftovers of earlier runs at a storage, when a run begins to use it.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;

use crate::services::listing::Entry;
use crate::services::storage::StorageDoor;

/// Storages asked at once.
const AT_ONCE: usize = 8;

/// Longest wait for one of them: a run does not begin later for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs that are named; the rest is counted.
const NAMED: usize = 3;

/// Asks every storage that is not the grid's own for directories of other runs; one sentence for each that has some. A storage that
/// does not tell is passed over. `runs` is where run folders are.
pub(crate) async fn of_others(doors: &[StorageDoor], runs: &Path) -> Vec<String> {
    let external = doors.iter().filter(|door| !door.embedded);
    let asks = external.map(|door| async move {
        let listed = tokio::time::timeout(PATIENCE, door.list_above("/weir")).await;
        let entries = listed.ok()?.ok()??;
        let own = door.directory.trim_start_matches("/weir/");
        let others = entries
            .iter()
            .skip(1)
            .filter(|entry| entry.directory && entry.name() != own);
        let names: Vec<&str> = others.map(Entry::name).collect();
        sentence(&door.name, &names, runs)
    });
    let sentences: Vec<Option<String>> = futures_util::stream::iter(asks).buffered(AT_ONCE).collect().await;
    sentences.into_iter().flatten().collect()
}

fn sentence(rse: &str, names: &[&str], runs: &Path) -> Option<String> {
    let first = names.first()?;
    let mut named = names[..names.len().min(NAMED)].join(", ");
    if names.len() > NAMED {
        named = format!("{named} and {} more", names.len() - NAMED);
    }
    // The directory of a run is named as its folder, with eight random digits behind.
    let folder = first
        .rsplit_once('-')
        .map(|(name, _)| runs.join(name))
        .filter(|folder| folder.is_dir());
    let folder = folder.map_or_else(|| "DIR".to_owned(), |folder| folder.display().to_string());
    Some(format!(
        "{rse} holds directories of other runs below /weir: {named}; weir challenge clean {folder} removes what a run left there"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    #[test]
    fn the_folder_of_a_run_that_left_something_is_named() {
        // Wrong: the remedy names a folder that is not there.
        let runs = tempfile::tempdir().unwrap();
        std::fs::create_dir(runs.path().join("small-20261126-101010")).unwrap();
        assert_eq!(sentence("MINE", &[], runs.path()), None);
        let text = sentence("MINE", &["small-20261126-101010-0ab3c195", "b", "c", "d"], runs.path()).unwrap();
        assert!(
            text.contains("small-20261126-101010-0ab3c195, b, c and 1 more"),
            "{text}"
        );
        assert!(
            text.contains(&format!("clean {}/small-20261126-101010 ", runs.path().display())),
            "{text}"
        );
        assert!(sentence("MINE", &["x-1"], runs.path()).unwrap().contains("clean DIR "));
    }
}
