//! Files that only their owner may read, and that are whole or absent.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells temporary names of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file with mode 0600: under a temporary name, synchronised, then renamed, the directory synchronised last.
///
/// Whoever reads it sees the old content or the new one, also after a crash.
///
/// # Errors
/// Those of the file system.
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
        fs::File::open(dir)?.sync_all()
    })();
    if outcome.is_err() {
        // Best effort: the error that led here says more than one about the leftover would.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}
