//! The states of a stream of data, one at a time, as the kernel's TCP chronograph has them for a connection.
//!
//! A stream waits for the network, for a disk, for a processor, for memory, or for a limit on bandwidth. Every moment of
//! it counts for exactly one state, so the times add up to its life. A mark costs a look at the clock: some 50 ns, three
//! times for each piece of 16 to 256 KiB.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::SocketWaits;

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// It waits for bytes from the network, or for room in it.
    Network,
    /// It waits for a disk.
    Disk,
    /// It computes: TLS, checksums, copies; or it waits for its turn on a processor.
    Processor,
    /// It waits for memory.
    Permit,
    /// It waits for a limit on bandwidth.
    Limiter,
}

impl StreamState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Network, Self::Disk, Self::Processor, Self::Permit, Self::Limiter];
}

/// Time in each state, in nanoseconds: of all streams of a transfer together.
#[derive(Debug, Default)]
pub struct StateTimes([AtomicU64; 5]);

impl StateTimes {
    /// Adds time in a state.
    pub fn add(&self, state: StreamState, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if nanos > 0 {
            self.0[state as usize].fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Nanoseconds in each state, in the order of [`StreamState::ALL`].
    pub fn nanos(&self) -> [u64; 5] {
        std::array::from_fn(|state| self.0[state].load(Ordering::Relaxed))
    }
}

/// How long a writer of batches computed checksums, and how long it wrote.
#[derive(Debug, Default)]
pub struct WriteTimes {
    hashing: AtomicU64,
    writing: AtomicU64,
}

impl WriteTimes {
    /// A batch was hashed until the first moment after `began`, and written until the second.
    pub fn add(&self, began: Instant, hashed: Instant, written: Instant) {
        let nanos = |from: Instant, to: Instant| to.saturating_duration_since(from).as_nanos() as u64;
        self.hashing.fetch_add(nanos(began, hashed), Ordering::Relaxed);
        self.writing.fetch_add(nanos(hashed, written), Ordering::Relaxed);
    }

    /// The part of a wait for this writer in which it wrote.
    fn writing_part(&self, wait: Duration) -> Duration {
        let (hashing, writing) = (
            self.hashing.load(Ordering::Relaxed),
            self.writing.load(Ordering::Relaxed),
        );
        let whole = u128::from(hashing) + u128::from(writing);
        let part = (wait.as_nanos() * u128::from(writing)).checked_div(whole);
        Duration::from_nanos(part.unwrap_or(0) as u64)
    }
}

/// The direction in which a stream uses its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketUse {
    /// It receives.
    Reads,
    /// It sends.
    Writes,
}

/// The clock of one stream.
#[derive(Debug)]
pub struct Chronograph {
    times: Arc<StateTimes>,
    /// It runs.
    has_begun: bool,
    /// Until when the time is accounted for.
    until: Instant,
    socket: Option<(SocketWaits, SocketUse)>,
    /// The socket's waits until then.
    socket_waited: Duration,
}

impl Chronograph {
    /// The clock of a stream whose times go to the account of a transfer. It runs from [`Self::begin`] on: the wait for the first
    /// byte is not the stream's.
    pub fn start(times: Arc<StateTimes>) -> Self {
        Self {
            times,
            has_begun: false,
            until: Instant::now(),
            socket: None,
            socket_waited: Duration::ZERO,
        }
    }

    /// From now on its bytes move on this connection.
    pub fn moves_on(&mut self, waits: SocketWaits, direction: SocketUse) {
        self.socket_waited = waited(&waits, direction);
        self.socket = Some((waits, direction));
    }

    /// Whether a connection is known.
    pub fn has_socket(&self) -> bool {
        self.socket.is_some()
    }

    /// Starts the clock, if it does not run.
    pub fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.until = Instant::now();
            self.catch_up();
        }
    }

    /// Bytes have come from the connection: as [`Self::carried`], and the first of them start the clock.
    pub fn arrived(&mut self) {
        self.carried();
        self.begin();
    }

    /// The time since the last mark.
    fn passed(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.until, now))
    }

    /// All time since the last mark was spent in one state.
    pub fn spent(&mut self, state: StreamState) {
        let passed = self.passed();
        if self.has_begun {
            self.times.add(state, passed);
        }
        self.catch_up();
    }

    /// The connection had the stream since the last mark: where it waited for its socket, that was the network; the rest was
    /// TLS and copying.
    pub fn carried(&mut self) {
        let passed = self.passed();
        let before = self.socket_waited;
        self.catch_up();
        if !self.has_begun {
            return;
        }
        // Without a connection that tells, the network is what a stream without bytes waits for.
        let network = match &self.socket {
            Some(_) => self.socket_waited.saturating_sub(before).min(passed),
            None => passed,
        };
        self.times.add(StreamState::Network, network);
        self.times.add(StreamState::Processor, passed.saturating_sub(network));
    }

    /// A writer had the stream since the last mark. `on_disk`: it writes to something that can be waited for.
    pub fn written(&mut self, writer: &WriteTimes, on_disk: bool) {
        let passed = self.passed();
        let disk = if on_disk {
            writer.writing_part(passed).min(passed)
        } else {
            Duration::ZERO
        };
        self.times.add(StreamState::Disk, disk);
        self.times.add(StreamState::Processor, passed.saturating_sub(disk));
        self.catch_up();
    }

    /// Waits of the socket while the stream did not wait for it are nobody's.
    fn catch_up(&mut self) {
        if let Some((waits, direction)) = &self.socket {
            self.socket_waited = waited(waits, *direction);
        }
    }
}

fn waited(waits: &SocketWaits, direction: SocketUse) -> Duration {
    match direction {
        SocketUse::Reads => waits.read(),
        SocketUse::Writes => waits.write(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_in_one_state() {
        let times = Arc::new(StateTimes::default());
        let mut clock = Chronograph::start(times.clone());
        let writer = WriteTimes::default();
        std::thread::sleep(Duration::from_millis(2));
        clock.spent(StreamState::Limiter);
        clock.arrived();
        assert_eq!(times.nanos(), [0; 5], "the wait for the first byte is counted apart");
        let began = clock.until;
        for state in StreamState::ALL {
            std::thread::sleep(Duration::from_millis(2));
            clock.spent(state);
        }
        std::thread::sleep(Duration::from_millis(2));
        clock.carried();
        std::thread::sleep(Duration::from_millis(2));
        clock.written(&writer, true);
        let sum: u64 = times.nanos().iter().sum();
        let life = clock.until.duration_since(began).as_nanos() as u64;
        assert!(sum <= life && sum + 1_000_000 > life, "{sum} of {life}");
        assert!(times.nanos().iter().all(|nanos| *nanos >= 2_000_000), "{times:?}");
    }

    #[test]
    fn a_wait_for_a_writer_is_divided_as_its_work_is() {
        let writer = WriteTimes::default();
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        writer.add(at(0), at(1), at(4));
        assert_eq!(writer.writing_part(Duration::from_millis(8)), Duration::from_millis(6));
        assert_eq!(
            WriteTimes::default().writing_part(Duration::from_millis(8)),
            Duration::ZERO
        );
    }
}
