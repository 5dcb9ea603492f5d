//! Leaves every storage as it was found: deletes delivered files, source files and the run's directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use weir_measure::rows;

use crate::Stop;
use crate::execute::engine::Engine;
use crate::inject::injection::InjectionDoor;
use crate::output::folder::RunFolder;
use crate::prepare::seed::Sources;
use crate::removal::made::MadeFiles;
use crate::services::storage::StorageDoor;

/// Deletions at once.
const DELETIONS_AT_ONCE: usize = 16;

/// Paths that are read ahead of their deletion.
const READ_AHEAD: usize = 1024;

/// Failures in a row after which a storage is left alone.
const FAILURES_MAX: u32 = 100;

/// Longest time for the deletion of delivered files by the run's own services.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest time for the deletion of copies by a catalogue that runs elsewhere: several turns of daemons that pause a minute or two.
const LIMIT_ELSEWHERE: Duration = Duration::from_secs(600);

/// Interval of messages about pending deletions.
const TELL: Duration = Duration::from_secs(10);

/// Deletes the delivered files, except at doors where they stay, and waits for it. `tell` receives the list of files
/// that a catalogue elsewhere has to delete.
pub(crate) async fn delivered<D: InjectionDoor>(
    engine: &mut Engine<D>,
    stays: &(dyn Fn(usize) -> bool + Sync),
    (stop, tell): (&Stop, Option<&(dyn Fn(String) + Sync)>),
    folder: &RunFolder,
) {
    engine.expire_all(stays);
    // An interrupted run does not wait for the daemons of another service.
    let was_stopped = stop.soft.is_cancelled();
    let patience = tell.filter(|_| !was_stopped).map_or(LIMIT, |_| LIMIT_ELSEWHERE);
    let begin = tokio::time::Instant::now();
    let mut told = begin;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    while engine.is_deleting() {
        let now = tokio::time::Instant::now();
        if now > begin + patience || stop.hard.is_cancelled() || (!was_stopped && stop.soft.is_cancelled()) {
            folder.log("some delivered files were not deleted in time");
            return;
        }
        if let Some(tell) = tell.filter(|_| now > told + TELL) {
            told = now;
            tell(format!(
                "the catalogue has {} copies to delete",
                engine.leaving_behind()
            ));
        }
        ticks.tick().await;
        engine.turn();
    }
}

/// Directories that transfers may have made below the run's own: as many as there are links, however many files pass.
#[derive(Debug, Default)]
pub(crate) struct Directories(BTreeSet<(usize, String)>);

impl Directories {
    /// Records the directories of a file at a destination.
    pub(crate) fn add(&mut self, (number, door): (usize, &StorageDoor), path: &str) {
        for directory in parents(path, &door.directory) {
            // The first that is known has its own parents in here.
            if !self.0.insert((number, directory)) {
                break;
            }
        }
    }
}

/// Deletes everything else below the run's directories, except at doors where files stay: source files, and possible
/// leftovers of unfinished transfers, from the rows of the run's folder. A path that cannot be deleted is logged.
///
/// Returns the number of paths left at external storage.
pub(crate) async fn rest(
    (doors, stays): (&Arc<Vec<StorageDoor>>, &(dyn Fn(usize) -> bool + Sync)),
    sources: &Sources,
    mut directories: Directories,
    (folder, made): (&RunFolder, &MadeFiles),
) -> u64 {
    // The catalogue deletes source files that it knows, once their protecting rules have ended.
    let own = || sources.files().iter().filter(|file| file.did.is_none());
    for file in own() {
        directories.add((file.door, &doors[file.door]), &file.path);
    }
    let (sender, mut unfinished) = tokio::sync::mpsc::channel(READ_AHEAD);
    let names: BTreeMap<String, usize> = doors
        .iter()
        .enumerate()
        .map(|(at, door)| (door.name.clone(), at))
        .collect();
    let rows = folder.path().join(rows::FILE);
    let reading = tokio::task::spawn_blocking(move || read_unfinished(&rows, &names, &sender));
    let unfinished = futures_util::stream::poll_fn(move |context| unfinished.poll_recv(context));
    let of_sources = own().map(|file| (file.door, file.path.clone()));
    let files = futures_util::stream::iter(of_sources).chain(unfinished);
    let files = files.filter(|(door, _)| std::future::ready(!stays(*door)));
    let deletion = Deletion::new(doors, folder);
    let mut left = deletion.run(files, Some(made)).await;
    match reading.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => folder.log(&format!(
            "the files that transfers may have left are not known: {error}"
        )),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
    // Deepest first: not every storage deletes a directory with its contents.
    let mut by_depth: Vec<(usize, String)> = directories.0.into_iter().filter(|(door, _)| !stays(*door)).collect();
    by_depth.sort_by_key(|(_, path)| std::cmp::Reverse(path.matches('/').count()));
    for level in by_depth.chunk_by(|one, other| one.1.matches('/').count() == other.1.matches('/').count()) {
        left += deletion.run(futures_util::stream::iter(level.to_vec()), None).await;
    }
    left
}

