//! Gates: the slots of one resource, how many of them may be taken, and the lanes that wait for them.

use std::collections::BTreeSet;

use weir_units::{BitRate, Bytes, Timestamp};

use super::breaker::Breaker;
use super::governor::{Governor, LINK_START, Measure, SHARED_START};
use super::pace::Pace;
use super::sample::Sample;
use super::usual::Usual;
use super::{AS_FAST, GUESS, LEVELS, Levels, SLOWEST};
use crate::settings::{Mode, Settings};
use crate::{Cause, Resource};

/// A lane that is slower than this part of the fastest is not taken to hold its slots any longer.
const HOPELESS: f64 = 0.01;
/// Starts over which the memory of a fast lane fades.
const FADING: f64 = 256.0;

/// The order in which lanes wait: by level, then lanes with a claim (deadline, target), then by virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) level: u8,
    pub(crate) rank: Rank,
    pub(crate) tag: u64,
    pub(crate) lane: u32,
}

/// The order within a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A deadline presses: the earliest first.
    Deadline,
    /// Behind its target rate: by shares, so that targets that cannot all be met do not drag each other down.
    Owed,
    /// By shares.
    Share,
}

/// The slots of one resource.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) resource: Resource,
    /// The operator's limit.
    pub(crate) limit: u32,
    mode: Mode,
    /// Slots that may be active now, and the limit that sets this number.
    pub(crate) allowed: u32,
    pub(crate) cause: Cause,
    /// Slots taken: by transfers, and by lanes that keep one while they wait for another.
    pub(crate) held: u32,
    /// Slots that are reserved for waiting lanes.
    pub(crate) kept: u32,
    /// Lanes that pass here and keep a slot of their destination.
    pub(crate) keepers: u32,
    pub(crate) waiting: BTreeSet<Key>,
    /// Levels at which this gate stands in the rotation.
    pub(crate) in_rotation: Levels,
    /// Virtual time of each level: the tag of the lane that was served last.
    pub(crate) times: [u64; LEVELS],
    /// Throughput of one transfer of its fastest lane, in bytes per second; fades.
    pub(crate) best: f64,
    /// All lanes that pass here.
    pub(crate) lanes: Vec<u32>,
    pub(crate) governor: Governor,
    pub(crate) breaker: Breaker,
    pub(crate) pace: Option<Pace>,
    /// Estimated throughput here, in bytes per second.
    flow: f64,
    /// Throughput of one transfer when some were last active.
    usual: f64,
    /// The look at the clock that was asked for.
    pub(crate) alarm: Timestamp,
    /// The cap that was recorded last.
    pub(crate) recorded: u32,
}

