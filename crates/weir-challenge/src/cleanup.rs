//! Leaves every storage as it was found: deletes delivered files, source files and the run's directories.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use crate::Stop;
use crate::engine::Engine;
use crate::folder::RunFolder;
use crate::injection::InjectionDoor;
use crate::made::MadeFiles;
use crate::seed::Sources;
use crate::storage::StorageDoor;

/// Deletions at once.
const DELETIONS_AT_ONCE: usize = 16;

/// Longest time for the deletion of delivered files.
const LIMIT: Duration = Duration::from_secs(60);

/// Deletes what was delivered, but at doors where it stays, and waits for it.
pub(crate) async fn delivered<D: InjectionDoor>(
    engine: &mut Engine<D>,
    stays: &(dyn Fn(usize) -> bool + Sync),
    stop: &Stop,
    folder: &RunFolder,
) {
    engine.expire_all(stays);
    let deadline = tokio::time::Instant::now() + LIMIT;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    while engine.is_deleting() {
        if tokio::time::Instant::now() > deadline || stop.hard.is_cancelled() {
            folder.log("some delivered files were not deleted in time");
            return;
        }
        ticks.tick().await;
        engine.turn();
    }
}

/// Files and directories that transfers may have left below the run's directories.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind {
    /// Door and path of files that should not be there.
    files: Vec<(usize, String)>,
    directories: BTreeSet<(usize, String)>,
}

impl LeftBehind {
    /// Notes the directories of a destination, and the file itself if it must not stay.
    pub(crate) fn add(&mut self, (number, door): (usize, &StorageDoor), path: &str, is_left: bool) {
        if is_left {
            self.files.push((number, path.to_owned()));
        }
        let directories = parents(path, &door.directory).map(|directory| (number, directory));
        self.directories.extend(directories);
    }
}

/// Deletes everything else below the run's directories, but at doors where it stays. What cannot be deleted is written to the log.
///
/// Returns how many paths are left at storage that is not the embedded grid's.
pub(crate) async fn rest(
    (doors, stays): (&Arc<Vec<StorageDoor>>, &(dyn Fn(usize) -> bool + Sync)),
    sources: &Sources,
    left: LeftBehind,
    (folder, made): (&RunFolder, &MadeFiles),
) -> u64 {
    let LeftBehind {
        mut files,
        mut directories,
    } = left;
    files.extend(sources.files().iter().map(|file| (file.door, file.path.clone())));
    for file in sources.files() {
        directories.extend(parents(&file.path, &doors[file.door].directory).map(|path| (file.door, path)));
    }
    files.retain(|(door, _)| !stays(*door));
    directories.retain(|(door, _)| !stays(*door));
    let mut left = delete(doors, files, folder, Some(made)).await;
    // Deepest first: not every storage deletes a directory with what is in it.
    let mut by_depth: Vec<(usize, String)> = directories.into_iter().collect();
    by_depth.sort_by_key(|(_, path)| std::cmp::Reverse(path.matches('/').count()));
    for level in by_depth.chunk_by(|one, other| one.1.matches('/').count() == other.1.matches('/').count()) {
        left += delete(doors, level.to_vec(), folder, None).await;
    }
    left
}

/// Returns the directories above a path down from `top`, `top` included, deepest first.
fn parents<'a>(path: &'a str, top: &'a str) -> impl Iterator<Item = String> + 'a {
    let above = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
    above
        .take_while(move |directory| directory.len() >= top.len())
        .map(str::to_owned)
}

/// Deletes paths, notes those that are gone if they are files, and returns how many are left at storage that is not the grid's.
async fn delete(
    doors: &Arc<Vec<StorageDoor>>,
    paths: Vec<(usize, String)>,
    folder: &RunFolder,
    made: Option<&MadeFiles>,
) -> u64 {
    let one = |(door, path): (usize, String)| async move {
        let outcome = doors[door].delete(&path).await;
        if let (Ok(_), Some(made)) = (&outcome, made) {
            made.deleted(&doors[door].name, &path);
        }
        (door, outcome)
    };
    let mut deletions = futures_util::stream::iter(paths.into_iter().map(one)).buffer_unordered(DELETIONS_AT_ONCE);
    let mut left = 0;
    while let Some((door, outcome)) = deletions.next().await {
        if let Err(error) = outcome {
            folder.log(&weir_auth::error_chain(&error));
            left += u64::from(!doors[door].embedded);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_of_the_run() {
        // Wrong: the clean-up deletes above the run's own directory.
        let found: Vec<String> = parents("/weir/run/0/RAL/17", "/weir/run").collect();
        assert_eq!(found, ["/weir/run/0/RAL", "/weir/run/0", "/weir/run"]);
    }
}