/// Sends possible leftovers of unfinished transfers, as fast as they are taken.
fn read_unfinished(
    rows: &Path,
    doors: &BTreeMap<String, usize>,
    to: &tokio::sync::mpsc::Sender<(usize, String)>,
) -> Result<(), String> {
    let file = std::fs::File::open(rows).map_err(|error| error.to_string())?;
    let outcome = rows::read_unfinished(std::io::BufReader::new(file), |destination, path| {
        if let Some(door) = doors.get(destination) {
            // The receiver is gone if the run was interrupted.
            let _gone = to.blocking_send((*door, path.to_owned()));
        }
    });
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(error) => Err(error.to_string()),
    }
}

/// Returns the directories above a path down from `top`, `top` included, deepest first.
fn parents<'a>(path: &'a str, top: &'a str) -> impl Iterator<Item = String> + 'a {
    let above = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
    above
        .take_while(move |directory| directory.len() >= top.len())
        .map(str::to_owned)
}

/// Deletes paths, some at a time. A door at which nothing can be deleted any more is not asked for ever.
struct Deletion<'a> {
    doors: &'a Arc<Vec<StorageDoor>>,
    folder: &'a RunFolder,
    /// Failures in a row at each door.
    failures: Vec<AtomicU32>,
}

impl<'a> Deletion<'a> {
    fn new(doors: &'a Arc<Vec<StorageDoor>>, folder: &'a RunFolder) -> Self {
        Self {
            doors,
            folder,
            failures: doors.iter().map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Deletes the received paths, and records deleted files. Returns the number of paths that stay at external
    /// storage.
    async fn run(&self, paths: impl Stream<Item = (usize, String)>, made: Option<&MadeFiles>) -> u64 {
        let one = |(door, path): (usize, String)| async move { (door, self.delete(door, &path, made).await) };
        let deletions = paths.map(one).buffer_unordered(DELETIONS_AT_ONCE);
        let mut deletions = std::pin::pin!(deletions);
        let mut left = 0;
        while let Some((door, is_gone)) = deletions.next().await {
            left += u64::from(!is_gone && !self.doors[door].embedded);
        }
        left
    }

    /// Whether the path is gone.
    async fn delete(&self, door: usize, path: &str, made: Option<&MadeFiles>) -> bool {
        let failures = &self.failures[door];
        if failures.load(Ordering::Relaxed) >= FAILURES_MAX {
            return false;
        }
        let door_to = &self.doors[door];
        let deleted = match made {
            Some(_) => door_to.of_path(path).delete(path).await,
            None => door_to.delete_directory(path).await,
        };
        match deleted {
            Ok(_) => {
                failures.store(0, Ordering::Relaxed);
                if let Some(made) = made {
                    made.deleted(&self.doors[door].name, path);
                }
                true
            }
            Err(error) => {
                self.folder.log(&weir_auth::error_chain(&error));
                if failures.fetch_add(1, Ordering::Relaxed) + 1 == FAILURES_MAX {
                    let name = &self.doors[door].name;
                    self.folder
                        .log(&format!("{name} deletes nothing: the rest is left there"));
                }
                false
            }
        }
    }
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
