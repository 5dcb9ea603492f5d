//! Files and folders that a service reads or writes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Outcome;

/// A file with a key or a password, which only its owner may read.
pub fn secret(path: &Path) -> Outcome {
    let shown = path.display();
    if let Err(error) = fs::File::open(path) {
        return Outcome::failed(format!("could not read {shown}: {error}"), unreadable(&error));
    }
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.mode() & 0o777);
    let of_others = mode & 0o077;
    if of_others == 0 {
        return Outcome::ok(format!("{shown}, mode {mode:04o}"));
    }
    Outcome::warning(
        format!("others than its owner may use {shown}: its mode is {mode:04o}"),
        format!("chmod 600 {shown}"),
    )
}

/// The remedy for a file that cannot be read.
pub(super) fn unreadable(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "put the file there, or correct the path in the configuration",
        io::ErrorKind::PermissionDenied => "let the user who runs the service read it (owner, group, or an ACL)",
        _ => "see what the file system says of it",
    }
}

/// A folder that must be there, and into which the service writes.
pub fn folder(path: &Path, remedy: &str) -> Outcome {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) => return Outcome::failed(format!("could not look at {shown}: {error}"), remedy),
        Ok(metadata) if !metadata.is_dir() => {
            return Outcome::failed(format!("{shown} is not a directory"), "name a directory");
        }
        Ok(_) => {}
    }
    // A file that has no name, and leaves nothing behind.
    let made = rustix::fs::open(
        path,
        rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    );
    match made {
        Ok(_gone) => Outcome::ok(format!("{shown} can be written")),
        // On a file system without such files, the permissions decide.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            match rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
                Ok(()) => Outcome::ok(format!("{shown} may be written")),
                Err(error) => unwritable(path, &error.into()),
            }
        }
        Err(error) => unwritable(path, &error.into()),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Outcome {
    let user = rustix::process::geteuid().as_raw();
    Outcome::failed(
        format!("user {user} could not write into {}: {error}", path.display()),
        "make the user who runs the service its owner, or run the check as that user",
    )
}

/// The folder of a file that the service makes if it is missing.
pub fn parent(path: &Path) -> Outcome {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder_of = absolute.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
    folder(
        &folder_of,
        "make the directory, or correct the path in the configuration",
    )
}

/// Whether something is mounted at a directory: it is where another file system, or another part of one, begins.
pub fn mounted(path: &Path) -> io::Result<bool> {
    let path = path.canonicalize()?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    // Fields: id, parent, device, root, mount point, …; spaces in names are octal.
    let mut points = table.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(points.any(|point| Path::new(&unescaped(point)) == path))
}

/// Checks that the disk of a directory is mounted, and that the directory exists or is to be made. A missing one is the
/// sign of a disk that is not mounted.
///
/// # Errors
/// `NotFound`, with the missing mount or directory and its remedy; or those of the file system.
pub fn present(root: &Path, create: bool, mount: Option<&Path>) -> io::Result<()> {
    let missing = |text: String| Err(io::Error::new(io::ErrorKind::NotFound, text));
    if let Some(mount) = mount
        && !mounted(mount)?
    {
        let shown = mount.display();
        return missing(format!(
            "nothing is mounted there: mount the disk at {shown}, or correct mount in [[area]]"
        ));
    }
    if create || root.exists() {
        return Ok(());
    }
    missing("it is not there: mount its disk, make it, or set create_root = true in [[area]]".to_owned())
}

/// The text of a field of `mountinfo`.
fn unescaped(field: &str) -> String {
    let mut text = field.to_owned();
    for (code, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        text = text.replace(code, character);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn modes_and_missing_files_are_told() {
        // Wrong: a world-readable key passes, or a missing file has no name.
        let place = tempfile::tempdir().unwrap();
        let key = place.path().join("key");
        let Outcome::Failed { cause, .. } = secret(&key) else {
            panic!()
        };
        assert!(cause.contains("key") && cause.contains("No such file"), "{cause}");
        fs::write(&key, "secret").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let Outcome::Warning { detail, remedy } = secret(&key) else {
            panic!()
        };
        assert!(
            detail.contains("0644") && remedy.starts_with("chmod 600"),
            "{detail} {remedy}"
        );
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(secret(&key), Outcome::Ok { .. }));
    }

    #[test]
    fn folders_are_tried_and_left_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        assert!(matches!(folder(place.path(), ""), Outcome::Ok { .. }));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(folder(&place.path().join("missing"), "mount it").has_failed());
        assert!(!place.path().join("missing").exists());
        fs::write(place.path().join("file"), "").unwrap();
        assert!(folder(&place.path().join("file"), "").has_failed());
    }

    #[test]
    fn mount_points_are_told_from_directories() {
        let place = tempfile::tempdir().unwrap();
        assert!(mounted(Path::new("/proc")).unwrap());
        assert!(mounted(Path::new("/")).unwrap());
        assert!(!mounted(place.path()).unwrap());
        assert!(mounted(&place.path().join("missing")).is_err());
        assert_eq!(unescaped("/data\\040one\\134"), "/data one\\");
    }
}
