//! The optimiser of one resource: how many transfers are worth running on it.
//!
//! It treats a resource as BBR treats a path (Cardwell et al., ACM Queue 14-5, 2016): it learns what is delivered as a
//! function of how many transfers run, finds the knee beyond which more bring no more, runs just past it, and tries a few
//! more or a few less now and then. It knows no model of what lies behind: a full link, a disk that thrashes, a remote
//! end that is slow, and load that is not ours all show in the same two figures.
//!
//! # What is measured
//! Each *sample* says how many bytes one transfer moved in how long a time on its slot, start-up and waiting included. The
//! rate of the resource is then, by Little's law, bytes per slot time × slots taken. This needs no progress of every
//! transfer, and few ends: noise comes only from differences between transfers, not from how many happened to end.
//! Because start-up counts, many small files lead to more transfers than few large ones.
//!
//! # What is decided
//! Samples are gathered in *windows* during which the cap stays as it is. After a change of the cap, a window opens only
//! when transfers of the time before are over.
//! ```text
//!  Startup: × 2 while that brings at least a third of what it should ──▶ Cruise, just past the knee
//!  Cruise:  every few windows, or at once when the rate has moved:  ──▶ Up (× 1.25, then × 1.5 while it pays), or
//!                                                                    ──▶ Down (× 0.8 while it costs less than 3 %)
//! ```
//! A trial that does not pay is taken back. Nothing is tried while the resource is not used to its cap.

use std::time::Duration;

use weir_units::Timestamp;

/// Transfers to begin with on a link: with 50 MB/s each, 6 Gb/s; and no storage falls over at 16.
pub(crate) const LINK_START: u32 = 16;
/// Transfers to begin with at a storage element or shared resource: a handful of links that begin.
pub(crate) const SHARED_START: u32 = 64;
/// Share of the expected gain that makes growth worthwhile (BBR's startup asks for 25 % where 100 % is possible).
const WORTHWHILE: f64 = 0.35;
/// Windows of rest between two trials.
const REST: u32 = 6;
/// A rate that moved by so much at the same concurrency asks for a trial at once.
const RISEN: f64 = 1.06;
const FALLEN: f64 = 0.90;
/// What fewer transfers may cost.
const SAME: f64 = 0.97;
/// No window is shorter, so that what transfers do in common (a marker interval, a burst of starts) evens out.
const WINDOW_MIN: Duration = Duration::from_secs(2);
/// Samples that a window needs at least, and at most.
const SAMPLES: (u32, u32) = (4, 32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Cruise,
    Up,
    Down,
}

/// A concurrency and what it delivered, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    active: f64,
    rate: f64,
}

/// What was seen under one cap.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// When the cap came into force, and when measuring begins.
    opened: Timestamp,
    from: Timestamp,
    bytes: f64,
    slot_seconds: f64,
    samples: u32,
    losses: u32,
    /// Integral of active transfers over time, and time spent at the cap, in seconds.
    active_seconds: f64,
    full_seconds: f64,
}

/// The optimiser of one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Governor {
    phase: Phase,
    cap: u32,
    limit: u32,
    base: Point,
    /// The cap to go back to.
    base_cap: u32,
    window: Window,
    active: u32,
    seen: Timestamp,
    /// Mean slot time of a sample, in seconds.
    span: f64,
    rest: u32,
    up_next: bool,
    /// Grown so often in a row.
    streak: u32,
}

impl Governor {
    pub(crate) fn new(start: u32) -> Self {
        Self {
            phase: Phase::Startup,
            cap: start,
            limit: u32::MAX,
            base: Point::default(),
            base_cap: start,
            window: Window::default(),
            active: 0,
            seen: Timestamp(0),
            span: 1.0,
            rest: REST,
            up_next: true,
            streak: 0,
        }
    }

    /// Goes on from what an earlier life had learned.
    pub(crate) fn recall(&mut self, cap: u32) {
        self.phase = Phase::Cruise;
        self.cap = cap.max(1);
        self.base_cap = self.cap;
        self.base = Point::default();
    }

    /// Transfers that may be active, as far as this resource is concerned.
    pub(crate) fn cap(&self) -> u32 {
        self.cap
    }

