//! Removes the leftovers of a run at storages: files that it recorded in `files.csv` and did not delete.
//!
//! A file is deleted only if it is below the run's own directory, the run recorded it, and its size and checksum are
//! those of the run. A directory is deleted only if it is empty. All else is listed and left alone. Files that are
//! shorter than recorded, which are copies aborted with the run, are deleted on request.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use serde::Serialize;
use weir_grid::{GridCredentials, GridError, GridProcess};
use weir_measure::files::{self, FileRow, Happened};
use weir_plan::Plan;
use weir_units::{Algorithm, Checksum};

use crate::inject::injection::InjectionError;
use crate::inject::rules::CatalogService;
use crate::output::description::{self, RunDescription};
use crate::output::folder::RunFolder;
use crate::output::rebuild::{RebuildError, plan_of};
use crate::prepare::content::Content;
use crate::services::storage::{StorageDoor, StorageError};
use crate::{RunError, services::doors};

/// Requests at once.
const AT_ONCE: usize = 16;

/// Why nothing was cleaned.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// The folder does not belong to a run.
    #[error(transparent)]
    NoRun(#[from] RebuildError),
    /// The run goes on.
    #[error("the run in {path} still goes on")]
    Running {
        /// The run folder.
        path: PathBuf,
    },
    /// A grid runs on the data areas of the run.
    #[error("a grid runs in {path}, the data areas of the run")]
    Inhabited {
        /// The directory.
        path: PathBuf,
    },
    /// There are no credentials for the storages.
    #[error("could not get the credentials of the grid")]
    Grid(#[from] GridError),
    /// There is no door for a storage.
    #[error(transparent)]
    Door(#[from] RunError),
    /// The data areas could not be removed.
    #[error("could not remove {path}")]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The leftovers of a run, and whether they were deleted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cleaned {
    /// Directory of the run at every storage.
    pub directory: String,
    /// Rules of the run in a catalogue that does not start with the grid; ended, if anything was deleted.
    pub rules: usize,
    /// Why they could not be looked at, or not be ended.
    pub rules_failed: Option<String>,
    /// Files that the run noted and did not delete, at storage that is not the embedded grid's.
    pub files: Vec<LeftFile>,
    /// Paths in the run's directories that the run did not note, as RSE and path.
    pub unknown: Vec<(String, String)>,
    /// Existing directories of the run, as RSE, path and the reason why they stay; `None` for those that are, or would
    /// be, deleted.
    pub directories: Vec<(String, String, Option<String>)>,
    /// Sites of the embedded grid whose storages still run in processes of their own; stopped, if anything was deleted.
    pub processes: Vec<String>,
    /// The data areas of the embedded grid and their size in bytes, if they are there.
    pub scratch: Option<(PathBuf, u64)>,
    /// Where the notes of the run are cut off, if they are.
    pub cut: Option<String>,
    /// Whether anything was deleted, or only listed.
    pub deleted: bool,
}

/// A file that a run noted and did not delete.
#[derive(Debug, Clone, Serialize)]
pub struct LeftFile {
    /// The RSE.
    pub rse: String,
    /// Where it is, below the RSE's base.
    pub path: String,
    /// Its size in bytes, as the run noted it.
    pub size: u64,
    /// The finding there.
    #[serde(flatten)]
    pub found: LeftoverState,
}

/// The finding in the place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "found", content = "why", rename_all = "lowercase")]
pub enum LeftoverState {
    /// The file that the run put there.
    Same,
    /// The file that the run put there, and it is deleted now.
    Deleted,
    /// Nothing.
    Gone,
    /// Fewer bytes than the run noted, which stay unless partial files are to be deleted: a copy that broke off, or goes on.
    Partial(String),
    /// Something else, which stays.
    Other(String),
    /// It could not be found out, or not be deleted.
    Failed(String),
}

impl Cleaned {
    /// Files with a finding.
    pub fn with(&self, pick: impl Fn(&LeftoverState) -> bool) -> impl Iterator<Item = &LeftFile> {
        self.files.iter().filter(move |file| pick(&file.found))
    }

    /// Whether something is left that can still be deleted, with the credentials of the embedded grid.
    pub fn is_unfinished(&self) -> bool {
        self.has_failed()
            || self
                .with(|found| matches!(found, LeftoverState::Partial(_)))
                .next()
                .is_some()
    }

    /// Whether something of the run could not be looked at or deleted.
    pub fn has_failed(&self) -> bool {
        self.rules_failed.is_some()
            || self
                .with(|found| matches!(found, LeftoverState::Failed(_)))
                .next()
                .is_some()
    }
}

/// The notes of a run about its files.
#[derive(Debug, Default)]
struct Notes {
    left: BTreeMap<(String, String), Note>,
    directories: BTreeSet<(String, String)>,
    cut: Option<String>,
}

#[derive(Debug, Clone)]
struct Note {
    size: u64,
    /// None where the run did not come to know it.
    checksum: Option<Checksum>,
}

impl Notes {
    fn read(from: impl io::Read, directory: &str) -> Result<Self, weir_measure::ReadError> {
        let mut notes = Self::default();
        let cut = files::read(from, |row| {
            let place = (row.rse.to_owned(), row.path.to_owned());
            let own = row.path.match_indices('/').filter(|(end, _)| *end >= directory.len());
            for (end, _) in own.filter(|_| is_below(row.path, directory)) {
                notes
                    .directories
                    .insert((row.rse.to_owned(), row.path[..end].to_owned()));
            }
            match row.happened {
                Happened::Made => {
                    let (size, checksum) = (row.size, row.checksum.clone());
                    notes.left.insert(place, Note { size, checksum });
                }
                Happened::Deleted => drop(notes.left.remove(&place)),
            }
        })?;
        notes.cut = cut.map(|cut| cut.to_string());
        Ok(notes)
    }
}

/// The files that are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delete {
    /// None.
    Nothing,
    /// Only files that equal the run's.
    Whole,
    /// These, and partial ones.
    WholeAndPartial,
}

/// Finds the leftovers of the run in `folder` at storages, and deletes them on request; `tell` is called with every
/// finding.
///
/// # Errors
/// [`CleanError`], before anything is deleted. Failures with single files are in the result.
pub async fn clean(folder: &Path, which: Delete, tell: &(dyn Fn(&LeftFile) + Sync)) -> Result<Cleaned, CleanError> {
    let delete = which != Delete::Nothing;
    let plan = plan_of(folder)?;
    let no_run = |name: &str| {
        let path = folder.join(name);
        move |source| RebuildError::NoRun { path, source }
    };
    let run = RunDescription::read(folder).map_err(no_run(description::FILE))?;
    if RunFolder::is_running(folder) {
        let path = folder.to_owned();
        return Err(CleanError::Running { path });
    }
    let file = File::open(folder.join(files::FILE)).map_err(no_run(files::FILE))?;
    let notes = Notes::read(BufReader::new(file), &run.directory).map_err(RebuildError::from)?;
    let mut cleaned = Cleaned {
        directory: run.directory.clone(),
        cut: notes.cut.clone(),
        deleted: delete,
        ..Cleaned::default()
    };
    // A run folder that was moved has its data areas with it.
    let scratch = [folder.join("scratch"), run.scratch.clone()];
    let scratch = scratch.into_iter().find(|path| is_scratch(path, folder));
    // Data areas that were kept may have become those of a grid.
    if let Some(path) = scratch
        .clone()
        .filter(|path| GridProcess::find(path).is_ok_and(|found| found.is_some()))
    {
        return Err(CleanError::Inhabited { path });
    }
    if let Some(path) = &scratch {
        let running = weir_grid::running_sites(path)?;
        cleaned.processes = running.into_iter().map(|process| process.site).collect();
        if delete {
            weir_grid::stop_sites(path)?;
        }
    }
    let catalog = plan.grid.catalog.as_ref().and_then(|catalog| catalog.service.as_ref());
    let has_rules = catalog.is_some() && plan.makes_rules();
    if has_rules || plan.grid.rses.iter().any(|rse| !rse.kind.is_embedded()) {
        let place = scratch.clone().unwrap_or_else(|| folder.join("scratch"));
        let credentials = GridCredentials::open(&plan.grid, &place).await?;
        let name = run.directory.trim_start_matches("/weir/");
        // First, so that the catalogue brings nothing back that is deleted here.
        if let Some(access) = credentials.catalog().filter(|_| has_rules) {
            match rules(&doors::catalog(access), name, delete).await {
                Ok(count) => cleaned.rules = count,
                Err(error) => cleaned.rules_failed = Some(weir_auth::redact(&weir_auth::error_chain(&error))),
            }
        }
        let doors = doors::external(&plan.grid, &credentials, name);
        let cleaning = Cleaning {
            plan: &plan,
            directory: &run.directory,
            doors: &doors?,
            which,
        };
        cleaning.files(&notes, &mut cleaned, tell).await;
        cleaning.directories(&notes, &mut cleaned).await;
        credentials.close().await;
        if scratch.is_none() {
            let _gone = fs::remove_dir_all(&place);
        }
    }
    if delete && cleaned.cut.is_none() {
        note_deleted(folder, &cleaned);
    }
    if let Some(scratch) = scratch {
        cleaned.scratch = Some((scratch.clone(), size_of(&scratch)));
        // As long as something is left to delete, its credentials may be needed again.
        if delete && !cleaned.is_unfinished() {
            fs::remove_dir_all(&scratch).map_err(|source| CleanError::Scratch { path: scratch, source })?;
        }
    }
    Ok(cleaned)
}

/// Counts the rules of a run in a catalogue, and ends them if that is asked for.
async fn rules(catalog: &CatalogService, run: &str, end: bool) -> Result<usize, InjectionError> {
    let rules = catalog.rules_of(run).await?;
    if end {
        catalog.end(rules.iter().map(String::as_str)).await?;
    }
    Ok(rules.len())
}

/// Whether a directory is that of a grid which a run started: made by it, and with a name of that form.
fn is_scratch(path: &Path, folder: &Path) -> bool {
    let named = path
        .file_name()
        .is_some_and(|name| name == "scratch" || Some(name) == folder.file_name());
    named && !path.is_symlink() && path.join("grid.lock").is_file()
}

/// Notes the files that were deleted, so that they are not looked for again. A file that was not there stays noted: a copy that a storage
/// carries on by itself may still make it.
fn note_deleted(folder: &Path, cleaned: &Cleaned) {
    let mut text = Vec::new();
    for file in cleaned.with(|found| *found == LeftoverState::Deleted) {
        let row = FileRow {
            happened: Happened::Deleted,
            rse: &file.rse,
            path: &file.path,
            size: 0,
            checksum: None,
        };
        let _memory = files::write(&mut text, &row);
    }
    let to = File::options().append(true).open(folder.join(files::FILE));
    if let Err(error) = to.and_then(|mut to| to.write_all(&text)) {
        tracing::warn!(%error, "could not record the deletions");
    }
}

/// Bytes in the files below a directory.
fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// The comparison of a file with the run's record.
enum Comparison {
    Same,
    Absent,
    /// So many bytes, fewer than noted.
    Shorter(u64),
    Differs(String),
}

/// A run, for the search of its leftovers.
struct Cleaning<'a> {
    plan: &'a Plan,
    directory: &'a str,
    /// Of the storages that are not the embedded grid's.
    doors: &'a [StorageDoor],
    which: Delete,
}

