//! Messages on disk: a folder of numbered segments, each a file of lines `CO {…}`, oldest first.
//!
//! One writer appends; readers have a [`Position`] of their own, kept in `NAME.cursor`. A segment is deleted when every
//! reader is past it, or when the folder exceeds its limit: then the oldest is deleted, read or not. Written lines
//! survive the death of the process; after [`Spool::sync`] they survive that of the machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// A segment grows to this size.
const SEGMENT: u64 = 8 << 20;

/// A reader takes so much at once, and a line that is longer as a whole.
const READ: usize = 1 << 20;

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The number of the segment, from 1.
    pub segment: u64,
    /// Bytes into it.
    pub offset: u64,
}

/// A spool that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not use the spool of events {path}; check that the folder may be written and has space")]
pub struct SpoolError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The writing side. There is one for each folder; the service's lock on its store sees to that.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    /// Bytes that all segments may have together.
    keep: u64,
    segment: u64,
    file: File,
    length: u64,
    dirty: bool,
}

impl Spool {
    /// Opens a folder, or makes it. A line that a crash has cut off goes.
    pub fn open(folder: &Path, keep: u64) -> Result<Self, SpoolError> {
        let wrap = |source| SpoolError {
            path: folder.to_owned(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(wrap)?;
        let segment = segments(folder).map_err(wrap)?.last().map_or(1, |(number, _)| *number);
        let file = open_segment(folder, segment).map_err(wrap)?;
        let length = end_of_last_line(&file).map_err(wrap)?;
        file.set_len(length).map_err(wrap)?;
        Ok(Self {
            folder: folder.to_owned(),
            keep: keep.max(2 * SEGMENT),
            segment,
            file,
            length,
            dirty: false,
        })
    }

    /// Appends whole lines. On an error nothing of them stays.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.length >= SEGMENT {
            self.file.sync_data()?;
            self.file = open_segment(&self.folder, self.segment + 1)?;
            (self.segment, self.length) = (self.segment + 1, 0);
        }
        self.file.seek(SeekFrom::Start(self.length))?;
        if let Err(error) = self.file.write_all(lines) {
            // A torn line would spoil the next one.
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += lines.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// Everything appended survives a loss of power.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(())
    }

    /// The end of the written lines.
    pub fn end(&self) -> Position {
        Position {
            segment: self.segment,
            offset: self.length,
        }
    }

    /// Removes segments before `needed`, and the oldest ones beyond the room there is.
    pub fn prune(&self, needed: u64) -> io::Result<()> {
        let all = segments(&self.folder)?;
        let mut total: u64 = all.iter().map(|(_, size)| size).sum();
        for (number, size) in all {
            let wanted = number >= needed && total <= self.keep;
            if wanted || number == self.segment {
                break;
            }
            fs::remove_file(path_of(&self.folder, number))?;
            total -= size;
        }
        Ok(())
    }
}

/// The lines of a read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Whole lines.
    pub lines: Vec<u8>,
    /// The position after them.
    pub next: Position,
    /// Segments that went before this reader had read them to their end.
    pub missed: u64,
}

/// Reads on from a position; segment 0 is the oldest there is. No lines: there are none yet.
pub(crate) fn read(folder: &Path, from: Position) -> io::Result<Chunk> {
    let (mut at, mut resume) = (from, from);
    let mut missed = 0;
    for (number, _) in segments(folder)? {
        if number < at.segment {
            continue;
        }
        if number > at.segment {
            missed += if from.segment == 0 { 0 } else { number - at.segment };
            at = Position {
                segment: number,
                offset: 0,
            };
            resume = at;
        }
        let lines = read_lines(&path_of(folder, number), at.offset)?;
        if !lines.is_empty() {
            at.offset += lines.len() as u64;
            return Ok(Chunk {
                lines,
                next: at,
                missed,
            });
        }
        // Nothing is written to it any more if there is a later one, where this reader goes on.
        at = Position {
            segment: number + 1,
            offset: 0,
        };
    }
    Ok(Chunk {
        lines: Vec::new(),
        next: resume,
        missed,
    })
}

/// Whole lines from an offset; none if there are none, or the segment has gone.
fn read_lines(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut lines = Vec::new();
    loop {
        let taken = (&file).take(READ as u64).read_to_end(&mut lines)?;
        if let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') {
            lines.truncate(end + 1);
            return Ok(lines);
        }
        if taken == 0 {
            return Ok(Vec::new());
        }
    }
}

/// Where a reader stands, on disk.
#[derive(Debug)]
pub(crate) struct Cursor {
    path: PathBuf,
}

impl Cursor {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self {
            path: folder.join(format!("{name}.cursor")),
        }
    }

    /// The stored position, if there is one. A loss of power may have left the segment shorter than its reader's
    /// position: the rest was read.
    pub(crate) fn load(&self) -> io::Result<Option<Position>> {
        let Some(position) = self.saved()? else { return Ok(None) };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let offset = match fs::metadata(path_of(folder, position.segment)) {
            Ok(segment) => position.offset.min(segment.len()),
            Err(_) => position.offset,
        };
        Ok(Some(Position { offset, ..position }))
    }

    fn saved(&self) -> io::Result<Option<Position>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let numbers = text.trim().split_once(' ');
        Ok(numbers.and_then(|(segment, offset)| {
            Some(Position {
                segment: segment.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        }))
    }

    pub(crate) fn save(&self, position: Position) -> io::Result<()> {
        let text = format!("{} {}\n", position.segment, position.offset);
        weir_auth::files::write_private(&self.path, text.as_bytes())
    }
}

