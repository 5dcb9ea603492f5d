//! The contract of every back end. Each check takes any inhabitant of the trait: the POSIX directory is the first, one that fails
//! on demand the second.

use bytes::Bytes;
use weir_auth::StoragePath;
use weir_storage::backend::{
    Backend, BackendError, Changed, DeferredRemoval, Effort, Obstacle, PosixBackend, Published, Usage,
};
use weir_units::{Checksum, Checksums};

/// Runs every check against a fresh inhabitant; `$make` gives it, and what must live as long.
macro_rules! backend_suite {
    ($name:ident, $make:expr) => {
        backend_suite! {
            $name, $make,
            a_draft_shows_nothing_until_it_is_published,
            a_file_is_replaced_only_if_it_may_be,
            pieces_land_where_they_belong,
            durable_pieces_land_where_they_belong,
            checksums_stay_with_their_content,
            directories_list_what_was_put_into_them,
            names_change_and_go,
            trees_go_with_all_that_is_in_them,
            trees_of_any_depth_are_counted_and_removed,
            large_files_go_bit_by_bit,
            a_replaced_file_is_removed_bit_by_bit,
            a_read_body_is_not_truncated,
            directories_take_the_place_of_what_is_there,
            directories_that_others_made_are_flushed_too,
        }
    };
    ($name:ident, $make:expr, $($check:ident),+ $(,)?) => {
        mod $name {
            $(
                #[test]
                fn $check() {
                    let (_keep, backend) = $make;
                    super::$check(&backend);
                }
            )+
        }
    };
}

backend_suite!(posix, {
    let folder = tempfile::tempdir().unwrap();
    let backend = weir_storage::backend::PosixBackend::open(&folder.path().join("area")).unwrap();
    (folder, backend)
});

backend_suite!(faulty, {
    let folder = tempfile::tempdir().unwrap();
    let disk = weir_storage::backend::PosixBackend::open(&folder.path().join("area")).unwrap();
    let faults = crate::faulty::Faults::default();
    (folder, crate::faulty::Faulty::new(std::sync::Arc::new(disk), &faults))
});

fn path(text: &str) -> StoragePath {
    text.parse().unwrap()
}

fn checksums() -> Checksums {
    [Checksum::adler32(7)].into_iter().collect()
}

fn write(backend: &dyn Backend, at: &str, content: &'static str, overwrite: bool) -> Result<Option<u64>, BackendError> {
    let mut draft = backend.draft(false)?;
    draft.write_at(&[Bytes::from_static(content.as_bytes())], 0)?;
    draft.seal(&checksums(), None, false)?;
    let published = draft.publish(&path(at), overwrite)?;
    assert_eq!(published.meta.size, content.len() as u64);
    Ok(published.replaced.map(|old| old.size))
}

fn read(backend: &dyn Backend, at: &str) -> Result<String, BackendError> {
    let reader = backend.open(&path(at))?;
    let mut buffer = vec![0; 1000];
    let length = reader.read_at(&mut buffer, 0)?;
    Ok(String::from_utf8(buffer[..length].to_vec()).unwrap())
}

#[track_caller]
fn stopped<T>(outcome: Result<T, BackendError>, expected: Obstacle) {
    assert_eq!(outcome.err().map(|error| error.obstacle), Some(expected));
}

/// A half-written file that is listed, counted or opened is taken for a good one.
fn a_draft_shows_nothing_until_it_is_published(backend: &dyn Backend) {
    let draft = backend.draft(false).unwrap();
    draft.write_at(&[Bytes::from_static(b"half")], 0).unwrap();
    assert!(backend.list(&path("/")).unwrap().next(10).unwrap().is_empty());
    assert_eq!(backend.usage().unwrap(), Usage::default());
    drop(draft);
    assert_eq!(backend.sweep().unwrap().len(), 0, "a dropped draft leaves nothing");
    write(backend, "/a/b/c", "whole", false).unwrap();
    assert_eq!(read(backend, "/a/b/c").unwrap(), "whole");
    assert_eq!(backend.usage().unwrap(), Usage { bytes: 5, files: 1 });
}

