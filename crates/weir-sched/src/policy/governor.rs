//! The optimiser of one resource: it finds the number of transfers worth running on it.
//!
//! It treats a resource as BBR treats a path (Cardwell et al., ACM Queue 14-5, 2016). It learns the delivered rate as a
//! function of how many transfers run, and finds the knee beyond which more bring no more. It runs just past it, and
//! tries a few more or a few less now and then. It needs no model of the cause: a full link, a disk that thrashes, a
//! slow remote end and foreign load all show in the same two figures.
//!
//! # Measurement
//! A *sample* holds the bytes of one transfer and the time on its slot in which they moved. The time is between two
//! reports of progress, or from its start to its end if it does not report. Over a *window* of time, bytes per slot
//! time × slots taken is the rate of the resource (Little's law). A window is judged only when all reporting transfers
//! have reported their progress in it; each sample counts with the part of it that lies in the window. So samples from
//! before a change do not blur its effect; not every transfer has to report; and the number of ends in the window does
//! not matter. Start-up counts where there are no reports, so many small files lead to more transfers than few large
//! ones.
//!
//! Where several links pass, fast and slow ones come and go, and the rate in bytes would follow the mix of links. So
//! there a sample is divided by its lane's usual throughput ([`super::usual::Usual`]): the rate is in transfers of usual
//! speed. The usual throughput follows the samples outside of trials, and is frozen during a trial.
//!
//! # Decisions
//! The cap stays as it is during a window.
//! ```text
//!  Startup: × 2 while that brings three quarters of the possible gain ──▶ Cruise, just past the knee; or at its cap
//!           while another limit keeps it below: it doubles again as soon as the cap is used
//!  Cruise:  every few windows, or at once when the rate has moved:  ──▶ Up (× 1.25, then × 1.6 while it pays well), or
//!                                                                    ──▶ Down (× 0.85 while it costs less than 2 %)
//! ```
//! A trial that does not pay is taken back. Nothing is tried while the resource is not used to its cap.

use std::time::Duration;

use weir_units::Timestamp;

use super::sample::Sample;

/// Transfers to begin with on a link: with 50 MB/s each, 6 Gb/s; and no storage falls over at 16.
pub(crate) const LINK_START: u32 = 16;
/// Transfers to begin with at a storage element or shared resource: two links that begin.
pub(crate) const SHARED_START: u32 = 32;
/// However many fail, so many may be active: whether anything works at all is for the breaker to say.
const LEAST: u32 = 4;
/// Part of the possible gain that makes doubling go on: below it, the knee lies between the two.
const STEEP: f64 = 0.75;
/// Number of windows over which the best throughput of one transfer is forgotten.
const FADING: f64 = 256.0;
/// Part of the possible gain that makes a few more worthwhile: knees are round, and a transfer more costs little.
const WORTHWHILE: f64 = 0.14;
/// Windows of rest between two trials.
const REST: u32 = 2;
/// Rests grow so many times to the double while more transfers do harm, and trials of fewer become so much rarer while
/// they cost something.
const DOUBLINGS: u32 = 3;
/// Smallest gain that counts where a lane has a claim: its transfers take from others, and need not pay for all of it.
const ANY: f64 = 0.05;
/// A gain below this is harm.
const HARM: f64 = -0.06;
/// A rate that moved by so much at the same concurrency, in two windows in a row, asks for a trial at once.
const RISEN: f64 = 1.05;
const FALLEN: f64 = 0.90;
/// Fraction of the throughput that fewer transfers must keep.
const SAME: f64 = 0.98;
/// Shortest window, so that effects common to all transfers (a burst of starts) even out.
const WINDOW_MIN: Duration = Duration::from_secs(3);
/// Transfers that take longer, in seconds, are not waited for.
const LONGEST: f64 = 900.0;
/// A window is stretched no further than to so many doublings.
const STRETCH_MAX: u32 = 4;
/// Number of transfers whose samples a window needs: an eighth of the running ones, within these bounds.
const VOICES: (f64, f64) = (2.0, 32.0);
/// Samples in a window: where one transfer reports for all, one says how it went for that one.
const SAMPLES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Cruise,
    Up,
    Down,
}