impl Cleaning<'_> {
    fn door(&self, rse: &str) -> Option<&StorageDoor> {
        self.doors.iter().find(|door| door.name == rse)
    }

    /// Looks at every file that is noted.
    async fn files(&self, notes: &Notes, cleaned: &mut Cleaned, tell: &(dyn Fn(&LeftFile) + Sync)) {
        let external = notes.left.iter().filter_map(|((rse, path), note)| {
            let door = self.door(rse)?;
            Some((door, path, note))
        });
        let look = |(door, path, note): (&'_ StorageDoor, &'_ String, &'_ Note)| {
            let (rse, path, note) = (door.name.clone(), path.clone(), note.clone());
            let door = door.clone();
            async move {
                let found = self.file(&door, &path, &note).await;
                let size = note.size;
                LeftFile { rse, path, size, found }
            }
        };
        let mut looks = futures_util::stream::iter(external.map(look)).buffer_unordered(AT_ONCE);
        while let Some(file) = looks.next().await {
            tell(&file);
            cleaned.files.push(file);
        }
        cleaned
            .files
            .sort_by(|one, other| (&one.rse, &one.path).cmp(&(&other.rse, &other.path)));
    }

    async fn file(&self, door: &StorageDoor, path: &str, note: &Note) -> LeftoverState {
        if !is_below(path, self.directory) && number_of_catalogued(path, self.directory).is_none() {
            return LeftoverState::Other(format!(
                "is not below {}, and no file of the run in a catalogue",
                self.directory
            ));
        }
        let door = &door.of_path(path);
        let failed = |error: crate::services::storage::StorageError| {
            LeftoverState::Failed(weir_auth::redact(&weir_auth::error_chain(&error)))
        };
        match self.compare(door, path, note).await {
            Ok(Comparison::Same) if self.which == Delete::Nothing => return LeftoverState::Same,
            Ok(Comparison::Same) => {}
            Ok(Comparison::Shorter(_)) if self.which == Delete::WholeAndPartial => {}
            Ok(Comparison::Shorter(size)) => {
                return LeftoverState::Partial(format!("its size is {size}, not {}", note.size));
            }
            Ok(Comparison::Absent) => return LeftoverState::Gone,
            Ok(Comparison::Differs(why)) => return LeftoverState::Other(why),
            Err(error) => return failed(error),
        }
        match door.delete(path).await {
            Ok(_was_there) => LeftoverState::Deleted,
            Err(error) => failed(error),
        }
    }

    /// Compares the file at a path with the run's record.
    async fn compare(&self, door: &StorageDoor, path: &str, note: &Note) -> Result<Comparison, StorageError> {
        let Some(seen) = door.look(path).await? else {
            return Ok(Comparison::Absent);
        };
        let size_differs = |size: u64| {
            if size < note.size {
                return Comparison::Shorter(size);
            }
            Comparison::Differs(format!("its size is {size}, not {}", note.size))
        };
        if let Some(size) = seen.size.filter(|size| *size != note.size) {
            return Ok(size_differs(size));
        }
        let Some(sent) = note.checksum.clone().or_else(|| self.of_source(path, note.size)) else {
            return Ok(Comparison::Differs("the run noted no checksum of it".to_owned()));
        };
        let there = if let Some(checksum) = seen.checksum {
            checksum
        } else {
            let (size, checksums) = door.read_back(path).await?;
            if size != note.size {
                return Ok(size_differs(size));
            }
            let read = checksums.get(Algorithm::Adler32);
            read.cloned().expect("a read-back takes this checksum")
        };
        Ok(if there == sent {
            Comparison::Same
        } else {
            Comparison::Differs(format!("its checksum is {there}, not {sent}"))
        })
    }

    /// The checksum of a source file whose upload did not finish in the run: its content follows from its number.
    fn of_source(&self, path: &str, size: u64) -> Option<Checksum> {
        let own = path
            .strip_prefix(self.directory)
            .and_then(|rest| rest.strip_prefix("/src/"));
        let number = match own {
            Some(number) => number.parse().ok()?,
            None => number_of_catalogued(path, self.directory)?,
        };
        let mut content = Content::new(self.plan.seed, number, size);
        let checksums = content.checksums();
        Iterator::for_each(&mut content, drop);
        checksums.get()?.get(Algorithm::Adler32).cloned()
    }

    /// Checks the directories of the run, the deepest first, and deletes empty ones.
    async fn directories(&self, notes: &Notes, cleaned: &mut Cleaned) {
        let mut directories: Vec<_> = notes.directories.iter().collect();
        directories.sort_by_key(|(rse, path)| (rse.clone(), std::cmp::Reverse(path.matches('/').count())));
        // Files that are, or would be, gone when their directory's turn comes.
        let gone = cleaned.with(|found| {
            matches!(
                found,
                LeftoverState::Same | LeftoverState::Deleted | LeftoverState::Gone
            )
        });
        let mut gone: BTreeSet<(String, String)> = gone.map(|file| (file.rse.clone(), file.path.clone())).collect();
        let known: BTreeSet<(String, String)> = cleaned
            .files
            .iter()
            .map(|file| (file.rse.clone(), file.path.clone()))
            .collect();
        for (rse, path) in directories {
            let Some(door) = self.door(rse).filter(|_| is_below_or_at(path, self.directory)) else {
                continue;
            };
            let entries = match door.list(path).await {
                Ok(None) => {
                    gone.insert((rse.clone(), path.clone()));
                    continue;
                }
                Ok(Some(entries)) => entries,
                Err(error) => {
                    let why = weir_auth::redact(&weir_auth::error_chain(&error));
                    cleaned.directories.push((rse.clone(), path.clone(), Some(why)));
                    continue;
                }
            };
            let within = entries
                .iter()
                .skip(1)
                .map(|entry| (rse.clone(), format!("{path}/{}", entry.name())));
            let stay: Vec<_> = within.filter(|place| !gone.contains(place)).collect();
            let is_noted = |place: &(String, String)| known.contains(place) || notes.directories.contains(place);
            cleaned
                .unknown
                .extend(stay.iter().filter(|place| !is_noted(place)).cloned());
            let why = match stay.len() {
                0 if self.which != Delete::Nothing => door
                    .delete_directory(path)
                    .await
                    .err()
                    .map(|error| weir_auth::error_chain(&error)),
                0 => None,
                count => Some(format!("holds {count} that stay")),
            };
            if why.is_none() {
                gone.insert((rse.clone(), path.clone()));
            }
            cleaned.directories.push((rse.clone(), path.clone(), why));
        }
    }
}

