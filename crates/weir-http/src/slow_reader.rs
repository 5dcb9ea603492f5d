//! Detection of peers that read too slowly. The time is an argument: nothing here waits.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::time::Instant;

/// Looks in a window: often enough that a wait is not much longer than it may be, and each costs a system call.
const LOOKS: u32 = 16;

/// At least so many bytes in any window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The bytes.
    pub bytes: u64,
    /// The time.
    pub window: Duration,
}

/// Why a connection was cut, if it was because its other side took too little. Clones mean the same connection.
#[derive(Debug, Clone, Default)]
pub struct CutShort(Arc<OnceLock<String>>);

impl CutShort {
    /// The behaviour of the other side, as a sentence without an end; `None`: it was not cut for that.
    pub fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    pub(crate) fn because(&self, slow: Slow) {
        let _ = self.0.set(slow.to_string());
    }
}

/// The other side is too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slow {
    /// It took nothing for so long.
    Nothing(Duration),
    /// It read less than the required pace.
    Little(u64, Pace),
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(time) => write!(f, "the other side took nothing for {time:?}"),
            Self::Little(bytes, Pace { bytes: least, window }) => {
                write!(
                    f,
                    "the other side took {bytes} bytes in {window:?}, at least {least} are asked"
                )
            }
        }
    }
}

/// Watches writes that wait for the other side.
///
/// Only the time in which a write waits counts, so that a peer never pays for our own slowness. The measure is the
/// number of bytes that the other side's TCP has acknowledged. A socket takes the next bytes only when a third of its
/// buffer is free, which may be megabytes.
pub(crate) struct WriteWatch {
    limit: Option<Duration>,
    pace: Option<Pace>,
    /// Total waiting time of writes, up to the last one that went through.
    waited: Duration,
    /// Since when one waits.
    since: Option<Instant>,
    /// When bytes were last seen to be taken in this wait, or its beginning.
    progress: Instant,
    taken: u64,
    next_look: Instant,
    /// Bytes taken at times of waiting; the first entry is the youngest that is at least a window old.
    seen: VecDeque<(Duration, u64)>,
}

impl WriteWatch {
    /// `limit` is for writes of which nothing is taken. None if nothing is asked of the other side.
    pub(crate) fn new(limit: Option<Duration>, pace: Option<Pace>) -> Option<Self> {
        limit.or(pace.map(|pace| pace.window))?;
        let now = Instant::now();
        Some(Self {
            limit,
            pace,
            waited: Duration::ZERO,
            since: None,
            progress: now,
            taken: 0,
            next_look: now,
            seen: VecDeque::new(),
        })
    }

    /// A write went through. The time is asked for only if one had waited.
    pub(crate) fn wrote(&mut self, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.since.take() {
            self.waited += now().duration_since(since);
        }
    }

    /// A write waits. `taken` returns the bytes acknowledged so far, and is called now and then. Returns the time of
    /// the next check.
    ///
    /// # Errors
    /// The peer reads too slowly.
    pub(crate) fn waits(&mut self, now: Instant, taken: impl FnOnce() -> u64) -> Result<Instant, Slow> {
        if self.since.is_none() {
            self.progress = now;
        }
        let since = *self.since.get_or_insert(now);
        if now < self.next_look {
            return Ok(self.next_look);
        }
        self.next_look = now + self.every();
        let taken = taken();
        if taken > self.taken {
            self.taken = taken;
            self.progress = now;
        }
        let silence = now.duration_since(self.progress);
        match self.limit {
            Some(limit) if silence >= limit => return Err(Slow::Nothing(limit)),
            _ => {}
        }
        match self.pace {
            Some(pace) => self.keeps(pace, self.waited + now.duration_since(since)),
            None => Ok(()),
        }?;
        Ok(self.next_look)
    }

    fn keeps(&mut self, pace: Pace, waited: Duration) -> Result<(), Slow> {
        self.seen.push_back((waited, self.taken));
        while self
            .seen
            .get(1)
            .is_some_and(|(then, _)| waited.saturating_sub(*then) >= pace.window)
        {
            self.seen.pop_front();
        }
        let (then, before) = self.seen[0];
        let took = self.taken - before;
        if waited.saturating_sub(then) >= pace.window && took < pace.bytes {
            return Err(Slow::Little(took, pace));
        }
        Ok(())
    }

    fn every(&self) -> Duration {
        let window = self.pace.map(|pace| pace.window);
        let shortest = self.limit.into_iter().chain(window).min().unwrap_or_default();
        shortest / LOOKS
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    const PACE: Pace = Pace {
        bytes: 600,
        window: Duration::from_secs(60),
    };

    fn taking(limit: u64) -> WriteWatch {
        WriteWatch::new(Some(Duration::from_secs(limit)), Some(PACE)).unwrap()
    }

    /// Writes that always wait, of which so many bytes a second are taken; gives the second of the verdict, and it.
    fn carry(taking: &mut WriteWatch, from: Instant, seconds: u64, taken: impl Fn(u64) -> u64) -> Option<(u64, Slow)> {
        (0..=seconds).find_map(|second| {
            let now = from + Duration::from_secs(second);
            if second.is_multiple_of(7) && taken(second) > taken(second.saturating_sub(1)) {
                taking.wrote(|| now);
            }
            let verdict = taking.waits(now, || taken(second));
            verdict.err().map(|slow| (second, slow))
        })
    }

    /// A client that reads too slowly holds its slot for good; one that keeps the pace must not be cut, however it is
    /// served.
    #[test]
    fn a_slow_reader_is_found_and_a_steady_one_is_not() {
        let start = Instant::now();
        assert_eq!(carry(&mut taking(1000), start, 1000, |second| 11 * second), None);
        // In lumps, as windows open.
        assert_eq!(carry(&mut taking(1000), start, 1000, |second| second / 20 * 240), None);
        let (when, slow) = carry(&mut taking(1000), start, 1000, |second| 9 * second).unwrap();
        assert!((60..80).contains(&when), "{when}");
        assert!(matches!(slow, Slow::Little(500..600, PACE)), "{slow:?}");
        let stops = |second: u64| 1000 * second.min(100);
        let (when, slow) = carry(&mut taking(30), start, 1000, stops).unwrap();
        assert!((130..140).contains(&when), "{when}");
        assert_eq!(slow, Slow::Nothing(Duration::from_secs(30)));
    }

    /// A slow disk, or a limit of our own, is not the client's fault.
    #[test]
    fn only_time_in_which_the_other_side_is_waited_for_counts() {
        let (mut taking, start) = (taking(30), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // A moment's wait for a byte, and a minute of ours: after twelve of them it has been waited for a minute.
        for round in 0..12_u64 {
            taking.waits(at(60 * round), || round).unwrap();
            let verdict = taking.waits(at(60 * round + 5), || round);
            taking.wrote(|| at(60 * round + 5));
            let few = matches!(verdict, Err(Slow::Little(11, PACE)));
            assert_eq!(few, round == 11, "{verdict:?} in round {round}");
        }
    }
}