/// The unit of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Bytes,
    /// Transfers that are as good as usual.
    Usual,
}

/// Why more are tried before it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrialReason {
    None,
    /// More were active than before, though nothing was tried, and brought more.
    Eager,
    /// The trial is for a lane with a claim, and may take from others.
    Owed,
}

/// A concurrency and its delivered rate: bytes per second, or transfers of usual speed.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    active: f64,
    rate: f64,
}

/// Samples under one cap, from one time to another.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    from: Timestamp,
    to: Timestamp,
    /// When all samples of the window have arrived.
    known: Timestamp,
    voices: f64,
    /// Samples that they came from.
    samples: u32,
    losses: u32,
    bytes: f64,
    /// Expected bytes; slot time in seconds, if rates are in bytes.
    expected: f64,
    /// Integrals over time: active transfers, and time spent at the cap, in seconds.
    active_seconds: f64,
    full_seconds: f64,
}

/// The optimiser of one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Governor {
    measure: Measure,
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
    /// Windows in a row in which too few were heard of: each is twice as long as the last.
    stretch: u32,
    rest: u32,
    /// Trials of more in a row that did harm; trials of fewer in a row that cost something.
    harmful: u32,
    costly: u32,
    /// Trials of more until the next one of fewer, unless the cap is clearly beyond the one at which fewer did cost.
    ups: u32,
    costly_at: u32,
    /// Spreads the trials of resources that began together.
    salt: u32,
    /// The last window was unlike those before.
    strayed: bool,
    wish: TrialReason,
    /// Grown so often in a row.
    streak: u32,
    /// The best recent throughput of one transfer, in the unit of rates.
    best: f64,
    /// True before the first knee: the next trial is twice as many, whenever the resource is used to its cap.
    young: bool,
}

impl Governor {
    /// Begins with so many. Resources with different salts make their trials at different times.
    pub(crate) fn new(start: u32, measure: Measure, salt: u32) -> Self {
        Self {
            measure,
            phase: Phase::Startup,
            cap: start,
            limit: u32::MAX,
            base: Point::default(),
            base_cap: start,
            window: Window::default(),
            active: 0,
            seen: Timestamp(0),
            span: 0.0,
            stretch: 0,
            rest: REST,
            harmful: 0,
            costly: 0,
            ups: 1,
            costly_at: 0,
            salt,
            strayed: false,
            wish: TrialReason::None,
            streak: 0,
            best: 0.0,
            young: true,
        }
    }

    /// Continues with the cap that an earlier life has learned.
    pub(crate) fn recall(&mut self, cap: u32) {
        self.phase = Phase::Cruise;
        self.young = false;
        self.cap = cap.max(1);
        self.base_cap = self.cap;
        self.base = Point::default();
    }

    /// Transfers that may be active, as far as this resource is concerned.
    pub(crate) fn cap(&self) -> u32 {
        self.cap
    }

    /// True if a cap other than the learned one is being tried, or none was learned yet.
    pub(crate) fn tries(&self) -> bool {
        self.young || self.phase != Phase::Cruise
    }

    /// More transfers did harm when they were tried last.
    pub(crate) fn suffers(&self) -> bool {
        self.harmful > 0
    }