/// Whether a path is below a directory, for any treatment of dots.
fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| !rest.is_empty() && rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// The number of a source file of the run that a catalogue knows, by its path: the catalogue chooses the folder, the run the name.
fn number_of_catalogued(path: &str, directory: &str) -> Option<u64> {
    let run = directory.rsplit('/').next().filter(|run| !run.is_empty())?;
    let (folder, name) = path.rsplit_once('/')?;
    if !is_below(path, "") || folder.is_empty() {
        return None;
    }
    name.strip_prefix(run)?.strip_prefix(".source.")?.parse().ok()
}

fn is_below_or_at(path: &str, directory: &str) -> bool {
    path == directory || is_below(path, directory)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    #[test]
    fn nothing_outside_the_directory_of_the_run_is_touched() {
        // Wrong: with an edited record `clean` deletes other users' files.
        for path in ["/weir/run/0/A/1", "/weir/run/src/0"] {
            assert!(is_below(path, "/weir/run"), "{path}");
        }
        let number = |path: &str| number_of_catalogued(path, "/weir/run-1");
        assert_eq!(number("/weir-challenge/ab/cd/run-1.source.7"), Some(7));
        for path in [
            "/weir-challenge/ab/cd/run-2.source.7",
            "/weir-challenge/ab/cd/run-1.source.x",
            "/weir-challenge/../cd/run-1.source.7",
            "/run-1.source.7",
            "run-1.source.7",
        ] {
            assert_eq!(number(path), None, "{path}");
        }
        for path in [
            "/weir/run",
            "/weir/run/",
            "/weir/running/1",
            "/weir/run/../other/1",
            "/weir/run//1",
            "/data/1",
            "/weir/run/./1",
            "",
        ] {
            assert!(!is_below(path, "/weir/run"), "{path}");
        }
    }

    #[test]
    fn a_deleted_file_is_no_leftover() {
        // Wrong: files are looked for that went long ago, or a file that was made again is forgotten.
        let text = "event,rse,path,size_bytes,checksum\nmake,A,/weir/r/src/0,5,\nmake,A,/weir/r/src/0,5,adler32:00000001\n\
            make,B,/weir/r/0/A/1,5,adler32:00000001\ndelete,B,/weir/r/0/A/1,0,\nmake,B,/weir/r/0/A/2,7,adler32:0000";
        let notes = Notes::read(text.as_bytes(), "/weir/r").unwrap();
        let left: Vec<_> = notes.left.keys().map(|(rse, path)| format!("{rse} {path}")).collect();
        assert_eq!(left, ["A /weir/r/src/0"]);
        assert!(
            notes
                .left
                .values()
                .all(|note| note.size == 5 && note.checksum.is_some())
        );
        let directories: Vec<_> = notes
            .directories
            .iter()
            .map(|(rse, path)| format!("{rse} {path}"))
            .collect();
        assert_eq!(
            directories,
            [
                "A /weir/r",
                "A /weir/r/src",
                "B /weir/r",
                "B /weir/r/0",
                "B /weir/r/0/A"
            ]
        );
        assert!(notes.cut.unwrap().contains("its end is missing"));
    }
}
