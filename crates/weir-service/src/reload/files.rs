//! Files that other programs renew: whether any has changed since it was last looked at.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Directories in directories that are looked into: `vomsdir` has one for each VO.
const LEVELS: usize = 1;

/// Values that change with a file. Not only its time: `cp -p` and `mv` keep that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    path: PathBuf,
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
    /// When its owner, rights or content changed, in seconds and nanoseconds.
    changed: (i64, i64),
}

/// The state of files, and of those in directories, at one time. Unreadable ones are left out.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen(Vec<Stamp>);

impl Seen {
    /// Reads the state of files, and of the files in directories. A link counts as its target.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut stamps = Vec::new();
        for path in paths {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => {
                    // Only its readable entries count.
                    let _ = in_directory(path, LEVELS, &mut stamps);
                }
                Ok(metadata) => stamps.push(Stamp::new(path.to_owned(), &metadata)),
                Err(_) => {}
            }
        }
        // Directories are read in no order.
        stamps.sort();
        Self(stamps)
    }
}

impl Stamp {
    fn new(path: PathBuf, metadata: &fs::Metadata) -> Self {
        Self {
            path,
            inode: metadata.ino(),
            size: metadata.len(),
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn in_directory(path: &Path, levels: usize, stamps: &mut Vec<Stamp>) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() && levels > 0 {
            in_directory(&path, levels - 1, stamps)?;
        } else {
            stamps.push(Stamp::new(path, &metadata));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// A certificate that was put in place with the times of before would not be served until a restart.
    #[test]
    fn every_kind_of_change_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (file, folder) = (dir.path().join("cert.pem"), dir.path().join("certificates"));
        fs::write(&file, "one").unwrap();
        fs::create_dir(&folder).unwrap();
        let look = || Seen::of([file.as_path(), folder.as_path()]);
        let first = look();
        assert_eq!(first, look());
        // Another file of the same size and time takes its name.
        let (other, time) = (
            dir.path().join("new.pem"),
            fs::metadata(&file).unwrap().modified().unwrap(),
        );
        fs::write(&other, "two").unwrap();
        fs::File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(time)
            .unwrap();
        fs::rename(&other, &file).unwrap();
        let second = look();
        assert_ne!(first, second);
        fs::create_dir(folder.join("vo")).unwrap();
        fs::write(folder.join("vo/a.lsc"), "").unwrap();
        let third = look();
        assert_ne!(second, third);
        fs::write(folder.join("vo/a.lsc"), "more").unwrap();
        assert_ne!(third, look());
        let third = look();
        fs::remove_file(&file).unwrap();
        assert_ne!(third, look());
    }
}