/// The rename itself must refuse: a look beforehand can be overtaken.
fn a_file_is_replaced_only_if_it_may_be(backend: &dyn Backend) {
    assert_eq!(write(backend, "/f", "one", false).unwrap(), None);
    stopped(write(backend, "/f", "two", false), Obstacle::Exists);
    assert_eq!(read(backend, "/f").unwrap(), "one");
    assert_eq!(write(backend, "/f", "three", true).unwrap(), Some(3));
    assert_eq!(read(backend, "/f").unwrap(), "three");
    flushed(backend.make_directory(&path("/d")).unwrap());
    stopped(write(backend, "/d", "x", true), Obstacle::Directory);
    stopped(write(backend, "/f/g", "x", true), Obstacle::Parent);
    assert_eq!(backend.sweep().unwrap().len(), 0);
}

/// Pieces of any number and size, empty ones too, must come out as one.
fn pieces_land_where_they_belong(backend: &dyn Backend) {
    let draft = backend.draft(false).unwrap();
    // More pieces than one system call takes.
    let pieces: Vec<Bytes> = (0..3000_u32)
        .map(|number| Bytes::from(vec![(number % 251) as u8; (number % 3) as usize]))
        .collect();
    draft.write_at(&pieces, 0).unwrap();
    let all = pieces.concat();
    draft.write_at(&[Bytes::from_static(b"end")], all.len() as u64).unwrap();
    flushed(draft.publish(&path("/f"), false).unwrap().changed);
    let reader = backend.open(&path("/f")).unwrap();
    let mut buffer = vec![0; all.len() + 100];
    assert_eq!(reader.read_at(&mut buffer, 0).unwrap(), all.len() + 3);
    assert!(buffer[..all.len()] == all[..] && &buffer[all.len()..all.len() + 3] == b"end");
    assert_eq!(reader.read_at(&mut buffer, 1 << 40).unwrap(), 0);
}

/// Bytes that go to the disk by another way than usual must be the same file: odd beginnings, odd ends, odd pieces.
fn durable_pieces_land_where_they_belong(backend: &dyn Backend) {
    let content: Bytes = (0..3 * MIB + 5).map(|at| (at * 7 + at / 4096) as u8).collect();
    for (number, piece) in [100, 4096, 65_536, 100_000, MIB as usize + 3].into_iter().enumerate() {
        for batch in [4096, 65_536, 1_000_000, MIB as usize, content.len()] {
            let at = format!("/f{number}-{batch}");
            let mut draft = backend.draft(true).unwrap();
            draft.reserve(content.len() as u64).unwrap();
            // The last first, as several streams may.
            let mut batches: Vec<usize> = (0..content.len()).step_by(batch).collect();
            batches.reverse();
            for begin in batches {
                let bytes = content.slice(begin..(begin + batch).min(content.len()));
                let pieces: Vec<Bytes> = bytes.chunks(piece).map(Bytes::copy_from_slice).collect();
                draft.write_at(&pieces, begin as u64).unwrap();
            }
            draft.seal(&checksums(), None, true).unwrap();
            flushed(draft.publish(&path(&at), false).unwrap().changed);
            let reader = backend.open(&path(&at)).unwrap();
            let mut buffer = vec![0; content.len() + 1];
            assert_eq!(reader.read_at(&mut buffer, 0).unwrap(), content.len());
            assert!(buffer[..content.len()] == content[..], "{at}");
        }
    }
}

/// A checksum of other content would vouch for a damaged file.
fn checksums_stay_with_their_content(backend: &dyn Backend) {
    write(backend, "/f", "one", false).unwrap();
    let old = backend.open(&path("/f")).unwrap();
    assert_eq!(old.checksums(), checksums());
    old.keep_checksums(&[Checksum::crc32c(9)].into_iter().collect());
    assert_eq!(old.checksums().len(), 2);
    flushed(backend.rename(&path("/f"), &path("/g"), false).unwrap().1);
    assert_eq!(backend.open(&path("/g")).unwrap().checksums().len(), 2);
    write(backend, "/g", "two", true).unwrap();
    // The reader of the replaced file still has that file, and its checksums.
    let mut buffer = [0; 3];
    old.read_at(&mut buffer, 0).unwrap();
    assert_eq!((&buffer, old.checksums().len()), (b"one", 2));
    assert_eq!(backend.open(&path("/g")).unwrap().checksums(), checksums());
}

