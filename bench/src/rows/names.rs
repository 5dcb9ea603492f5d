//! Names: listed, removed, and all of it by a thousand at once.

use std::{
    cell::Cell,
    fs,
    io::Write as _,
    os::{
        fd::AsFd,
        unix::fs::{PermissionsExt as _, chown},
    },
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{Row, Side, empty};
use crate::{
    contender::Contender,
    lab::{Lab, N_ENTRIES},
    load::Work,
    outcome::Unit,
};

/// Files of this size are deleted.
const SIZE: u64 = 100_000_000;

const SPARSE: usize = 60_000;
const ALLOCATED: usize = 200;

/// How long the space of deleted files may take to come back: 20 GB at a quarter of 4 GB/s, three times.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files that others may have taken meanwhile: two of them.
const ELSEWHERE: u64 = 2 * SIZE;

pub(super) fn rows(lab: &Lab) -> Vec<Row> {
    vec![
        list(lab),
        delete(lab, "DELETE sparse", SPARSE, false),
        delete(lab, "DELETE allocated", ALLOCATED, true),
        storm(lab),
    ]
}

fn list(lab: &Lab) -> Row {
    let side = |who: &Contender| {
        let url = format!("{}/entries/", who.tls);
        let entries = N_ENTRIES;
        Side::new(lab, who, Work::List { url, entries }, entries as f64)
    };
    Row {
        name: "PROPFIND 100,000",
        mark: "p50 (first byte) <= 20 ms, memory flat",
        unit: Unit::Requests,
        limit: None,
        most: None,
        sides: lab.grid_servers().map(side).collect(),
    }
}

/// On a disk, where a freed block costs something.
fn delete(lab: &Lab, name: &'static str, files: usize, allocated: bool) -> Row {
    let side = |who: &Contender| {
        let base = format!("{}/{}/many", who.origin(), who.disk_path());
        let directory = lab.disk.join(format!("{}-a/many", who.name));
        let work = Work::Delete {
            base,
            files,
            clients: 16,
        };
        let made = directory.clone();
        let room = Rc::new(Cell::new(0));
        // Weir answers when the directory is on the disk; the others do so only where the file system makes them wait.
        let waits = who.name != "weir";
        let before = room.clone();
        Side::new(lab, who, work, files as f64)
            .before(move || {
                before.set(free(&made)?);
                make(&made, files, allocated)?;
                if waits { wait_for_disk(&made) } else { Ok(()) }
            })
            .after(move || {
                empty(&directory)?;
                if allocated {
                    given_back(&directory, room.get())
                } else {
                    Ok(())
                }
            })
    };
    Row {
        name,
        mark: if allocated { "max <= 100 ms" } else { ">= 8,000/s" },
        unit: Unit::Requests,
        limit: Some(lab.limits.durable_unlinks),
        most: Some(if allocated { 2 } else { 3 }),
        sides: lab.grid_servers().map(side).collect(),
    }
}

fn make(directory: &PathBuf, files: usize, allocated: bool) -> Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777))?;
    let owner = owner(directory)?;
    for number in 0..files {
        let path = directory.join(number.to_string());
        let mut file = fs::File::create(&path)?;
        if allocated {
            rustix::fs::fallocate(file.as_fd(), rustix::fs::FallocateFlags::empty(), 0, SIZE)?;
            file.write_all(b"x")?;
        } else {
            file.set_len(SIZE)?;
        }
        chown(&path, Some(owner.0), Some(owner.1))?;
    }
    // Deleted files are on the disk before: names that never got there cost nothing to remove.
    rustix::fs::syncfs(fs::File::open(directory)?.as_fd())?;
    Ok(())
}

/// Makes changes of a directory synchronous for every process (`FS_DIRSYNC_FL`, `chattr +D`), on file systems with that flag such as ext4.
fn wait_for_disk(directory: &Path) -> Result<()> {
    let open = fs::File::open(directory)?;
    let flags = rustix::fs::ioctl_getflags(&open)?;
    rustix::fs::ioctl_setflags(&open, flags | rustix::fs::IFlags::DIRSYNC).with_context(|| {
        format!(
            "{}: its file system has no synchronous directories",
            directory.display()
        )
    })
}

/// Bytes that its file system has left.
fn free(directory: &Path) -> Result<u64> {
    fs::create_dir_all(directory)?;
    let system = rustix::fs::statvfs(directory)?;
    Ok(system.f_bavail * system.f_frsize)
}

/// Waits for the space of deleted files: the next contender needs as much.
fn given_back(directory: &Path, before: u64) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while free(directory)? + ELSEWHERE < before {
        ensure!(
            Instant::now() < until,
            "deleted files still take their space after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn owner(directory: &Path) -> Result<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let about = fs::metadata(directory).with_context(|| format!("{}", directory.display()))?;
    Ok((about.uid(), about.gid()))
}

fn storm(lab: &Lab) -> Row {
    let side = |who: &Contender| {
        let work = Work::Storm {
            base: format!("{}/up", who.tls),
            clients: 1000,
            seconds: 20.0,
        };
        Side::new(lab, who, work, 0.0)
    };
    Row {
        name: "storm, 1,000 clients",
        mark: "no failure, p99 <= 1 s",
        unit: Unit::Requests,
        limit: None,
        most: Some(2),
        sides: lab.grid_servers().take(1).map(side).collect(),
    }
}
