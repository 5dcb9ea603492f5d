//! Processor time of the kernel for a small file in memory, and for each promise that Weir keeps with it, without any server.

use std::{
    fs::{self, File},
    io::Write as _,
    os::fd::AsFd,
    path::Path,
};

use anyhow::Result;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, StatxFlags, XattrFlags};

const SIZE: usize = 10_000;
const FILES: usize = 2000;
const ROUNDS: usize = 7;

/// As the storage endpoint writes it, with two checksums and the creator.
const RECORD: &[u8] =
    b"1 size=10000 mtime_ns=1700000000000000001 by=0123456789abcdef0123456789abcdef adler32:0a1b2c3d crc32c:0a1b2c3d";

/// Processor seconds for each file, user and system.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SmallFile {
    /// Made under its own name, written and closed.
    pub(super) plain: f64,
    /// More, if it is written under a private name and renamed: nobody ever sees a part of it.
    pub(super) private_name: f64,
    /// More, if its checksums are kept in an attribute.
    pub(super) record: f64,
}

#[derive(Clone, Copy)]
struct Promises {
    private_name: bool,
    record: bool,
}

impl SmallFile {
    /// Medians over rounds in each of which the three take turns.
    pub(super) fn measure() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-bench-").tempdir_in("/dev/shm")?;
        let kinds = [(false, false), (true, false), (false, true)];
        let mut each = [const { Vec::new() }; 3];
        for round in 0..=ROUNDS {
            for (kind, (private_name, record)) in kinds.into_iter().enumerate() {
                let took = make(folder.path(), Promises { private_name, record })?;
                // The first fetches memory.
                if round > 0 {
                    each[kind].push(took);
                }
            }
        }
        let [plain, renamed, recorded] = each.map(crate::stats::median);
        Ok(Self {
            plain,
            private_name: renamed - plain,
            record: recorded - plain,
        })
    }
}

/// Processor seconds of this thread for each file.
fn make(folder: &Path, promises: Promises) -> Result<f64> {
    let (visible, private) = (folder.join("visible"), folder.join("private"));
    fs::create_dir_all(&visible)?;
    fs::create_dir_all(&private)?;
    let (root, hidden) = (File::open(folder)?, File::open(&private)?);
    let content = vec![7_u8; SIZE];
    let names: Vec<String> = (0..FILES).map(|number| number.to_string()).collect();
    let before = super::process_seconds();
    for name in &names {
        let parent = parent(&root)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = if promises.private_name {
            hidden.as_fd()
        } else {
            parent.as_fd()
        };
        let mut file = File::from(rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&content)?;
        if promises.record {
            rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::MTIME | StatxFlags::SIZE)?;
            rustix::fs::fsetxattr(&file, "user.weir.checksums", RECORD, XattrFlags::empty())?;
        }
        if promises.private_name {
            rustix::fs::renameat_with(&hidden, name, &parent, name, RenameFlags::NOREPLACE)?;
        }
    }
    let took = (super::process_seconds() - before) / FILES as f64;
    fs::remove_dir_all(&visible)?;
    Ok(took)
}

/// The directory of a file, opened for it as for a request that names a path.
fn parent(root: &File) -> Result<impl AsFd + use<>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(root, "visible", flags, Mode::empty())?)
}
