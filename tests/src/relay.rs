//! A long way between two programs of one machine: delay, window, rate and loss, without a packet being touched.
//!
//! The relay takes connections and passes their bytes on as a path of a given round trip would. Bytes on their way are
//! bounded as in TCP. A byte leaves only while fewer than a window's are unacknowledged, and it is acknowledged a round
//! trip after it left. So one connection moves `window / round_trip`, and with loss as much as Reno (RFC 5681). The
//! window begins with ten segments, doubles every round trip, grows by one segment a round trip after the first loss,
//! and is halved by each.
//!
//! Connections to the relay itself are made at once: a client that wants to know the round trip must ask something and wait for
//! the answer.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use parking_lot::Mutex;

use crate::Draw;

/// The unit that is lost or not: a segment of an Ethernet packet.
const SEGMENT: u64 = 1448;

/// Where windows begin (RFC 6928), in segments.
const INITIAL: u64 = 10;

/// The bytes of one read: small against any window worth a test.
const PIECE: usize = 64 << 10;

/// A way between two places.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// There and back again.
    pub round_trip: Duration,
    /// Bytes that each connection may have on its way in each direction.
    pub window: u64,
    /// Bytes per second of all connections together, in each direction; `None`: no limit.
    pub rate: Option<u64>,
    /// The part of segments that is lost, 0 to 1; which ones is drawn from `seed`.
    pub loss: f64,
    /// Where the drawing begins.
    pub seed: u64,
}

impl Path {
    /// A clean path with a window for each connection and no limit but that.
    pub fn new(round_trip: Duration, window: u64) -> Self {
        Self {
            round_trip,
            window,
            rate: None,
            loss: 0.0,
            seed: 1,
        }
    }
}

/// A relay that runs until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Relay {
    address: SocketAddr,
}

impl Relay {
    /// Listens on a free port of an address and passes everything on to the one behind.
    pub fn start(ip: IpAddr, behind: SocketAddr, path: Path) -> Result<Self> {
        let listener = TcpListener::bind((ip, 0))?;
        let address = listener.local_addr()?;
        let lines = [Line::new(path), Line::new(path)];
        thread::spawn(move || {
            for (number, client) in listener.incoming().filter_map(Result::ok).enumerate() {
                let Ok(server) = TcpStream::connect(behind) else {
                    continue;
                };
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                let ways = [(&client, &server), (&server, &client)];
                for (way, (from, to)) in ways.into_iter().enumerate() {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        continue;
                    };
                    let seed = path.seed.wrapping_add(2 * number as u64 + way as u64);
                    carry(from, to, lines[way].clone(), Window::new(path, seed));
                }
            }
        });
        Ok(Self { address })
    }

    /// Where it takes connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The part that all connections of one direction share: a link that sends one byte after the other.
#[derive(Clone)]
struct Line {
    half: Duration,
    rate: Option<u64>,
    free_at: Arc<Mutex<Instant>>,
}

