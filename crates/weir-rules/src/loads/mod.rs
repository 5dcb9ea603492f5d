//! Load plans: the bytes of a link in each cycle, and the files that make them up.
//!
//! A load holds one link at a rate that is a [`Curve`] of time. Each cycle it injects the difference between the bytes of the curve so far
//! and the bytes injected so far. The loop is closed: while earlier injections do not arrive, it injects less. A shortfall is caught up for
//! [`DEBT_CYCLES`] cycles, and then given up.

mod curve;

use std::time::Duration;

use weir_units::Bytes;

pub use curve::{Curve, CurveError, Point};

/// Cycles of bytes that may wait on a link before it gets no more.
pub const BACKLOG_CYCLES: u32 = 5;

/// Cycles after which bytes that were not injected are given up.
pub const DEBT_CYCLES: u32 = 10;

/// Files of one cycle at most.
pub const FILES_MAX: usize = 10_000;

/// The terms of a load that do not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The rate of the link, from the start of the load.
    pub curve: Curve,
    /// From start to end.
    pub length: Duration,
    /// From one cycle to the next. Not zero.
    pub interval: Duration,
    /// From the start to the second cycle; the first one is at the start. Less than an interval; loads that start together have
    /// different ones, so that they do not inject at the same moments.
    pub phase: Duration,
    /// Thousandths of the curve that are asked for in addition.
    pub fudge: u32,
    /// Thousandths by which a cycle's files may exceed its target.
    pub overshoot: u32,
}

/// The bytes of a load so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Injected in all.
    pub injected: Bytes,
    /// Given up in all.
    pub given_up: Bytes,
    /// Injected, but their rule ended before they arrived.
    pub lost: Bytes,
    /// Injected, held by a rule, and not arrived.
    pub waiting: Bytes,
}

/// The reason why a cycle injects less than it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Enough bytes wait on the link already.
    Backlog,
    /// The source holds too few files that the destination does not have.
    Sources,
    /// The account may not store more at the destination.
    Quota,
    /// The destination has too little free space.
    Space,
    /// The destination takes no files now.
    Blocked,
    /// The rule was refused for another reason.
    Refused,
}

impl Held {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::Backlog,
        Self::Sources,
        Self::Quota,
        Self::Space,
        Self::Blocked,
        Self::Refused,
    ];

    /// The word for it in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Sources => "sources",
            Self::Quota => "quota",
            Self::Space => "space",
            Self::Blocked => "blocked",
            Self::Refused => "refused",
        }
    }
}

/// The decision about one cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Bytes that the load asks for from its start to the next cycle.
    pub due: Bytes,
    /// Of these, bytes that are given up now.
    pub given_up: Bytes,
    /// Bytes that are to be injected.
    pub wanted: Bytes,
    /// Bytes that may be injected now.
    pub target: Bytes,
}

impl Cycle {
    /// Whether the bytes that wait hold some back.
    pub fn is_held(&self) -> bool {
        self.target < self.wanted
    }
}

impl Terms {
    /// The first cycle after a moment, both counted from the start of the load.
    pub fn after(&self, elapsed: Duration) -> Duration {
        let Some(since) = elapsed.checked_sub(self.phase) else {
            return self.phase;
        };
        let cycles = since.as_nanos() / self.interval.as_nanos() + 1;
        self.phase + self.interval * u32::try_from(cycles).unwrap_or(u32::MAX)
    }

    /// Bytes that are asked for by a moment.
    pub fn asked_by(&self, elapsed: Duration) -> Bytes {
        let bytes = u128::from(self.curve.bytes_by(elapsed.min(self.length)).0) * u128::from(1000 + self.fudge) / 1000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Bytes that may wait at a moment.
    fn backlog(&self, elapsed: Duration) -> Bytes {
        let end = elapsed + self.interval;
        let rate = self
            .curve
            .rate_at(elapsed)
            .max(self.curve.rate_at(end.min(self.length)));
        let bytes = rate.bytes_in(self.interval * BACKLOG_CYCLES).0;
        Bytes(bytes.saturating_add(bytes / 1000 * u64::from(self.fudge)))
    }

    /// Decides about the cycle that is due at a moment.
    ///
    /// Lost bytes are injected again, up to a quarter of the bytes asked: a link that loses more does not work.
    pub fn decide(&self, elapsed: Duration, so_far: Sums) -> Cycle {
        let next = self.after(elapsed);
        let due = self.asked_by(next);
        let replaced = so_far.lost.0.min(so_far.injected.0 / 5);
        let covered = (so_far.injected.0 - replaced).saturating_add(so_far.given_up.0);
        let old = self.asked_by(next.saturating_sub(self.interval * DEBT_CYCLES));
        let given_up = old.0.saturating_sub(covered);
        let wanted = due.0.saturating_sub(covered).saturating_sub(given_up);
        let mut room = self.backlog(elapsed).0.saturating_sub(so_far.waiting.0);
        if so_far.waiting == Bytes::ZERO {
            // A link on which nothing waits gets a file, however large that is.
            room = room.max(1);
        }
        Cycle {
            due,
            given_up: Bytes(given_up),
            wanted: Bytes(wanted),
            target: Bytes(wanted.min(room)),
        }
    }
}

/// The place of a load in its interval: loads that are numbered one after the other are as far apart as possible (the golden ratio's sequence).
pub fn phase(number: u64, interval: Duration) -> Duration {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let place = number.wrapping_mul(GOLDEN);
    let nanos = (interval.as_nanos() * u128::from(place)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
}

/// The choice of a cycle's files, offered one after the other.
#[derive(Debug, Clone)]
pub struct Choice {
    target: Bytes,
    most: Bytes,
    left: Option<Bytes>,
    files: usize,
    bytes: Bytes,
    is_near: bool,
    lacks_room: bool,
}

impl Choice {
    /// A choice of files until the target is reached. `left` is the room in quota and space; `None`: there is no limit.
    pub fn new(target: Bytes, overshoot: u32, left: Option<Bytes>) -> Self {
        let most = u128::from(target.0) * u128::from(1000 + overshoot) / 1000;
        Self {
            target,
            most: Bytes(u64::try_from(most).unwrap_or(u64::MAX)),
            left,
            files: 0,
            bytes: Bytes::ZERO,
            is_near: false,
            lacks_room: false,
        }
    }

    /// Takes a file, or leaves it. The first one is taken even if it exceeds the target: it would never go otherwise, and the next cycles
    /// inject less for it.
    pub fn offer(&mut self, size: Bytes) -> bool {
        let bytes = Bytes(self.bytes.0.saturating_add(size.0));
        if self.is_full() {
            return false;
        }
        if self.files > 0 && bytes > self.most {
            self.is_near = bytes.0 - size.0 >= self.target.0 / 2;
            return false;
        }
        if self.left.is_some_and(|left| bytes > left) {
            self.lacks_room = true;
            return false;
        }
        self.files += 1;
        self.bytes = bytes;
        true
    }

    /// Whether no more files are needed: the target is reached, or at least half of it and the next file would exceed it by too much. The
    /// next cycle asks for the missing bytes.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.target || self.is_near || self.files >= FILES_MAX
    }

    /// The bytes that were taken.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Whether a file was left because quota or space does not suffice.
    pub fn lacks_room(&self) -> bool {
        self.lacks_room
    }
}

#[cfg(test)]
mod tests;