    /// What the resource is known to bear: the cap outside trials. None as long as nothing is known.
    pub(crate) fn learned(&self) -> Option<u32> {
        (self.phase != Phase::Startup && self.base.rate > 0.0).then_some(self.base_cap)
    }

    /// There is no use in a cap beyond the limit.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Notes that from now on so many are active.
    pub(crate) fn set_active(&mut self, now: Timestamp, active: u32) {
        self.elapse(now);
        self.active = active;
    }

    fn elapse(&mut self, now: Timestamp) {
        let window = &mut self.window;
        let seconds = now.since(self.seen.max(window.from)).as_secs_f64();
        window.active_seconds += seconds * f64::from(self.active);
        if self.active >= self.cap.min(self.limit) {
            window.full_seconds += seconds;
        }
        self.seen = self.seen.max(now);
    }

    /// Takes one sample: a transfer moved `bytes` in the last `seconds` of its slot time. True if the cap changed.
    pub(crate) fn sample(&mut self, now: Timestamp, bytes: f64, seconds: f64) -> bool {
        self.span += (seconds - self.span) / 8.0;
        let since_change = now.since(self.window.opened).as_secs_f64();
        let part = since_change.min(seconds);
        if now < self.window.from || part < 0.5 * seconds || seconds <= 0.0 {
            return false;
        }
        let window = &mut self.window;
        window.bytes += bytes * (part / seconds);
        window.slot_seconds += part;
        window.samples += 1;
        let enough = (self.active / 8).clamp(SAMPLES.0, SAMPLES.1);
        if window.samples < enough || now.since(window.from) < WINDOW_MIN {
            return false;
        }
        self.elapse(now);
        self.close(now)
    }

    /// An attempt failed because there was too much going on. True if the cap changed.
    pub(crate) fn congested(&mut self, now: Timestamp) -> bool {
        self.window.losses += 1;
        let window = &self.window;
        let many = window.losses >= 3 && window.losses * 10 > window.losses + window.samples;
        if !many || now < window.from {
            return false;
        }
        let before = self.cap;
        self.base = Point::default();
        self.base_cap = (self.active.min(self.cap) * 7 / 10).max(1);
        self.cruise(now, self.base_cap);
        self.cap != before
    }

    /// Judges a window, and opens the next.
    fn close(&mut self, now: Timestamp) -> bool {
        let window = self.window;
        let measured = now.since(window.from).as_secs_f64().max(1e-3);
        let seen = Point {
            active: window.active_seconds / measured,
            rate: window.bytes / window.slot_seconds.max(1e-9) * (window.active_seconds / measured),
        };
        let full = window.full_seconds > 0.5 * measured;
        let before = self.cap;
        match self.phase {
            Phase::Startup | Phase::Up => self.judge_more(now, seen, full),
            Phase::Down => self.judge_less(now, seen),
            Phase::Cruise => self.watch(now, seen, full),
        }
        if self.window.from == window.from {
            self.open(now, now);
        }
        self.cap != before
    }

    /// More were allowed: did they bring more?
    fn judge_more(&mut self, now: Timestamp, seen: Point, full: bool) {
        let first = self.base.rate <= 0.0;
        if !first && seen.active < 1.08 * self.base.active {
            // They were not used.
            let cap = if self.phase == Phase::Startup {
                self.cap
            } else {
                self.base_cap
            };
            self.base = seen;
            return self.cruise(now, cap);
        }
        if first || gain(self.base, seen) >= WORTHWHILE {
            self.base = seen;
            self.base_cap = self.cap;
            if full {
                self.grow(now);
            } else {
                self.cruise(now, self.cap);
            }
            return;
        }
        let cap = match self.phase {
            Phase::Startup => past_the_knee(self.base, seen),
            _ => self.base_cap,
        };
        self.base.active = self.base.active.max(1.0);
        self.cruise(now, cap);
        self.up_next = false;
    }

    /// Fewer were allowed: did that cost anything?
    fn judge_less(&mut self, now: Timestamp, seen: Point) {
        if seen.rate < SAME * self.base.rate {
            self.up_next = true;
            return self.cruise(now, self.base_cap);
        }
        if self.is_draining(seen) {
            return;
        }
        self.base = seen;
        self.base_cap = self.cap;
        self.shrink(now);
    }

