//! Times in which a connection waited for its socket.
//!
//! A connection that finds its receive queue empty waits for the other side or for the path. A connection that finds data
//! there is itself the slower one. The same holds for the send queue.

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The waits of one connection for its socket; clones share them.
#[derive(Clone, Default)]
pub struct SocketWaits(Arc<Both>);

#[derive(Default)]
struct Both {
    read: Clock,
    write: Clock,
}

/// Reads or writes of a socket. Only its connection writes here, so no operation needs to be atomic as a whole.
#[derive(Default)]
struct Clock {
    /// Nanoseconds of waits that are over.
    sum: AtomicU64,
    /// When the current wait began, in nanoseconds; 0 for none.
    since: AtomicU64,
    /// Operations that had to wait, and operations that did not.
    waited: AtomicU64,
    ready: AtomicU64,
}

/// How often the receive queue had data when the connection came to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Reads that found data: the connection is slower than the path.
    pub ready: u64,
    /// Reads that had to wait: the path, or the other side, is slower.
    pub waited: u64,
}

/// Nanoseconds since the first call, from 1 on.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos())
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

impl Clock {
    fn polled(&self, is_pending: bool) {
        let since = self.since.load(Ordering::Relaxed);
        match (is_pending, since) {
            (true, 0) => {
                self.since.store(now(), Ordering::Relaxed);
                self.waited.fetch_add(1, Ordering::Relaxed);
            }
            (true, _) => {}
            (false, 0) => drop(self.ready.fetch_add(1, Ordering::Relaxed)),
            (false, since) => {
                // A reader between the two counts this wait twice, and its next reading makes up for that.
                self.sum.fetch_add(now().saturating_sub(since), Ordering::Relaxed);
                self.since.store(0, Ordering::Relaxed);
            }
        }
    }

    fn waited(&self) -> Duration {
        let since = self.since.load(Ordering::Relaxed);
        let open = if since == 0 { 0 } else { now().saturating_sub(since) };
        Duration::from_nanos(self.sum.load(Ordering::Relaxed).saturating_add(open))
    }
}

impl SocketWaits {
    /// How long it has waited for bytes to read, the current wait included.
    pub fn read(&self) -> Duration {
        self.0.read.waited()
    }

    /// How long it has waited for room to write, the current wait included.
    pub fn write(&self) -> Duration {
        self.0.write.waited()
    }

    /// The state of the receive queue when it came to read.
    pub fn receive_queue(&self) -> ReceiveQueue {
        // A read that waited is ready in the end, and is counted once.
        ReceiveQueue {
            ready: self.0.read.ready.load(Ordering::Relaxed),
            waited: self.0.read.waited.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn read_polled(&self, is_pending: bool) {
        self.0.read.polled(is_pending);
    }

    pub(crate) fn write_polled(&self, is_pending: bool) {
        self.0.write.polled(is_pending);
    }
}

impl fmt::Debug for SocketWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketWaits")
            .field("read", &self.read())
            .field("write", &self.write())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_between_a_wait_and_its_end_counts() {
        let waits = SocketWaits::default();
        waits.read_polled(false);
        assert_eq!(waits.read(), Duration::ZERO);
        waits.read_polled(true);
        waits.read_polled(true);
        std::thread::sleep(Duration::from_millis(5));
        let open = waits.read();
        assert!(open >= Duration::from_millis(5));
        waits.read_polled(false);
        let over = waits.read();
        assert!(over >= open);
        waits.read_polled(false);
        assert_eq!(waits.read(), over);
        assert_eq!(waits.receive_queue(), ReceiveQueue { ready: 2, waited: 1 });
        assert_eq!(waits.write(), Duration::ZERO);
    }
}
