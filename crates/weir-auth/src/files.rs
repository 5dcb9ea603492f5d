//! Files and folders that only their owner can have made, that only the owner may read, and that are complete or
//! absent.
//!
//! A user with write access to a folder can put a link there, or a file with any content. So a file that holds a
//! secret, or names trusted parties, is not opened through a link, and must belong to the user of the process, or to
//! root.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Why a file or folder that is there is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// Its last name is a symbolic link.
    #[error("it is a symbolic link; name its target, if that is yours")]
    Link,
    /// It belongs to neither the user of this process nor root.
    #[error("it belongs to user {owner}, and this process runs as user {user}; use a file or folder of your own")]
    Owner {
        /// The owner.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// It is neither a regular file nor, where one is wanted, a folder.
    #[error("it is not a {0}")]
    Kind(&'static str),
    /// Others than its owner may write into it, and it holds something.
    #[error("others may write into it (mode {mode:04o}) and change its content; use a folder of your own")]
    Open {
        /// Its permissions.
        mode: u32,
    },
}

impl From<Untrusted> for io::Error {
    fn from(why: Untrusted) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, why)
    }
}

fn is_ours(metadata: &fs::Metadata) -> Result<(), Untrusted> {
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user || owner == 0 {
        Ok(())
    } else {
        Err(Untrusted::Owner { owner, user })
    }
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Opens a file of the user's own, with these options, but not through a link.
///
/// # Errors
/// Errors of the file system; [`Untrusted`] as `PermissionDenied`.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe without a writer must not block the process.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path);
    let file = file.map_err(|error| if is_link(&error) { Untrusted::Link.into() } else { error })?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Untrusted::Kind("regular file").into());
    }
    is_ours(&metadata)?;
    Ok(file)
}

/// A path without links. Of a path that does not exist yet, the directories that exist are resolved.
pub fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = there else { return path };
    let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
    // Joining nothing would add a slash, and a file would not be found by it.
    if rest.as_os_str().is_empty() {
        real
    } else {
        real.join(rest)
    }
}

/// Opens a log for appending; a new one has mode 0600, because logs contain names of users and files.
///
/// # Errors
/// Errors of the file system.
pub fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Reads a file of the user's own ([`open_own`]).
///
/// # Errors
/// As [`open_own`], and `InvalidData` if it is no text.
pub fn read_own(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_own(path, File::options().read(true))?.read_to_string(&mut text)?;
    Ok(text)
}

/// Ensures that a folder of the user's own exists: no link, and made with mode 0700 if it is missing. Its parent must
/// exist.
///
/// # Errors
/// Errors of the file system; [`Untrusted`] as `PermissionDenied`.
pub fn own_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Err(Untrusted::Link.into());
    }
    if !metadata.is_dir() {
        return Err(Untrusted::Kind("folder").into());
    }
    Ok(is_ours(&metadata)?)
}

/// Checks that the user's files in a folder are safe: no other user may rename or remove them. The folder belongs to
/// the user or to root, or has the sticky bit, as `/tmp` has; it may be reached through links.
///
/// # Errors
/// Errors of the file system; [`Untrusted`] as `PermissionDenied`.
pub fn shared_folder(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    is_ours(&metadata)?;
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        return Err(Untrusted::Open { mode }.into());
    }
    Ok(())
}

/// As [`own_folder`], for a folder at a place that the user names: its content is trusted only if no other user could
/// write into it.
///
/// # Errors
/// As [`own_folder`], and [`Untrusted::Open`].
pub fn private_folder(path: &Path) -> io::Result<()> {
    own_folder(path)?;
    let mode = fs::symlink_metadata(path)?.mode() & 0o7777;
    if mode & 0o022 != 0 && fs::read_dir(path)?.next().is_some() {
        return Err(Untrusted::Open { mode }.into());
    }
    Ok(())
}