    /// Nothing is being tried: is everything as it was?
    fn watch(&mut self, now: Timestamp, seen: Point, full: bool) {
        if self.is_draining(seen) {
            self.base = seen;
            return;
        }
        let same = (seen.active - self.base.active).abs() < 0.1 * self.base.active;
        let change = seen.rate / self.base.rate.max(1.0);
        if !same {
            let pays = full && seen.active > self.base.active && self.base.rate > 0.0;
            let pays = pays && gain(self.base, seen) >= WORTHWHILE;
            self.base = seen;
            self.rest = self.rest.saturating_sub(1);
            if pays {
                self.grow(now);
            }
            return;
        }
        let moved = !(FALLEN..RISEN).contains(&change);
        if moved {
            self.base = seen;
        } else {
            self.base.rate += (seen.rate - self.base.rate) / 4.0;
            self.base.active += (seen.active - self.base.active) / 4.0;
        }
        self.rest = self.rest.saturating_sub(1);
        if !full || (self.rest > 0 && !moved) {
            return;
        }
        if if moved { change > 1.0 } else { self.up_next } {
            self.grow(now);
        } else {
            self.shrink(now);
        }
    }

    /// More are active than may be: those of before have not ended, and nothing can be said about the cap.
    fn is_draining(&self, seen: Point) -> bool {
        seen.active > 1.05 * f64::from(self.cap)
    }

    fn grow(&mut self, now: Timestamp) {
        let factor = match (self.phase, self.streak) {
            (Phase::Startup, _) => 2.0,
            (_, 0) => 1.25,
            _ => 1.5,
        };
        self.streak += 1;
        self.base_cap = self.cap;
        let cap = ((f64::from(self.cap) * factor).ceil() as u32).min(self.limit);
        if cap <= self.cap {
            // The limit is reached: beyond it there is nothing to learn.
            self.up_next = false;
            return self.cruise(now, self.cap);
        }
        self.phase = if self.phase == Phase::Startup {
            Phase::Startup
        } else {
            Phase::Up
        };
        self.change(now, cap);
    }

    fn shrink(&mut self, now: Timestamp) {
        self.base_cap = self.cap;
        let cap = ((f64::from(self.cap.min(self.limit)) * 0.8).floor() as u32).max(1);
        if cap == self.cap {
            self.up_next = true;
            return self.cruise(now, self.cap);
        }
        self.phase = Phase::Down;
        self.change(now, cap);
    }

    fn cruise(&mut self, now: Timestamp, cap: u32) {
        self.phase = Phase::Cruise;
        self.streak = 0;
        self.rest = REST;
        self.base_cap = cap;
        if cap == self.cap {
            self.open(now, now);
        } else {
            self.change(now, cap);
        }
    }

    /// Sets another cap, and waits until transfers of the time before are over.
    fn change(&mut self, now: Timestamp, cap: u32) {
        self.cap = cap.max(1);
        let settle = Duration::from_secs_f64(self.span.clamp(1.0, 900.0));
        self.open(now, now + settle);
    }

    fn open(&mut self, now: Timestamp, from: Timestamp) {
        let opened = if from > now { now } else { self.window.opened };
        self.window = Window {
            opened,
            from,
            ..Window::default()
        };
        self.seen = now;
    }
}

/// What part of the gain that more transfers could bring they did bring. Below zero if they did harm.
fn gain(base: Point, seen: Point) -> f64 {
    let (possible, real) = (
        seen.active / base.active.max(1e-9) - 1.0,
        seen.rate / base.rate.max(1e-9) - 1.0,
    );
    if possible > 0.0 { real / possible } else { 0.0 }
}

/// A cap a tenth beyond the knee, which lies where the line through the origin and the point before it meets the plateau.
fn past_the_knee(before: Point, beyond: Point) -> u32 {
    let knee = (before.active * beyond.rate / before.rate.max(1e-9)).clamp(before.active, beyond.active);
    (1.1 * knee).ceil() as u32
}
