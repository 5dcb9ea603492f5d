//! A server under measurement, and what the kernel says of its processes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// One kind of server: where it is spoken to, and which processes are its own.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Base URL without TLS.
    pub(crate) plain: String,
    /// Base URL with TLS.
    pub(crate) tls: String,
    /// Base URL of a second one, with TLS, for copies between two.
    pub(crate) second: Option<String>,
    /// The directory behind the base URLs, and that behind the second one.
    pub(crate) data: (PathBuf, PathBuf),
    /// The directory behind the plain base URL.
    pub(crate) plain_data: PathBuf,
    /// Root processes; their children count too.
    pub(crate) pids: Vec<u32>,
}

/// The resources that processes have used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_bytes: f64,
}

impl Contender {
    /// URL of the TLS door without a path.
    pub(crate) fn origin(&self) -> &str {
        self.tls.trim_end_matches("/data")
    }

    /// Where its folder on the disk is found, as a URL path without the first slash.
    pub(crate) fn disk_path(&self) -> &'static str {
        // XRootD exports one path; a link leads from there to the disk.
        if self.name.starts_with("xrootd") {
            "data/disk"
        } else {
            "disk"
        }
    }

    /// The directory behind the door with TLS or without: Weir's doors have an area each.
    pub(crate) fn data_of(&self, tls: bool) -> &Path {
        if tls { &self.data.0 } else { &self.plain_data }
    }

    /// Base URL with TLS or without.
    pub(crate) fn door(&self, tls: bool) -> &str {
        if tls { &self.tls } else { &self.plain }
    }

    /// Sums over its processes: CPU time since their start, and the high-water mark of memory since the last reset.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let mut sum = Usage::default();
        for pid in self.family()? {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
            // The name in parentheses may hold spaces; fields are counted after it (proc_pid_stat(5)): utime is the 12th.
            let fields: Vec<&str> = stat
                .rsplit_once(')')
                .context("odd stat")?
                .1
                .split_whitespace()
                .collect();
            let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
            sum.cpu_seconds += ticks / rustix::param::clock_ticks_per_second() as f64;
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            let peak = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))
                .unwrap_or("0 kB");
            sum.peak_bytes += peak.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0;
        }
        Ok(sum)
    }

    /// Forgets the high-water marks.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        for pid in self.family()? {
            // Writing 5 resets VmHWM (proc_pid_clear_refs(5)).
            fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        }
        Ok(())
    }

    fn family(&self) -> Result<Vec<u32>> {
        let mut all = self.pids.clone();
        let mut next = 0;
        while next < all.len() {
            let pid = all[next];
            for child in fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?.split_whitespace() {
                all.push(child.parse()?);
            }
            next += 1;
        }
        Ok(all)
    }
}