impl Line {
    fn new(path: Path) -> Self {
        Self {
            half: path.round_trip / 2,
            rate: path.rate,
            free_at: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// When so many bytes that are sent now have left.
    fn send(&self, bytes: u64, now: Instant) -> Instant {
        let Some(rate) = self.rate else { return now };
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(now) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        *free_at
    }
}

/// Bytes that one connection may have on its way, as Reno has it; without loss, the whole window from the beginning.
#[derive(Debug)]
struct Window {
    most: u64,
    now: u64,
    /// Beyond it growth is slow.
    threshold: u64,
    loss: f64,
    draw: Draw,
    round_trip: Duration,
    /// A segment that is lost until then belongs to a loss that was answered already.
    recovered: Option<Instant>,
}

impl Window {
    fn new(path: Path, seed: u64) -> Self {
        let begin = if path.loss > 0.0 {
            INITIAL * SEGMENT
        } else {
            path.window
        };
        Self {
            most: path.window,
            now: begin.min(path.window),
            threshold: u64::MAX,
            loss: path.loss,
            draw: Draw::new(seed),
            round_trip: path.round_trip,
            recovered: None,
        }
    }

    /// So many bytes were acknowledged.
    fn grow(&mut self, bytes: u64) {
        let growth = if self.now < self.threshold {
            bytes
        } else {
            SEGMENT * bytes / self.now
        };
        self.now = (self.now + growth).min(self.most);
    }

    /// Draws the fate of a piece. Whether any of it was lost, which halves the window, once in a round trip.
    fn loses(&mut self, bytes: u64, now: Instant) -> bool {
        if self.loss <= 0.0 || self.recovered.is_some_and(|until| now < until) {
            return false;
        }
        let segments = bytes.div_ceil(SEGMENT);
        let arrives = (1.0 - self.loss).powf(segments as f64);
        if self.draw.fraction() < arrives {
            return false;
        }
        self.recovered = Some(now + self.round_trip);
        self.now = (self.now / 2).max(2 * SEGMENT);
        self.threshold = self.now;
        true
    }
}

/// A piece on its way, and when it is there.
struct Piece {
    bytes: Vec<u8>,
    due: Instant,
}

/// So many bytes are known at the sender to have arrived, from a time on.
struct Acknowledged {
    bytes: u64,
    at: Instant,
}

/// Carries one direction of a connection, on two threads.
fn carry(from: TcpStream, to: TcpStream, line: Line, window: Window) {
    let (pieces, arriving) = mpsc::channel();
    let (acknowledge, acknowledged) = mpsc::channel();
    let half = line.half;
    thread::spawn(move || {
        let _ended = deliver(to, &arriving, &acknowledge, half);
    });
    thread::spawn(move || {
        let _ended = depart(from, &pieces, &acknowledged, &line, window);
    });
}

/// Takes bytes as the window allows, and gives each its time of arrival.
fn depart(
    mut from: TcpStream,
    pieces: &Sender<Piece>,
    acknowledged: &Receiver<Acknowledged>,
    line: &Line,
    mut window: Window,
) -> io::Result<()> {
    let mut under_way = 0;
    let mut known: VecDeque<Acknowledged> = VecDeque::new();
    let mut last = Instant::now();
    loop {
        let now = Instant::now();
        known.extend(acknowledged.try_iter());
        while known.front().is_some_and(|known| known.at <= now) {
            let bytes = known.pop_front().map_or(0, |known| known.bytes);
            under_way -= bytes;
            window.grow(bytes);
        }
        let room = usize::try_from(window.now.saturating_sub(under_way)).unwrap_or(PIECE);
        if room == 0 {
            await_room(&mut known, acknowledged)?;
            continue;
        }
        let mut bytes = vec![0; room.min(PIECE)];
        let read = from.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        bytes.truncate(read);
        let length = read as u64;
        under_way += length;
        let sent = line.send(length, Instant::now());
        // A lost segment is sent again once its absence is known, and all behind it waits.
        let again = if window.loses(length, Instant::now()) {
            line.half * 2
        } else {
            Duration::ZERO
        };
        last = last.max(sent + line.half + again);
        if pieces.send(Piece { bytes, due: last }).is_err() {
            return from.shutdown(Shutdown::Read);
        }
    }
}

/// Waits until something more is acknowledged.
fn await_room(known: &mut VecDeque<Acknowledged>, acknowledged: &Receiver<Acknowledged>) -> io::Result<()> {
    if let Some(next) = known.front() {
        thread::sleep(next.at.saturating_duration_since(Instant::now()));
        return Ok(());
    }
    match acknowledged.recv_timeout(Duration::from_secs(60)) {
        Ok(next) => known.push_back(next),
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
    }
    Ok(())
}

/// Hands pieces over when they are due.
fn deliver(
    mut to: TcpStream,
    arriving: &Receiver<Piece>,
    acknowledge: &Sender<Acknowledged>,
    half: Duration,
) -> io::Result<()> {
    while let Ok(piece) = arriving.recv() {
        thread::sleep(piece.due.saturating_duration_since(Instant::now()));
        to.write_all(&piece.bytes)?;
        let at = Instant::now() + half;
        let bytes = piece.bytes.len() as u64;
        // The sender may have ended; its bytes arrive all the same.
        let _ = acknowledge.send(Acknowledged { bytes, at });
    }
    to.shutdown(Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(loss: f64) -> Path {
        Path {
            loss,
            ..Path::new(Duration::from_millis(100), 1_000_000)
        }
    }

    #[test]
    fn without_loss_the_window_is_open() {
        let mut window = Window::new(path(0.0), 1);
        assert_eq!(window.now, 1_000_000);
        assert!(!window.loses(1_000_000, Instant::now()));
        window.grow(1_000_000);
        assert_eq!(window.now, 1_000_000);
    }

    /// Reno's average window is `sqrt(3 / (2 p))` segments (Mathis and others, 1997, with an acknowledgement for each segment).
    #[test]
    fn with_loss_the_window_is_as_reno_has_it() {
        let loss = 0.001;
        let mut window = Window::new(
            Path {
                window: 1 << 40,
                ..path(loss)
            },
            7,
        );
        let (mut sum, rounds, mut now) = (0.0, 20_000, Instant::now());
        for _ in 0..rounds {
            now += window.round_trip;
            let mut left = window.now;
            sum += left as f64 / SEGMENT as f64;
            let mut lost = false;
            while left > 0 {
                let bytes = left.min(SEGMENT);
                left -= bytes;
                lost |= window.loses(bytes, now);
            }
            if !lost {
                let acknowledged = window.now;
                window.grow(acknowledged);
            }
        }
        let (average, expected) = (sum / f64::from(rounds), (1.5 / loss).sqrt());
        assert!(
            (0.7..1.3).contains(&(average / expected)),
            "{average} against {expected}"
        );
    }

    #[test]
    fn a_link_sends_one_byte_after_the_other() {
        let line = Line::new(Path {
            rate: Some(1_000_000),
            ..path(0.0)
        });
        let now = Instant::now() + Duration::from_secs(1);
        let first = line.send(500_000, now);
        let second = line.send(500_000, now);
        assert_eq!(first - now, Duration::from_millis(500));
        assert_eq!(second - now, Duration::from_secs(1));
        assert_eq!(line.send(0, now + Duration::from_secs(9)), now + Duration::from_secs(9));
    }
}
