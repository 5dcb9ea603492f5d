//! Limits of the disk.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::{fd::AsFd, unix::fs::OpenOptionsExt as _},
    path::Path,
    time::Instant,
};

use anyhow::Result;
use rustix::fs::OFlags;

const SIZE: usize = 1 << 30;
const BLOCK: usize = 4 << 20;
const PAGE: usize = 4096;

/// Bytes per second into a new file that is durable at the end: around the page cache, or through it. `None` where the file
/// system does not let anybody around it.
pub(super) fn write(folder: &Path, direct: bool) -> Result<Option<f64>> {
    let path = folder.join("limit");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if direct {
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
    }
    let Ok(mut file) = options.open(&path) else {
        return Ok(None);
    };
    // Direct writes want their memory aligned.
    let room = vec![1_u8; BLOCK + PAGE];
    let skip = room.as_ptr().align_offset(PAGE);
    let block = &room[skip..skip + BLOCK];
    let start = Instant::now();
    for _ in 0..SIZE / BLOCK {
        file.write_all(block)?;
    }
    file.sync_all()?;
    let rate = SIZE as f64 / start.elapsed().as_secs_f64();
    fs::remove_file(&path)?;
    Ok(Some(rate))
}

/// Sparse files that 16 threads remove in a second, each removal durable before the next.
pub(super) fn unlinks(folder: &Path) -> Result<f64> {
    const FILES: usize = 16_000;
    const THREADS: usize = 16;
    let folder = folder.join("limit");
    fs::create_dir_all(&folder)?;
    for number in 0..FILES {
        File::create(folder.join(number.to_string()))?.set_len(100_000_000)?;
    }
    let directory = File::open(&folder)?;
    rustix::fs::syncfs(directory.as_fd())?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (folder, directory) = (&folder, &directory);
                scope.spawn(move || -> Result<()> {
                    for number in (thread..FILES).step_by(THREADS) {
                        fs::remove_file(folder.join(number.to_string()))?;
                        directory.sync_all()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let rate = FILES as f64 / start.elapsed().as_secs_f64();
    fs::remove_dir(&folder)?;
    Ok(rate)
}
