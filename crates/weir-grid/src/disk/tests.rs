#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use weir_storage::backend::Draft;
use weir_storage::{AreaConfig, OpenArea as _};
use weir_units::Checksums;

use super::*;

fn area(root: &std::path::Path) -> AreaConfig {
    AreaConfig::new("a", StoragePath::root(), root.to_owned())
}

fn bucket(rate: u64) -> Vec<Arc<Bucket>> {
    vec![Arc::new(Bucket::new(rate))]
}

/// Bytes would change on their way, or a fault would stay after its end.
#[test]
fn a_slow_disk_is_slow_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    let path = StoragePath::from_url_path("/file").unwrap();
    let timed = |work: &mut dyn FnMut()| {
        let begin = Instant::now();
        work();
        begin.elapsed()
    };
    disk.set(SlowDisk {
        writes: bucket(1_000_000),
        close: Duration::from_millis(150),
        ..SlowDisk::default()
    });
    let content = Bytes::from(vec![3; 200_000]);
    let written = timed(&mut || {
        let mut draft = backend.draft(false).unwrap();
        draft
            .write_at(&[content.slice(..100_000), content.slice(100_000..)], 0)
            .unwrap();
        draft.seal(&Checksums::default(), None, false).unwrap();
        let _changed = draft.publish(&path, false).unwrap();
    });
    assert!(written >= Duration::from_millis(340), "{written:?}");
    let reader = backend.open(&path).unwrap();
    let mut read = vec![0; 200_000];
    disk.set(SlowDisk {
        reads: bucket(1_000_000),
        ..SlowDisk::default()
    });
    assert_eq!(reader.read_cached(&mut read, 0), 0, "it would not wait");
    let slow = timed(&mut || assert_eq!(reader.read_at(&mut read, 0).unwrap(), 200_000));
    assert!(slow >= Duration::from_millis(190) && read == content, "{slow:?}");
    disk.set(SlowDisk::default());
    let well = timed(&mut || assert_eq!(reader.read_at(&mut read, 0).unwrap(), 200_000));
    assert!(well < Duration::from_millis(150), "{well:?}");
    assert!(disk.held() >= Duration::from_millis(500), "{:?}", disk.held());
}

/// One file would take the turn of others, or reads and writes at once would cost nothing.
#[test]
fn a_file_has_its_own_rate_and_mixing_costs() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    let write = |draft: &dyn Draft| {
        let begin = Instant::now();
        draft.write_at(&[Bytes::from(vec![1; 100_000])], 0).unwrap();
        begin.elapsed()
    };
    disk.set(SlowDisk {
        streams: [None, Some(1_000_000)],
        ..SlowDisk::default()
    });
    let drafts = [backend.draft(false).unwrap(), backend.draft(false).unwrap()];
    let begin = Instant::now();
    std::thread::scope(|scope| drafts.iter().for_each(|draft| drop(scope.spawn(|| write(&**draft)))));
    let both = begin.elapsed();
    assert!(
        both >= Duration::from_millis(95) && both < Duration::from_millis(180),
        "{both:?}"
    );
    let [mut one, other] = drafts;
    drop(other);
    one.seal(&Checksums::default(), None, false).unwrap();
    let path = StoragePath::from_url_path("/file").unwrap();
    let _changed = one.publish(&path, false).unwrap();
    let _read = backend.open(&path).unwrap();
    disk.set(SlowDisk {
        writes: bucket(1_000_000),
        mixing: 0.5,
        ..SlowDisk::default()
    });
    let mixed = write(&*backend.draft(false).unwrap());
    assert!(
        mixed >= Duration::from_millis(190),
        "half of the rate is left: {mixed:?}"
    );
}

/// A file would be told to be whole before it was read.
#[test]
fn a_file_is_read_back_before_its_end_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    disk.set(SlowDisk {
        reads: bucket(1_000_000),
        reads_back: true,
        ..SlowDisk::default()
    });
    let mut draft = backend.draft(false).unwrap();
    draft.write_at(&[Bytes::from(vec![1; 150_000])], 0).unwrap();
    draft.seal(&Checksums::default(), None, false).unwrap();
    let begin = Instant::now();
    let _changed = draft
        .publish(&StoragePath::from_url_path("/file").unwrap(), false)
        .unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(140), "{:?}", begin.elapsed());
    assert_eq!(disk.active(), 0);
}

/// An old file would cost nothing, or files without one, too.
#[test]
fn an_old_file_is_deleted_first() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    disk.set(SlowDisk {
        overwrites: 0.5,
        deletion: Duration::from_millis(20),
        ..SlowDisk::default()
    });
    for name in ["/a", "/b", "/c", "/d"] {
        let mut draft = backend.draft(false).unwrap();
        draft.seal(&Checksums::default(), None, false).unwrap();
        let path = StoragePath::from_url_path(name).unwrap();
        let _changed = draft.publish(&path, false).unwrap();
    }
    assert_eq!(disk.held().as_millis() / 20, 2, "{:?}", disk.held());
}