/// An entry lost between two batches is a file that a catalogue declares missing.
fn directories_list_what_was_put_into_them(backend: &dyn Backend) {
    for number in 0..50 {
        write(backend, &format!("/d/{number}"), "x", false).unwrap();
    }
    flushed(backend.make_directory(&path("/d/e")).unwrap());
    stopped(backend.make_directory(&path("/d/e")), Obstacle::Exists);
    stopped(backend.make_directory(&path("/x/y")), Obstacle::Parent);
    let mut listing = backend.list(&path("/d")).unwrap();
    let mut names = Vec::new();
    loop {
        let entries = listing.next(7).unwrap();
        if entries.is_empty() {
            break;
        }
        names.extend(entries.into_iter().map(|entry| (entry.name, entry.meta.directory)));
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 51);
    assert_eq!(names.iter().filter(|(_, directory)| *directory).count(), 1);
    stopped(backend.list(&path("/d/1")), Obstacle::File);
    stopped(backend.list(&path("/none")), Obstacle::Missing);
}

/// Names that go, or go elsewhere, must take exactly their file along.
fn names_change_and_go(backend: &dyn Backend) {
    write(backend, "/f", "one", false).unwrap();
    write(backend, "/g", "second", false).unwrap();
    stopped(
        backend.rename(&path("/f"), &path("/g"), false).map(drop),
        Obstacle::Exists,
    );
    let (replaced, _) = backend.rename(&path("/f"), &path("/g"), true).unwrap();
    assert_eq!(replaced.map(|old| old.size), Some(6));
    stopped(backend.stat(&path("/f")), Obstacle::Missing);
    flushed(backend.make_directory(&path("/d")).unwrap());
    stopped(
        backend.rename(&path("/d"), &path("/d/e"), false).map(drop),
        Obstacle::IntoItself,
    );
    stopped(backend.remove_file(&path("/d")), Obstacle::Directory);
    stopped(backend.remove_directory(&path("/g")), Obstacle::File);
    let (meta, changed) = backend.remove_file(&path("/g")).unwrap();
    assert!(
        meta.size == 3 && changed.removal.is_none(),
        "what is small goes at once"
    );
    flushed(changed);
    flushed(backend.remove_directory(&path("/d")).unwrap());
    stopped(backend.open(&path("/g")).map(drop), Obstacle::Missing);
    assert_eq!(backend.usage().unwrap(), Usage::default());
}

/// A tree half removed is neither there nor gone.
fn trees_go_with_all_that_is_in_them(backend: &dyn Backend) {
    write(backend, "/d/a/f", "one", false).unwrap();
    write(backend, "/d/g", "two", false).unwrap();
    write(backend, "/e", "stays", false).unwrap();
    stopped(backend.remove_directory(&path("/d")), Obstacle::NotEmpty);
    let mut removal = flushed(backend.defer_removal(&path("/d")).unwrap()).unwrap();
    stopped(backend.stat(&path("/d")), Obstacle::Missing);
    assert_eq!(emptied_by(&mut *removal, 1), Usage { bytes: 6, files: 2 });
    assert_eq!(backend.usage().unwrap(), Usage { bytes: 5, files: 1 });
    assert_eq!(backend.sweep().unwrap().len(), 0);
}

/// Waits for the disk; gives what lost its name.
fn flushed(changed: Changed) -> Option<Box<dyn DeferredRemoval>> {
    for directory in &changed.directories {
        directory.flush().unwrap();
    }
    changed.removal
}

/// Goes on with a removal, so many entries at a time; gives what that freed.
fn emptied_by(removal: &mut dyn DeferredRemoval, entries: u64) -> Usage {
    let at_most = Effort {
        entries,
        bytes: 1 << 40,
    };
    let mut freed = Usage::default();
    for _ in 0..1_000_000 {
        let emptied = removal.empty(at_most);
        freed.bytes += emptied.freed.bytes;
        freed.files += emptied.freed.files;
        if emptied.outcome.unwrap() {
            return freed;
        }
    }
    panic!("the removal never ends");
}

