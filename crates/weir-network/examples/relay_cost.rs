//! Costs of a relay: `cargo run --release -p weir-network --example relay_cost`.
//!
//! Bytes go from a sender to a receiver of this process, over loopback, with and without a relay between them; processor time is
//! that of all, per GB. With `haproxy` in the path (`apt-get install haproxy`) the same bytes go through it, as a TCP proxy that
//! splices. Then thousands of connections are held open without traffic.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that cannot set itself up has failed"
)]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_network::relay::Relay;

/// Bytes of one measurement.
const BYTES: u64 = 4_000_000_000;
/// Rounds; the first is not counted.
const ROUNDS: usize = 6;
/// Connections without traffic.
const IDLE: usize = 4_000;
/// The time for which they are watched.
const WATCHED: Duration = Duration::from_secs(5);

fn main() {
    weir_http::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let door = sink();
    let relay = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        Relay::start(listener, door, 1).unwrap()
    });
    let proxy = Proxy::start(door);
    let mut ways = vec![("loopback", door, None), ("relay", relay.address(), None)];
    match &proxy {
        Some(proxy) => ways.push(("haproxy", proxy.address, Some(proxy.child.id()))),
        None => println!("haproxy is not there: apt-get install haproxy"),
    }
    let mut costs = vec![Vec::new(); ways.len()];
    for round in 0..ROUNDS {
        // Each begins a round in turn.
        for at in (0..ways.len()).map(|at| (at + round) % ways.len()) {
            let (_, address, other) = ways[at];
            let cost = send(address, other);
            if round > 0 {
                costs[at].push(cost);
            }
        }
    }
    for ((name, ..), of) in ways.iter().zip(&costs) {
        let ratios: Vec<f64> = of.iter().zip(&costs[0]).map(|(own, direct)| own.0 / direct.0).collect();
        println!(
            "{name:<9} {:.2} s/GB, {:.0} MB/s, {:.2} of loopback (medians of {})",
            median(of.iter().map(|cost| cost.0)),
            median(of.iter().map(|cost| cost.1)),
            median(ratios.into_iter()),
            ROUNDS - 1
        );
    }
    idle(relay.address());
}

/// Takes connections and reads what comes.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A connection that says so is kept and not read: it costs no thread.
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut first = [0];
            if (&stream).read_exact(&mut first).is_ok() && first == *b"i" {
                std::mem::forget(stream);
                continue;
            }
            std::thread::spawn(move || drain(stream));
        }
    });
    address
}

fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 256 << 10];
    let mut left = BYTES - 1;
    while left > 0 {
        let Ok(read @ 1..) = stream.read(&mut buffer) else {
            return;
        };
        left -= read as u64;
    }
    let _answered = stream.write_all(b"!");
}

/// Sends all bytes; gives processor seconds per GB and MB/s.
fn send(address: SocketAddr, other: Option<u32>) -> (f64, f64) {
    let piece = vec![0x5a; 256 << 10];
    let (cpu, begin) = (processor(other), Instant::now());
    let mut stream = TcpStream::connect(address).unwrap();
    let mut left = BYTES;
    while left > 0 {
        let length = left.min(piece.len() as u64) as usize;
        stream.write_all(&piece[..length]).unwrap();
        left -= length as u64;
    }
    stream.read_exact(&mut [0]).expect("the receiver has all");
    let gigabytes = BYTES as f64 / 1e9;
    (
        (processor(other) - cpu) / gigabytes,
        gigabytes * 1e3 / begin.elapsed().as_secs_f64(),
    )
}

/// Holds connections open without traffic.
fn idle(address: SocketAddr) {
    let before = resident();
    let mut open = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"i").unwrap();
        open.push(stream);
    }
    std::thread::sleep(Duration::from_secs(1));
    let (memory, cpu) = (resident().saturating_sub(before), processor(None));
    std::thread::sleep(WATCHED);
    let busy = (processor(None) - cpu) / WATCHED.as_secs_f64();
    println!(
        "{IDLE} connections without traffic: {:.2} % of a core, {:.1} kB each",
        busy * 100.0,
        memory as f64 / 1e3 / IDLE as f64
    );
}

/// Processor seconds of this process, and of another one.
fn processor(other: Option<u32>) -> f64 {
    let of = |path: String| {
        let text = std::fs::read_to_string(path).unwrap();
        let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        ticks as f64 / 100.0
    };
    of("/proc/self/stat".to_owned()) + other.map_or(0.0, |pid| of(format!("/proc/{pid}/stat")))
}

/// Bytes of memory of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// HAProxy as a TCP proxy, with the settings that its manual advises for bulk data.
struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Proxy {
    fn start(door: SocketAddr) -> Option<Self> {
        let version = Command::new("haproxy").arg("-v").output().ok()?;
        let version = String::from_utf8_lossy(&version.stdout);
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap();
        let mut text =
            String::from("global\n  nbthread 2\n  maxconn 4000\ndefaults\n  mode tcp\n  option splice-auto\n");
        for wait in ["connect", "client", "server"] {
            let _infallible = writeln!(text, "  timeout {wait} 60s");
        }
        let _infallible = writeln!(text, "listen through\n  bind {free}\n  server door {door}");
        println!("{}\n{text}", version.lines().next().unwrap_or_default());
        let file = std::env::temp_dir().join(format!("relay-cost-{}.cfg", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let child = Command::new("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let until = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(free).is_err() {
            assert!(Instant::now() < until, "haproxy does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        let _gone = std::fs::remove_file(file);
        Some(Self { child, address: free })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
