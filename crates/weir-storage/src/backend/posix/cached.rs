//! Reading from the page cache: no thread has to wait for a disk.

use std::{io::IoSliceMut, ops::Range, os::fd::OwnedFd};

use rustix::{
    fs::{FsWord, fstatfs},
    io::{Errno, ReadWriteFlags, pread, preadv2},
};

/// `TMPFS_MAGIC` (statfs(2)).
const TMPFS: FsWord = 0x0102_1994;

/// File systems of this machine's own disks: `EXT4_SUPER_MAGIC`, `XFS_SUPER_MAGIC`, `BTRFS_SUPER_MAGIC`. Their
/// attributes of an open file were read with its inode.
const LOCAL: [FsWord; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// Distance of the bytes that are probed to see whether a part is in memory: the kernel's read-ahead.
const PROBE: usize = 128 << 10;

/// Whether a file system has no disk behind it. It knows no `RWF_NOWAIT`, and needs none.
pub(super) fn in_memory(root: &OwnedFd) -> bool {
    fstatfs(root).is_ok_and(|system| system.f_type == TMPFS)
}

/// Whether to look at an open file waits for nothing. Of others than these, cluster file systems above all, it may ask a server.
pub(super) fn at_hand(root: &OwnedFd) -> bool {
    fstatfs(root).is_ok_and(|system| system.f_type == TMPFS || LOCAL.contains(&system.f_type))
}

/// Reads as much as can be had without a wait; gives the number of bytes.
pub(super) fn read(file: &OwnedFd, buffer: &mut [u8], offset: u64, in_memory: bool) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        let (rest, at) = (&mut buffer[filled..], offset + filled as u64);
        let read = if in_memory {
            pread(file, rest, at)
        } else {
            preadv2(file, &mut [IoSliceMut::new(rest)], at, ReadWriteFlags::NOWAIT)
        };
        match read {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            // The read would wait, or its state is unknown; or there is an error, which the waiting call reports.
            Err(_) => break,
        }
    }
    filled
}

/// Whether a part of a file, as far as a look at some of its bytes tells, is in memory.
pub(super) fn holds(file: &OwnedFd, part: Range<u64>, in_memory: bool) -> bool {
    let Some(last) = part.end.checked_sub(1) else {
        return false;
    };
    // Without a disk there is nothing that a look at more than the end could tell.
    let probes = if in_memory { 0..0 } else { part };
    let mut places = probes.step_by(PROBE).chain([last]);
    places.all(|place| read(file, &mut [0], place, in_memory) == 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::io::Write as _;

    use super::*;

    /// Tests a disk's file system and one in memory, which report cached pages in different ways.
    #[test]
    fn new_bytes_are_in_memory_and_read_the_same() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let mut file = tempfile::tempfile_in(&folder).unwrap();
            let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
            file.write_all(&content).unwrap();
            let file = OwnedFd::from(file);
            let in_memory = in_memory(&file);
            let mut buffer = vec![0; 300_000];
            assert_eq!(read(&file, &mut buffer, 5, in_memory), 300_000, "{}", folder.display());
            assert!(buffer == content[5..300_005]);
            assert_eq!(read(&file, &mut buffer, 999_990, in_memory), 10);
            assert_eq!(read(&file, &mut buffer, 2_000_000, in_memory), 0);
            assert!(holds(&file, 7..1_000_000, in_memory));
            assert!(!holds(&file, 7..1_000_001, in_memory));
            assert!(!holds(&file, 0..0, in_memory));
        }
    }

    /// A thread that serves others would wait for the disk.
    #[test]
    fn a_file_on_disk_alone_is_not_waited_for() {
        // So large that it is not there again by the time of the second look: each look has the kernel read ahead a little.
        const SIZE: usize = 64 << 20;
        // Beside the programs that were built: temporary files may lie in memory.
        let program = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; SIZE]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let file = OwnedFd::from(file);
        assert!(!in_memory(&file), "{} is no disk", folder.path().display());
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert!(!holds(&file, 0..SIZE as u64, false));
        assert!(read(&file, &mut vec![0; SIZE], 0, false) < SIZE);
    }
}