/// Makes a folder and its missing parents, so that they survive a power cut.
///
/// # Errors
/// Errors of the file system.
pub fn durable_folder(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    match fs::create_dir(path) {
        Ok(()) => File::open(above)?.sync_all(),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            durable_folder(above)?;
            match fs::create_dir(path) {
                Err(_) if path.is_dir() => Ok(()),
                outcome => outcome.and_then(|()| File::open(above)?.sync_all()),
            }
        }
        Err(error) => Err(error),
    }
}

/// Tells temporary names of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file with mode 0600: under a temporary name, synchronised, then renamed, the directory synchronised last.
///
/// A reader sees the old content or the new one, also after a crash.
///
/// # Errors
/// Errors of the file system.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = dir.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let outcome = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(dir)?.sync_all()
    })();
    if outcome.is_err() {
        // Best effort: the error that led here says more than one about the leftover would.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn why(error: &io::Error) -> &Untrusted {
        error.get_ref().and_then(|why| why.downcast_ref()).unwrap()
    }

    #[test]
    fn files_of_others_and_links_are_not_read() {
        // A user who can put a file or a link at a secret's path would choose the secret.
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("secret"), dir.path().join("link"));
        fs::write(&file, "ours").unwrap();
        assert_eq!(read_own(&file).unwrap(), "ours");
        symlink(&file, &link).unwrap();
        assert_eq!(why(&read_own(&link).unwrap_err()), &Untrusted::Link);
        let kind = read_own(dir.path()).unwrap_err();
        assert!(matches!(why(&kind), Untrusted::Kind(_)), "{kind}");
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        assert!(matches!(why(&read_own(&pipe).unwrap_err()), Untrusted::Kind(_)));
        assert_eq!(
            read_own(&dir.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(65534), None).unwrap();
            let error = read_own(&file).unwrap_err();
            assert!(error.to_string().contains("belongs to user 65534"), "{error}");
        }
    }

    #[test]
    fn a_log_is_made_for_its_owner_alone() {
        // Every user on the host would read the log of other users' actions.
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        open_log(&log).unwrap().write_all(b"one\n").unwrap();
        open_log(&log).unwrap().write_all(b"two\n").unwrap();
        assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&log).unwrap(), "one\ntwo\n");
        // A mode that an operator has set stays.
        fs::set_permissions(&log, fs::Permissions::from_mode(0o640)).unwrap();
        drop(open_log(&log).unwrap());
        assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn durable_folders_are_made_with_all_above_them() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        durable_folder(&deep).unwrap();
        durable_folder(&deep).unwrap();
        assert!(deep.is_dir());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(durable_folder(&dir.path().join("file")).is_err());
        assert!(durable_folder(&dir.path().join("file/below")).is_err());
    }

    #[test]
    fn folders_of_others_and_links_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, link) = (dir.path().join("folder"), dir.path().join("link"));
        own_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        own_folder(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        assert_eq!(why(&own_folder(&link).unwrap_err()), &Untrusted::Link);
        symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
        assert_eq!(
            why(&own_folder(&dir.path().join("dangling")).unwrap_err()),
            &Untrusted::Link
        );
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(why(&own_folder(&file).unwrap_err()), Untrusted::Kind(_)));
        // Open to others: only while nothing is in it.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        private_folder(&folder).unwrap();
        fs::write(folder.join("planted"), "").unwrap();
        assert_eq!(
            why(&private_folder(&folder).unwrap_err()),
            &Untrusted::Open { mode: 0o1777 }
        );
        shared_folder(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            why(&shared_folder(&folder).unwrap_err()),
            &Untrusted::Open { mode: 0o777 }
        );
        if rustix::process::geteuid().is_root() {
            chown(&folder, Some(65534), None).unwrap();
            assert!(matches!(
                why(&shared_folder(&folder).unwrap_err()),
                Untrusted::Owner { .. }
            ));
            assert!(matches!(
                why(&own_folder(&folder).unwrap_err()),
                Untrusted::Owner { owner: 65534, .. }
            ));
        }
    }
}
