//! What the machine itself can do, measured in the same run: the ceilings under which all contenders stand.

use std::{
    fmt,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};

const WINDOW: Duration = Duration::from_millis(700);

/// Ceilings of one core, in bytes per second.
pub(crate) struct Limits {
    cores: usize,
    memory_copy: f64,
    loopback_tcp: f64,
    /// 16 KiB blocks, as TLS has them; 0 where openssl is not installed.
    aes_128_gcm: f64,
}

impl Limits {
    pub(crate) fn measure() -> Result<Self> {
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            memory_copy: memory_copy(),
            loopback_tcp: loopback()?,
            aes_128_gcm: aes(),
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "cores": self.cores,
            "memory_copy_bytes_per_s": self.memory_copy,
            "loopback_tcp_bytes_per_s": self.loopback_tcp,
            "aes_128_gcm_bytes_per_s": self.aes_128_gcm,
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "machine: {} cores; memory copy {:.0} MB/s; loopback TCP {:.0} MB/s; AES-128-GCM (16 KiB, one core) {:.0} MB/s",
            self.cores,
            self.memory_copy / 1e6,
            self.loopback_tcp / 1e6,
            self.aes_128_gcm / 1e6
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

fn loopback() -> Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let sender = std::thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        let block = vec![0_u8; 1 << 20];
        let start = Instant::now();
        while start.elapsed() < WINDOW {
            stream.write_all(&block)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    let mut block = vec![0_u8; 1 << 20];
    let start = Instant::now();
    let mut bytes = 0;
    loop {
        match stream.read(&mut block)? {
            0 => break,
            n => bytes += n,
        }
    }
    let rate = bytes as f64 / start.elapsed().as_secs_f64();
    sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    Ok(rate)
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