/// A walk that descends with the tree ends with the stack, or with the descriptors, and the process with it.
fn trees_of_any_depth_are_counted_and_removed(backend: &dyn Backend) {
    // A path of 500 names at a time, each tree put below the next: 2500 levels, a path of 5 kB.
    let part = "/d".repeat(500);
    for level in 0..5 {
        write(backend, &format!("/next{part}/f"), "x", false).unwrap();
        if level > 0 {
            backend
                .rename(&path("/tree"), &path(&format!("/next{part}/tree")), false)
                .map(drop)
                .unwrap();
        }
        backend.rename(&path("/next"), &path("/tree"), false).map(drop).unwrap();
    }
    assert_eq!(backend.usage().unwrap(), Usage { bytes: 5, files: 5 });
    assert_eq!(backend.height(&path("/tree"), 10_000).unwrap(), 5 * 501 - 1);
    assert_eq!(backend.height(&path("/tree"), 100).unwrap(), 101);
    let mut removal = flushed(backend.defer_removal(&path("/tree")).unwrap()).unwrap();
    assert_eq!(emptied_by(&mut *removal, 1000), Usage { bytes: 5, files: 5 });
    assert_eq!(backend.usage().unwrap(), Usage::default());
    assert_eq!(backend.sweep().unwrap().len(), 0);
}

const MIB: u64 = 1 << 20;

/// A file whose removal costs something: all its bytes are on the disk.
fn write_large(backend: &dyn Backend, at: &str, mib: u64) -> Published {
    let draft = backend.draft(false).unwrap();
    let piece = Bytes::from(vec![7; MIB as usize]);
    for number in 0..mib {
        draft.write_at(std::slice::from_ref(&piece), number * MIB).unwrap();
    }
    draft.publish(&path(at), true).unwrap()
}

/// As the reaper does, so many bytes at a time; gives what was freed at each visit.
fn visits(removal: &mut dyn DeferredRemoval, bytes: u64) -> Vec<Usage> {
    let mut all = Vec::new();
    loop {
        let emptied = removal.empty(Effort { entries: 100, bytes });
        assert!(
            emptied.effort.entries > 0 && emptied.effort.bytes <= 2 * bytes,
            "{:?}",
            emptied.effort
        );
        all.push(emptied.freed);
        if emptied.outcome.unwrap() {
            return all;
        }
        assert!(all.len() < 1000, "it never ends");
    }
}

/// To free a petabyte in one system call keeps everybody from the disk; and what was counted must be freed exactly.
fn large_files_go_bit_by_bit(backend: &dyn Backend) {
    write_large(backend, "/f", 40);
    let (meta, changed) = backend.remove_file(&path("/f")).unwrap();
    assert_eq!(meta.size, 40 * MIB);
    stopped(backend.stat(&path("/f")), Obstacle::Missing);
    let freed = visits(&mut *changed.removal.unwrap(), 8 * MIB);
    assert!((4..=7).contains(&freed.len()), "{freed:?}");
    assert_eq!(freed.iter().map(|usage| usage.bytes).sum::<u64>(), 40 * MIB);
    assert_eq!(freed.iter().map(|usage| usage.files).sum::<u64>(), 1);
    // The same in a tree.
    write_large(backend, "/d/e/f", 20);
    write_large(backend, "/d/e/g", 20);
    write(backend, "/d/h", "small", false).unwrap();
    let freed = visits(
        &mut *backend.defer_removal(&path("/d")).unwrap().removal.unwrap(),
        8 * MIB,
    );
    assert!((4..=9).contains(&freed.len()), "{freed:?}");
    assert_eq!(freed.iter().map(|usage| usage.bytes).sum::<u64>(), 40 * MIB + 5);
    assert_eq!(freed.iter().map(|usage| usage.files).sum::<u64>(), 3);
    assert_eq!(backend.sweep().unwrap().len(), 0);
}

/// A file that another takes the name of is removed as one that is deleted.
fn a_replaced_file_is_removed_bit_by_bit(backend: &dyn Backend) {
    write_large(backend, "/f", 20);
    let published = write_large(backend, "/f", 20);
    assert_eq!(published.replaced.unwrap().size, 20 * MIB);
    let freed = visits(&mut *published.changed.removal.unwrap(), 8 * MIB);
    assert!(freed.len() >= 2 && freed.iter().map(|usage| usage.bytes).sum::<u64>() == 20 * MIB);
    write(backend, "/g", "small", false).unwrap();
    let (replaced, changed) = backend.rename(&path("/g"), &path("/f"), true).unwrap();
    assert_eq!(replaced.unwrap().size, 20 * MIB);
    let freed = visits(&mut *changed.removal.unwrap(), 8 * MIB);
    assert!(freed.len() >= 2 && freed.iter().map(|usage| usage.bytes).sum::<u64>() == 20 * MIB);
    assert_eq!(read(backend, "/f").unwrap(), "small");
    // A rename that fails leaves no second name behind.
    write_large(backend, "/large", 20);
    backend.make_directory(&path("/d")).map(drop).unwrap();
    assert!(backend.rename(&path("/d"), &path("/large"), true).is_err());
    assert_eq!(backend.sweep().unwrap().len(), 0);
}