    /// The learned cap, outside of trials. `None` before anything was learned.
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
        let seconds = now.min(window.to).since(self.seen.max(window.from)).as_secs_f64();
        window.active_seconds += seconds * f64::from(self.active);
        if self.active >= self.cap.min(self.limit) {
            window.full_seconds += seconds;
        }
        self.seen = self.seen.max(now);
    }

    /// Takes a sample of a transfer; `usual` is the usual throughput, in bytes per second, or 1 if rates are in bytes.
    /// True if the cap changed.
    pub(crate) fn sample(&mut self, now: Timestamp, sample: &Sample, usual: f64) -> bool {
        let seconds = sample.seconds;
        if self.span <= 0.0 {
            // The number of active transfers before the first sample is unknown.
            self.span = seconds;
            self.open(now, now);
        }
        // Samples come as far apart as the slowest reports; the rest of a transfer after its last report is shorter.
        self.span += (seconds - self.span) / if seconds > self.span { 4.0 } else { 64.0 };
        let window = &mut self.window;
        let begin = Timestamp(now.0.saturating_sub((seconds * 1e9) as u64)).max(window.from);
        let part = now.min(window.to).since(begin).as_secs_f64();
        if part > 0.0 {
            window.bytes += sample.weight * sample.bytes * part / seconds;
            window.expected += sample.weight * usual * part;
            window.voices += sample.weight;
            window.samples += 1;
        }
        let enough = f64::from(self.active / 8).clamp(VOICES.0, VOICES.1);
        if now < window.known {
            return false;
        }
        self.elapse(now);
        if self.window.voices < enough || self.window.samples < SAMPLES {
            // Too few were heard of, perhaps because there was little to do, or one only, which may have had luck: once
            // more, and longer.
            self.stretch = (self.stretch + 1).min(STRETCH_MAX);
            self.open(now, now);
            return false;
        }
        self.stretch = 0;
        self.close(now)
    }

    /// An attempt failed because there was too much going on. True if the cap changed.
    pub(crate) fn congested(&mut self, now: Timestamp) -> bool {
        self.window.losses += 1;
        let window = &self.window;
        let many = window.losses >= 3 && f64::from(window.losses) * 10.0 > f64::from(window.losses) + window.voices;
        if !many || now < window.from {
            return false;
        }
        let before = self.cap;
        self.young = false;
        self.base = Point::default();
        self.base_cap = (self.active.min(self.cap) * 7 / 10).max(LEAST.min(self.cap));
        self.cruise(now, self.base_cap);
        self.cap != before
    }

    /// A lane waits for this resource alone. A larger cap is tried at once if larger caps have paid lately, because
    /// another resource on the way lets more through, or if the lane has a claim (`owed`). True if the cap changed.
    pub(crate) fn ask_for_more(&mut self, now: Timestamp, owed: bool) -> bool {
        let before = self.cap;
        let known = self.base.rate > 0.0 && self.phase == Phase::Cruise;
        let young = self.young && 2.0 * self.base.active >= f64::from(self.cap);
        if known && self.active >= self.cap && (self.wish == TrialReason::Eager || young || owed) {
            if owed {
                self.wish = TrialReason::Owed;
            }
            self.grow(now);
        }
        self.cap != before
    }

    /// One link alone passes here: adopts the cap of that link's optimiser, which measures the same better. At most
    /// doubles once in a window, for that measurement may be old. True if the cap changed.
    pub(crate) fn follow(&mut self, now: Timestamp, cap: u32) -> bool {
        let cap = cap.min(self.limit).min(self.cap.saturating_mul(2));
        if cap <= self.cap || self.base.rate <= 0.0 {
            return false;
        }
        self.base = Point::default();
        self.cruise(now, cap);
        true
    }

    /// A broken resource works again: earlier measurements are outdated.
    pub(crate) fn begin_again(&mut self, now: Timestamp) {
        self.base = Point::default();
        self.phase = Phase::Startup;
        self.young = true;
        self.change(now, self.cap.clamp(LEAST, LINK_START));
    }

    /// Judges a window, and opens the next.
    fn close(&mut self, now: Timestamp) -> bool {
        let window = self.window;
        let measured = window.to.since(window.from).as_secs_f64().max(1e-3);
        let active = window.active_seconds / measured;
        let seen = Point {
            active,
            rate: active * window.bytes / window.expected.max(1e-9),
        };
        let full = window.full_seconds > 0.5 * measured;
        self.best = (seen.rate / active.max(1e-9)).max(self.best * (1.0 - 1.0 / FADING));
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
        if !first && !full && seen.active < 1.08 * self.base.active {
            // The larger cap is not used yet, for want of transfers or of slots elsewhere: it does no harm, and is
            // judged once it is used.
            self.base = seen;
            return;
        }
        let enough = match (self.phase, self.wish) {
            (_, TrialReason::Owed) => ANY,
            (Phase::Startup, _) => STEEP,
            _ => self.price(WORTHWHILE),
        };
        if first || gain(self.base, seen) >= enough {
            if gain(self.base, seen) < 0.5 {
                self.streak = 0;
            }
            self.base = seen;
            self.base_cap = self.cap;
            self.harmful = 0;
            if full {
                self.grow(now);
            } else {
                // Something else keeps them so few. When it no longer does, there is no reason to wait.
                self.cruise(now, self.cap);
                if !first {
                    self.wish = TrialReason::Eager;
                }
            }
            return;
        }
        let cap = match self.phase {
            Phase::Startup => past_the_knee(self.base, seen),
            _ => self.base_cap,
        };
        self.base.active = self.base.active.max(1.0);
        let harm = gain(self.base, seen) < HARM;
        self.harmful = if harm { self.harmful + 1 } else { 0 };
        self.ups = if harm { 0 } else { self.ups };
        self.mature();
        self.cruise(now, cap);
    }

    /// Minimum marginal throughput of one more transfer, as a fraction of an uncontended one.
    ///
    /// The measure is the uncontended throughput, not the average in a crowd. On a shared path more transfers always
    /// gain, by taking from others. Measured by the average, ever more would seem worth it to every service, and the
    /// service that grows last would have most.
    fn price(&self, part: f64) -> f64 {
        let each = self.base.rate / self.base.active.max(1e-9);
        match self.measure {
            Measure::Bytes => part * (self.best / each.max(1e-9)).clamp(1.0, 1.0 / part),
            Measure::Usual => part,
        }
    }

    /// Fewer were allowed: did that cost anything?
    fn judge_less(&mut self, now: Timestamp, seen: Point) {
        let draining = self.is_draining(seen);
        let same = 1.0 - self.price(1.0 - SAME);
        if seen.rate < if draining { FALLEN } else { same } * self.base.rate {
            self.ups = 2 << self.costly.min(DOUBLINGS);
            self.costly += 1;
            self.costly_at = self.base_cap;
            let in_full = gain(seen, self.base) >= STEEP;
            self.cruise(now, self.base_cap);
            if in_full {
                // Each transfer less cost all that it brought: so one more may bring as much.
                (self.rest, self.wish) = (1, TrialReason::Eager);
            }
            return;
        }
        if draining {
            if seen.rate > RISEN * self.base.rate {
                self.base = seen;
            }
            return;
        }
        self.base = seen;
        self.base_cap = self.cap;
        self.costly = 0;
        self.shrink(now);
    }

    /// Nothing is being tried: is everything as it was?
    fn watch(&mut self, now: Timestamp, seen: Point, full: bool) {
        if self.is_draining(seen) {
            return;
        }
        let same = (seen.active - self.base.active).abs() < 0.1 * self.base.active;
        let change = seen.rate / self.base.rate.max(1e-9);
        if !same {
            let more = seen.active > self.base.active && self.base.rate > 0.0;
            let paid = more && gain(self.base, seen) >= self.price(WORTHWHILE);
            self.wish = if paid { TrialReason::Eager } else { TrialReason::None };
            self.base = seen;
            self.rest = self.rest.saturating_sub(1);
            if full && (self.wish == TrialReason::Eager || self.young) {
                self.grow(now);
            }
            return;
        }
        let strayed = !(FALLEN..RISEN).contains(&change);
        let moved = strayed && self.strayed;
        self.strayed = strayed && !moved;
        if moved {
            self.base = seen;
            (self.harmful, self.costly) = (0, 0);
        } else if !strayed {
            self.base.rate += (seen.rate - self.base.rate) / 4.0;
            self.base.active += (seen.active - self.base.active) / 4.0;
        }
        self.rest = self.rest.saturating_sub(1);
        if full && (self.wish == TrialReason::Eager || self.young) {
            return self.grow(now);
        }
        if !full || (self.rest > 0 && !moved) {
            return;
        }
        let near = u64::from(self.cap) * 10 <= u64::from(self.costly_at) * 11;
        let more = if moved {
            change > 1.0
        } else {
            self.ups > 0 && (near || self.costly == 0)
        };
        self.ups = self.ups.saturating_sub(1);
        if more {
            self.grow(now);
        } else {
            self.shrink(now);
        }
    }

    /// More are active than the cap allows: those of before have not ended, and the window says nothing about the cap.
    fn is_draining(&self, seen: Point) -> bool {
        seen.active > 1.05 * f64::from(self.cap)
    }

    fn grow(&mut self, now: Timestamp) {
        let factor = match self.streak {
            _ if self.wish == TrialReason::Owed || self.young => 2.0,
            0 => 1.25,
            _ => 1.6,
        };
        self.streak += 1;
        self.base_cap = self.cap;
        let cap = ((f64::from(self.cap) * factor).ceil() as u32).min(self.limit);
        if cap <= self.cap {
            // The limit is reached: beyond it there is nothing to learn.
            self.mature();
            return self.cruise(now, self.cap);
        }
        self.phase = if self.young { Phase::Startup } else { Phase::Up };
        self.change(now, cap);
    }

    /// A knee was found. From now on the usual throughput is updated again, and with it the unit of rates.
    fn mature(&mut self) {
        if std::mem::take(&mut self.young) && self.measure == Measure::Usual {
            self.base = Point::default();
        }
    }

    fn shrink(&mut self, now: Timestamp) {
        self.base_cap = self.cap;
        let cap = ((f64::from(self.cap.min(self.limit)) * 0.85).floor() as u32).max(1);
        if cap == self.cap {
            self.ups = 1 << DOUBLINGS;
            return self.cruise(now, self.cap);
        }
        self.phase = Phase::Down;
        self.change(now, cap);
    }

    fn cruise(&mut self, now: Timestamp, cap: u32) {
        self.phase = Phase::Cruise;
        self.streak = 0;
        (self.strayed, self.wish) = (false, TrialReason::None);
        self.salt = self.salt.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        self.rest = (REST << self.harmful.min(DOUBLINGS)) + (self.salt >> 16) % REST;
        self.base_cap = cap;
        if cap == self.cap {
            self.open(now, now);
        } else {
            self.change(now, cap);
        }
    }

    /// Sets another cap, and gives transfers a little time to follow.
    fn change(&mut self, now: Timestamp, cap: u32) {
        self.cap = cap.max(1);
        let settle = Duration::from_secs_f64((0.3 * self.span).clamp(1.0, LONGEST));
        self.open(now, now + settle);
    }

    fn open(&mut self, now: Timestamp, from: Timestamp) {
        let span = Duration::from_secs_f64(self.span.clamp(0.0, LONGEST));
        let to = from + WINDOW_MIN.max(span) * (1 << self.stretch);
        self.window = Window {
            from,
            to,
            known: to + span,
            ..Window::default()
        };
        self.seen = now;
    }
}

/// The fraction of the possible gain of more transfers that was achieved. Below zero if they did harm.
fn gain(base: Point, seen: Point) -> f64 {
    let (possible, real) = (
        seen.active / base.active.max(1e-9) - 1.0,
        seen.rate / base.rate.max(1e-9) - 1.0,
    );
    if possible > 0.0 { real / possible } else { 0.0 }
}

/// A cap a tenth beyond the knee, which lies where the line through the origin and the point before it meets the plateau.
fn past_the_knee(before: Point, beyond: Point) -> u32 {
    let (fewer, more) = (before.active.min(beyond.active), before.active.max(beyond.active));
    let knee = (before.active * beyond.rate / before.rate.max(1e-9)).clamp(fewer, more);
    (1.1 * knee).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The means of two windows at one cap differ by a rounding error, in either direction.
    #[test]
    fn the_knee_of_two_equal_points_is_there() {
        let point = |active| Point { active, rate: 1e9 };
        let (more, less) = (point(200.000_000_000_000_34), point(199.999_999_999_999_57));
        for cap in [past_the_knee(more, less), past_the_knee(less, more)] {
            assert!((220..=221).contains(&cap), "{cap}");
        }
    }
}
