//! Limits of the machine itself, measured in the same run: the ceilings under which all contenders stand.

mod disk;
mod files;
mod loopback;
mod processor;
mod tls;

use std::{fmt, path::Path, process::Command, time::Instant};

use anyhow::Result;
use files::SmallFile;
use processor::{WINDOW, process_seconds};
use serde_json::{Value, json};
use tls::Pair;

/// One ceiling: nothing here can be faster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    /// Bytes, or whatever the rows beside it count.
    pub(crate) per_second: f64,
}

/// The ceilings, in bytes per second but for the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    cores: usize,
    memory_copy: f64,
    pub(crate) loopback_tcp: Limit,
    /// 16 KiB blocks, as TLS has them; 0 where openssl is not installed.
    aes_128_gcm: f64,
    /// A sender and a receiver of bytes in memory, on one connection and on four, with Weir's own records of TLS.
    tls_one: Pair,
    tls_four: Pair,
    /// The same without HTTP and with rustls's records.
    rustls_one: Pair,
    rustls_four: Pair,
    /// The fastest of the four.
    pub(crate) tls_pair: Limit,
    small_file: SmallFile,
    /// Into a new file, durable at the end, through the page cache.
    disk_cached: f64,
    /// The same around it, or through it where that is faster or the file system knows no other way.
    pub(crate) disk_direct: Limit,
    /// Durable removals a second.
    pub(crate) durable_unlinks: Limit,
}

impl Limits {
    pub(crate) fn measure(disk: &Path) -> Result<Self> {
        let (tls_one, tls_four) = (tls::own_records(1)?, tls::own_records(4)?);
        let (rustls_one, rustls_four) = (tls::rustls(1)?, tls::rustls(4)?);
        let fastest = [tls_one, tls_four, rustls_one, rustls_four].map(|pair| pair.rate);
        let cached = disk::write(disk, false)?.unwrap_or(0.0);
        let direct = disk::write(disk, true)?.unwrap_or(0.0);
        let limit = |name, per_second| Limit { name, per_second };
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            memory_copy: memory_copy(),
            loopback_tcp: limit("loopback", loopback::fastest()?),
            aes_128_gcm: aes(),
            tls_one,
            tls_four,
            rustls_one,
            rustls_four,
            tls_pair: limit("TLS pair", fastest.into_iter().fold(0.0, f64::max)),
            small_file: SmallFile::measure()?,
            disk_cached: cached,
            disk_direct: limit("disk", direct.max(cached)),
            durable_unlinks: limit("unlinks", disk::unlinks(disk)?),
        })
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "cores": self.cores,
            "memory_copy_bytes_per_s": self.memory_copy,
            "loopback_tcp_bytes_per_s": self.loopback_tcp.per_second,
            "aes_128_gcm_bytes_per_s": self.aes_128_gcm,
            "tls_pair_1_bytes_per_s": self.tls_one.rate,
            "tls_pair_1_cpu_s_per_gb": self.tls_one.cpu,
            "tls_pair_4_bytes_per_s": self.tls_four.rate,
            "tls_pair_4_cpu_s_per_gb": self.tls_four.cpu,
            "rustls_pair_1_bytes_per_s": self.rustls_one.rate,
            "rustls_pair_1_cpu_s_per_gb": self.rustls_one.cpu,
            "rustls_pair_4_bytes_per_s": self.rustls_four.rate,
            "rustls_pair_4_cpu_s_per_gb": self.rustls_four.cpu,
            "small_file_cpu_s": self.small_file.plain,
            "small_file_private_name_cpu_s": self.small_file.private_name,
            "small_file_record_cpu_s": self.small_file.record,
            "disk_cached_bytes_per_s": self.disk_cached,
            "disk_direct_bytes_per_s": self.disk_direct.per_second,
            "durable_unlinks_per_s": self.durable_unlinks.per_second,
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "machine: {} cores; memory copy {:.0} MB/s; loopback TCP {:.0} MB/s; AES-128-GCM (16 KiB, one core) {:.0} MB/s",
            self.cores,
            self.memory_copy / 1e6,
            self.loopback_tcp.per_second / 1e6,
            self.aes_128_gcm / 1e6
        )?;
        let pair = |pair: Pair| format!("{:.0} MB/s, {:.2} s/GB", pair.rate / 1e6, pair.cpu);
        writeln!(
            f,
            "TLS from memory to memory, Weir's records: {} (4 connections {}); rustls's, without HTTP: {} (4 connections {})",
            pair(self.tls_one),
            pair(self.tls_four),
            pair(self.rustls_one),
            pair(self.rustls_four)
        )?;
        let small = self.small_file;
        writeln!(
            f,
            "a file of 10 kB in memory, without a server: {:.1} µs; by a private name {:.1} µs more, with a record of its checksums {:.1} µs more",
            small.plain * 1e6,
            small.private_name * 1e6,
            small.record * 1e6
        )?;
        write!(
            f,
            "durable write {:.0} MB/s, around the page cache {:.0} MB/s; durable removals {:.0}/s",
            self.disk_cached / 1e6,
            self.disk_direct.per_second / 1e6,
            self.durable_unlinks.per_second
        )
    }
}

fn memory_copy() -> f64 {
    let from = vec![1_u8; 64 << 20];
    let mut to = vec![0_u8; 64 << 20];
    let start = Instant::now();
    let mut bytes = 0_usize;
    while start.elapsed() < WINDOW {
        to.copy_from_slice(std::hint::black_box(&from));
        bytes += std::hint::black_box(&to).len();
    }
    bytes as f64 / start.elapsed().as_secs_f64()
}

/// As `openssl speed` has it; 0 where it is not installed.
fn aes() -> f64 {
    let arguments = [
        "speed",
        "-mr",
        "-evp",
        "aes-128-gcm",
        "-seconds",
        "1",
        "-bytes",
        "16384",
    ];
    let Ok(output) = Command::new("openssl").args(arguments).output() else {
        return 0.0;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = text
        .lines()
        .find(|line| line.starts_with("+F:"))
        .and_then(|line| line.rsplit(':').next());
    figure.and_then(|figure| figure.parse::<f64>().ok()).unwrap_or(0.0)
}