/// A reader of a file reads it to its end, even if it is deleted meanwhile.
fn a_read_body_is_not_truncated(backend: &dyn Backend) {
    write_large(backend, "/f", 20);
    let reader = backend.open(&path("/f")).unwrap();
    let (_, changed) = backend.remove_file(&path("/f")).unwrap();
    let freed = visits(&mut *changed.removal.unwrap(), 20 * MIB);
    assert_eq!(freed.len(), 1, "it goes as a whole");
    let mut end = [0; 10];
    assert_eq!(reader.read_at(&mut end, 20 * MIB - 10).unwrap(), 10);
    assert_eq!(end, [7; 10]);
}

/// A move that fails in the middle must lose neither what moves nor what it would replace.
fn directories_take_the_place_of_what_is_there(backend: &dyn Backend) {
    write(backend, "/new/a", "new", false).unwrap();
    write(backend, "/old/b/c", "older", false).unwrap();
    write(backend, "/file", "f", false).unwrap();
    let mut removal = flushed(backend.supplant(&path("/new"), &path("/old")).unwrap()).unwrap();
    assert_eq!(read(backend, "/old/a").unwrap(), "new");
    stopped(backend.stat(&path("/old/b")), Obstacle::Missing);
    stopped(backend.stat(&path("/new")), Obstacle::Missing);
    assert_eq!(emptied_by(&mut *removal, 1), Usage { bytes: 5, files: 1 });
    let mut removal = flushed(backend.supplant(&path("/old"), &path("/file")).unwrap()).unwrap();
    assert_eq!(read(backend, "/file/a").unwrap(), "new");
    assert_eq!(emptied_by(&mut *removal, 1), Usage { bytes: 1, files: 1 });
    // Into itself: refused, and all is where it was.
    write(backend, "/file/d/e", "e", false).unwrap();
    assert!(backend.supplant(&path("/file"), &path("/file/d")).is_err());
    assert_eq!(read(backend, "/file/a").unwrap(), "new");
    assert_eq!(read(backend, "/file/d/e").unwrap(), "e");
    assert_eq!(backend.usage().unwrap(), Usage { bytes: 4, files: 2 });
    assert_eq!(backend.sweep().unwrap().len(), 0);
}

/// A file would be answered for in a directory that another request made and has not flushed yet: a power cut takes both.
fn directories_that_others_made_are_flushed_too(backend: &dyn Backend) {
    let publish = |at: &str, durable: bool| {
        let draft = backend.draft(durable).unwrap();
        draft.publish(&path(at), false).unwrap().changed
    };
    let flush = |changed: Changed| changed.directories.iter().try_for_each(|directory| directory.flush());
    let first = publish("/d/e/f", true);
    assert_eq!(first.directories.len(), 3);
    // Directories of another that are not flushed yet: the root for `d`, `d` for `e`.
    assert_eq!(publish("/d/e/g", true).directories.len(), 3);
    assert_eq!(publish("/d/e/cached", false).directories.len(), 1);
    let moved = backend.rename(&path("/d/e/g"), &path("/d/e/h"), false).unwrap().1;
    assert_eq!(moved.directories.len(), 3);
    let made = backend.make_directory(&path("/d/e/m")).unwrap();
    assert_eq!(made.directories.len(), 3);
    flush(first).unwrap();
    flush(made).unwrap();
    assert_eq!(publish("/d/e/i", true).directories.len(), 1);
    assert_eq!(publish("/d/e/m/j", true).directories.len(), 1);
    // A directory that was dropped unflushed counts until a request flushes it.
    drop(backend.make_directory(&path("/k")).unwrap());
    for due in [2, 1] {
        let changed = publish(&format!("/k/{due}"), true);
        assert_eq!(changed.directories.len(), due);
        flush(changed).unwrap();
    }
}

/// Without the lock, a second endpoint would sweep away what the first is writing.
#[test]
fn a_directory_has_one_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let first = PosixBackend::open(folder.path()).unwrap();
    assert!(PosixBackend::open(folder.path()).is_err());
    drop(first);
    PosixBackend::open(folder.path()).unwrap();
}