/// Numbers and sizes, the oldest first.
fn segments(folder: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".lines"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            match entry.metadata() {
                Ok(metadata) => all.push((number, metadata.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    all.sort_unstable();
    Ok(all)
}

fn path_of(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:012}.lines"))
}

fn open_segment(folder: &Path, segment: u64) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path_of(folder, segment))
}

/// Looks for the last line break from the end.
fn end_of_last_line(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let size = end.min(block.len() as u64);
        let part = &mut block[..size as usize];
        file.read_exact_at(part, end - size)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(end - size + at as u64 + 1);
        }
        end -= size;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use proptest::prelude::*;

    use super::*;

    fn all(folder: &Path, mut from: Position) -> (Vec<u8>, Position, u64) {
        let (mut bytes, mut missed) = (Vec::new(), 0);
        loop {
            let chunk = read(folder, from).unwrap();
            missed += chunk.missed;
            from = chunk.next;
            if chunk.lines.is_empty() {
                return (bytes, from, missed);
            }
            bytes.extend(chunk.lines);
        }
    }

    #[test]
    fn an_interrupted_write_is_removed_after_a_crash_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 0).unwrap();
        spool.append(b"CO one\nCO two\n").unwrap();
        drop(spool);
        let path = path_of(folder.path(), 1);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(b"CO thr");
        fs::write(&path, bytes).unwrap();
        let mut spool = Spool::open(folder.path(), 0).unwrap();
        spool.append(b"CO four\n").unwrap();
        assert_eq!(all(folder.path(), Position::default()).0, b"CO one\nCO two\nCO four\n");
    }

    #[test]
    fn a_reader_that_was_further_than_the_disk_goes_on_with_what_comes() {
        let folder = tempfile::tempdir().unwrap();
        let cursor = Cursor::new(folder.path(), "r");
        let mut spool = Spool::open(folder.path(), 0).unwrap();
        spool.append(b"CO one\nCO two\nCO three\n").unwrap();
        cursor.save(spool.end()).unwrap();
        drop(spool);
        // The power fails, and unsynced lines are lost.
        let segment = OpenOptions::new().write(true).open(path_of(folder.path(), 1)).unwrap();
        segment.set_len(10).unwrap();
        let mut spool = Spool::open(folder.path(), 0).unwrap();
        let at = cursor.load().unwrap().unwrap();
        spool.append(b"CO four and more\nCO five\n").unwrap();
        assert_eq!(all(folder.path(), at).0, b"CO four and more\nCO five\n");
    }

    #[test]
    fn a_reader_that_is_too_slow_misses_the_oldest_and_is_told_how_much() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 0).unwrap();
        let line = [vec![b'x'; (SEGMENT - 1) as usize], b"\n".to_vec()].concat();
        for _ in 0..5 {
            spool.append(&line).unwrap();
            spool.prune(1).unwrap();
        }
        // Room for two segments: 1 to 3 went.
        let (bytes, end, missed) = all(folder.path(), Position { segment: 1, offset: 0 });
        assert_eq!((bytes.len(), missed), (2 * line.len(), 3));
        assert_eq!(end, spool.end());
    }

    #[test]
    fn a_message_that_every_sink_has_read_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 1 << 40).unwrap();
        let line = [vec![b'x'; (SEGMENT - 1) as usize], b"\n".to_vec()].concat();
        for _ in 0..4 {
            spool.append(&line).unwrap();
        }
        spool.prune(3).unwrap();
        let left: Vec<u64> = segments(folder.path())
            .unwrap()
            .iter()
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(left, [3, 4]);
        spool.prune(99).unwrap();
        assert_eq!(segments(folder.path()).unwrap().len(), 1, "the one being written stays");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn a_reader_reads_every_line_once_in_order(
            sizes in prop::collection::vec(prop_oneof![1usize..200, 1usize..3_000_000], 1..24),
            reopen in any::<u8>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut spool = Spool::open(folder.path(), 1 << 40).unwrap();
            let cursor = Cursor::new(folder.path(), "r");
            let (mut written, mut seen, mut at) = (Vec::new(), Vec::new(), Position::default());
            for (i, size) in sizes.iter().enumerate() {
                let mut line = i.to_string().into_bytes();
                line.resize(size + 8, b'.');
                line.push(b'\n');
                spool.append(&line).unwrap();
                written.extend(line);
                if i % 3 == usize::from(reopen % 3) {
                    drop(spool);
                    spool = Spool::open(folder.path(), 1 << 40).unwrap();
                    let (bytes, next, missed) = all(folder.path(), at);
                    prop_assert_eq!(missed, 0);
                    seen.extend(bytes);
                    cursor.save(next).unwrap();
                    at = cursor.load().unwrap().unwrap();
                    spool.prune(at.segment).unwrap();
                }
            }
            let (bytes, end, missed) = all(folder.path(), at);
            seen.extend(bytes);
            prop_assert_eq!(missed, 0);
            prop_assert!(seen == written);
            prop_assert_eq!(end, spool.end());
        }
    }
}