/// A full storage would take more, or a file would be lost that nobody asked to lose.
#[test]
fn a_full_disk_refuses_and_a_bad_one_loses() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    let write = |name: &str, bytes: usize| {
        let path = StoragePath::from_url_path(&format!("/{name}")).unwrap();
        let mut draft = backend.draft(false).unwrap();
        draft.write_at(&[Bytes::from(vec![1; bytes])], 0)?;
        draft.seal(&Checksums::default(), None, false)?;
        draft.publish(&path, true).map(|_published| path)
    };
    let set = |slow: SlowDisk| disk.set(slow);
    set(SlowDisk {
        quota: Some(1_000),
        ..SlowDisk::default()
    });
    let first = write("a", 600).unwrap();
    let refused = write("b", 600).unwrap_err();
    assert_eq!((refused.obstacle, disk.refused()), (Obstacle::NoSpace, 1));
    write("a", 900).unwrap_err();
    let _changed = backend.remove_file(&first).unwrap();
    let again = write("b", 1_000).unwrap();
    assert!(backend.stat(&again).is_ok());
    set(SlowDisk {
        vanish: 0.5,
        ..SlowDisk::default()
    });
    // A transfer service that looks at once finds them all.
    let came: Vec<StoragePath> = (0..20).map(|n| write(&format!("f{n}"), 10).unwrap()).collect();
    assert!(came.iter().all(|path| backend.stat(path).is_ok()) && disk.gone() == 0);
    std::thread::sleep(GONE_AFTER);
    let kept = came.iter().filter(|path| backend.stat(path).is_ok()).count();
    assert!((8..=12).contains(&kept), "{kept}");
    assert_eq!(disk.gone(), 20 - kept as u64);
}

/// A storage would fail for other files than asked, or with another error.
#[test]
fn a_share_of_files_cannot_be_read_or_written() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    disk.set(SlowDisk {
        failing: [None, Some((0.25, DiskFailure::Refused(Obstacle::Busy)))],
        ..SlowDisk::default()
    });
    let failed = (0..100).filter_map(|_| backend.draft(false).err()).collect::<Vec<_>>();
    assert!(
        (23..=27).contains(&failed.len()) && failed.len() as u64 == disk.failed(),
        "{}",
        failed.len()
    );
    assert!(failed.iter().all(|error| error.obstacle == Obstacle::Busy));
    disk.set(SlowDisk::default());
    assert!((0..10).all(|_| backend.draft(false).is_ok()));
}

/// A checksum would be right all the same, or the file on the disk wrong for ever.
#[test]
fn a_changed_file_has_one_other_bit_while_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    let path = StoragePath::from_url_path("/file").unwrap();
    let mut draft = backend.draft(false).unwrap();
    draft.write_at(&[Bytes::from(vec![4; 3])], 0).unwrap();
    draft.seal(&Checksums::default(), None, false).unwrap();
    let _changed = draft.publish(&path, false).unwrap();
    let read = || {
        let reader = backend.open_cached(&path).or_else(|| backend.open(&path).ok()).unwrap();
        let mut bytes = [0; 3];
        assert!(reader.sendable(0..3).is_none() || disk.failed() == 0);
        let cached = reader.read_cached(&mut bytes, 0);
        let n_read = if cached == 0 {
            reader.read_at(&mut bytes, 0).unwrap()
        } else {
            cached
        };
        assert_eq!(n_read, 3);
        bytes
    };
    assert_eq!(read(), [4; 3]);
    disk.set(SlowDisk {
        failing: [Some((1.0, DiskFailure::Changed)), None],
        ..SlowDisk::default()
    });
    assert_eq!((read(), disk.failed()), ([5, 4, 4], 1));
    disk.set(SlowDisk::default());
    disk.failed.store(0, Ordering::Relaxed);
    assert_eq!(read(), [4; 3]);
    disk.set(SlowDisk {
        corrupt: 1.0,
        ..SlowDisk::default()
    });
    // Every file that comes now is corrupt, and stays it until it is gone.
    let again = || {
        let mut draft = backend.draft(false).unwrap();
        draft.write_at(&[Bytes::from(vec![4; 3])], 0).unwrap();
        draft.seal(&Checksums::default(), None, false).unwrap();
        let _changed = draft.publish(&path, true).unwrap();
    };
    again();
    disk.set(SlowDisk::default());
    assert_eq!((read(), disk.corrupted()), ([5, 4, 4], 1));
    again();
    assert_eq!(read(), [4; 3]);
}

/// More would be served than there are places, or a place would be lost.
#[test]
fn files_wait_for_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let backend = Behind(disk.clone()).open(&area(dir.path())).unwrap();
    disk.set(SlowDisk {
        connections: [None, Some(1)],
        ..SlowDisk::default()
    });
    let first = backend.draft(false).unwrap();
    let waiting = {
        let backend = backend.clone();
        std::thread::spawn(move || drop(backend.draft(false).unwrap()))
    };
    std::thread::sleep(Duration::from_millis(60));
    assert!(!waiting.is_finished() && disk.active() == 1);
    drop(first);
    waiting.join().unwrap();
    assert!(
        disk.held() >= Duration::from_millis(40) && disk.active() == 0,
        "{:?}",
        disk.held()
    );
}