impl Gate {
    pub(crate) fn new(resource: Resource, salt: u32) -> Self {
        let (start, measure, failures) = match resource {
            Resource::Link(_) => (LINK_START, Measure::Bytes, 10),
            Resource::Inbound(_) | Resource::Outbound(_) => (SHARED_START, Measure::Usual, 30),
            Resource::VoInbound(..)
            | Resource::VoOutbound(..)
            | Resource::Staging(_)
            | Resource::VoStaging(..)
            | Resource::Group(_) => (SHARED_START, Measure::Usual, 0),
        };
        Self {
            resource,
            limit: u32::MAX,
            mode: Mode::Off,
            allowed: u32::MAX,
            cause: Cause::Limit,
            held: 0,
            kept: 0,
            keepers: 0,
            waiting: BTreeSet::new(),
            in_rotation: 0,
            times: [0; LEVELS],
            best: 0.0,
            lanes: Vec::new(),
            governor: Governor::new(start, measure, salt),
            breaker: Breaker::new(failures),
            pace: None,
            flow: 0.0,
            usual: 0.0,
            alarm: Timestamp(u64::MAX),
            recorded: 0,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.held < self.allowed
    }

    /// Nothing may start here now: an operator bans it, its bandwidth is spent, or it is paused.
    pub(crate) fn is_shut(&self) -> bool {
        self.allowed == 0
    }

    /// Slots that lanes keep here, or keep elsewhere to pass here, are of no use to them now.
    pub(crate) fn recalls_slots(&self) -> bool {
        self.keepers > 0 && self.is_shut() || self.kept > 0 && self.held > self.allowed
    }

    /// A transfer may start here at this time, or a look at the clock is overdue that may find so. [`Gate::has_room`] says it as
    /// of the last step.
    pub(crate) fn lets_pass(&self, now: Timestamp) -> bool {
        let pause_is_over = matches!(self.cause, Cause::Faults { until, .. } if until <= now);
        self.has_room() || self.alarm <= now || pause_is_over && self.held == 0
    }

    /// True if an operator has closed the gate: forced transfers wait too.
    pub(crate) fn is_closed(&self) -> bool {
        let no_rate = self.pace.is_some_and(|pace| pace.limit() == BitRate(0));
        self.limit == 0 || self.mode == Mode::Fixed(0) || no_rate
    }

    /// Tells whether a lane waits here that is at least as urgent.
    pub(crate) fn is_awaited(&self, level: usize) -> bool {
        self.waiting.first().is_some_and(|key| usize::from(key.level) <= level)
    }

    pub(crate) fn set(&mut self, settings: &Settings, now: Timestamp) {
        self.limit = settings.slots(self.resource);
        self.mode = settings.mode(self.resource);
        self.governor.set_limit(self.limit);
        let rate = settings.rate(self.resource);
        if rate != self.pace.map(|pace| pace.limit()) {
            self.pace = rate.map(|rate| Pace::new(rate, now));
        }
        self.update(now);
    }

    /// Throughput of one transfer here, in bytes per second; zero if unknown.
    pub(crate) fn each(&self) -> f64 {
        self.usual
    }

    /// Throughput of all active transfers.
    pub(crate) fn rate(&self) -> BitRate {
        BitRate((8.0 * self.flow) as u64)
    }

    /// So many bytes per second more move here.
    pub(crate) fn flows(&mut self, now: Timestamp, more: f64) {
        self.elapse(now);
        self.flow = (self.flow + more).max(0.0);
        let active = self.held - self.kept;
        if active > 0 && self.flow > 0.0 {
            self.usual = self.flow / f64::from(active);
        }
    }

    /// Takes a sample of a transfer; `surprise` is the difference in bytes from its estimate.
    pub(crate) fn sample(&mut self, now: Timestamp, sample: &Sample, surprise: f64, active: u32, usual: &mut Usual) {
        if let Some(pace) = &mut self.pace {
            pace.correct(surprise);
        }
        let changed = sample.is_steady() && {
            let usual = match self.resource {
                Resource::Link(_) => 1.0,
                _ => usual.expect(sample, active, self.governor.tries()),
            };
            self.governor.sample(now, sample, usual)
        };
        if changed || self.pace.is_some() {
            self.update(now);
        }
    }

    /// One more is active, or one less.
    pub(crate) fn hold(&mut self, now: Timestamp, held: u32) {
        self.elapse(now);
        self.held = held;
        self.governor.set_active(now, held);
        if self.pace.is_some() || self.breaker.is_open() {
            self.update(now);
        }
    }

    fn elapse(&mut self, now: Timestamp) {
        if let Some(pace) = &mut self.pace {
            pace.elapse(now, self.flow);
        }
    }

    /// The optimiser's cap, if it decides here.
    pub(crate) fn worth_running(&self) -> Option<u32> {
        (self.mode == Mode::Auto).then(|| self.governor.cap())
    }

    /// Updates the number of slots that may be active: the least of operator's limit, optimiser, bandwidth limit and
    /// breaker.
    pub(crate) fn update(&mut self, now: Timestamp) {
        self.elapse(now);
        let optimiser = match self.mode {
            Mode::Auto => self.governor.cap(),
            Mode::Off => u32::MAX,
            Mode::Fixed(slots) => slots,
        };
        let pace = self.pace.map_or(u32::MAX, |pace| pace.allowed(self.each()));
        let faults = match self.mode {
            Mode::Off => u32::MAX,
            Mode::Auto | Mode::Fixed(_) => self.breaker.allowed(now),
        };
        let causes = [
            (self.limit, Cause::Limit),
            (optimiser, Cause::Optimiser),
            (
                pace,
                Cause::Bandwidth {
                    limit: self.pace.map(|pace| pace.limit()).unwrap_or_default(),
                },
            ),
            (
                faults,
                Cause::Faults {
                    class: self.breaker.class,
                    until: self.breaker.until,
                },
            ),
        ];
        (self.allowed, self.cause) = causes
            .into_iter()
            .min_by_key(|(allowed, _)| *allowed)
            .expect("four causes");
    }

    /// The cost of a transfer here, in virtual nanoseconds: its slot time, by weight and by the relative speed of its
    /// lane.
    pub(crate) fn cost(&mut self, size: Bytes, each: Option<f64>, weight: f64) -> u64 {
        self.best = each.unwrap_or(0.0).max(self.best * (1.0 - 1.0 / FADING));
        let each = each.unwrap_or(GUESS.max(self.best));
        let speed = if self.slots_are_scarce() {
            (AS_FAST * each / self.best.max(1.0)).clamp(SLOWEST, 1.0)
        } else {
            1.0
        };
        nanos(slot_seconds(size, each.max(HOPELESS * self.best)) / (weight * speed))
    }

    /// True if slots are the scarce resource, so that it matters which lane holds them. Elsewhere bytes are scarce:
    /// slow lanes are slow because others use the bandwidth, and fewer slots would only slow them further.
    fn slots_are_scarce(&self) -> bool {
        match self.cause {
            Cause::Limit | Cause::Faults { .. } => true,
            Cause::Optimiser => self.governor.suffers(),
            Cause::Bandwidth { .. } => false,
        }
    }

    /// Reports a lane held back here. `owed` if it has a claim; `allows` if its link alone passes here: then as many as
    /// the link's gate allows.
    pub(crate) fn ask_for_more(&mut self, now: Timestamp, owed: bool, allows: Option<u32>) {
        if self.cause != Cause::Optimiser {
            return;
        }
        let changed = match allows {
            Some(cap) => self.governor.follow(now, cap),
            None => self.governor.ask_for_more(now, owed),
        };
        if changed {
            self.update(now);
        }
    }

    /// When time alone may give room here.
    ///
    /// The end of a pause is awaited even if no lane waits: lanes that come later rely on [`Gate::allowed`] being up to date.
    pub(crate) fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        if self.breaker.is_open() && now < self.breaker.until {
            return Some(self.breaker.until);
        }
        if self.waiting.is_empty() {
            return None;
        }
        let pace = self
            .pace
            .filter(|_| !self.has_room() && matches!(self.cause, Cause::Bandwidth { .. }))?;
        (pace.limit() > BitRate(0)).then(|| pace.even_at(now, self.flow))
    }
}

/// How long a transfer will hold its slots: a second for everything around it, and its bytes.
pub(crate) fn slot_seconds(size: Bytes, each: f64) -> f64 {
    1.0 + size.as_f64() / each.max(1.0)
}

/// Seconds as virtual nanoseconds, at most eleven days.
pub(crate) fn nanos(seconds: f64) -> u64 {
    (seconds.clamp(0.0, 1e6) * 1e9) as u64
}
