//! The description of the machine, read from the kernel.

use std::path::Path;

use weir_measure::report::Host;

/// Describes the machine; `scratch` is where the data areas are.
pub(crate) fn describe(scratch: &Path) -> Host {
    let names = rustix::system::uname();
    Host {
        name: names.nodename().to_string_lossy().into_owned(),
        cores: cores(),
        memory_bytes: memory().unwrap_or(0),
        kernel: format!(
            "{} {}",
            names.sysname().to_string_lossy(),
            names.release().to_string_lossy()
        ),
        scratch_filesystem: filesystem(scratch).unwrap_or_else(|| "unknown".to_owned()),
        cpu_busy_ratio: None,
        disk_stalled_ratio: None,
        memory_stalled_ratio: None,
    }
}

/// Returns the processors that this process may use.
pub(crate) fn cores() -> u32 {
    u32::try_from(weir_http::cores()).unwrap_or(u32::MAX)
}

/// Returns the bytes that an ordinary user can still write to the file system of a path.
pub(crate) fn free_space(path: &Path) -> Option<u64> {
    let status = rustix::fs::statvfs(path).ok()?;
    status.f_bavail.checked_mul(status.f_frsize)
}

fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Finds the file system whose mount point is the longest prefix of the path.
fn filesystem(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
            path.starts_with(point).then(|| (point.len(), kind.to_owned()))
        })
        // The last of equals is mounted over the ones before.
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let host = describe(Path::new("/proc"));
        assert_eq!(host.scratch_filesystem, "proc");
        assert!(host.cores > 0 && host.memory_bytes > 0 && host.kernel.starts_with("Linux "));
    }
}
