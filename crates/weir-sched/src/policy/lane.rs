//! Links, and their lanes: the part of a link that belongs to one VO.

use std::collections::VecDeque;
use std::time::Duration;

use weir_units::{BitRate, Bytes, Timestamp};

use super::LEVELS;
use super::gate::Key;
use super::queue::Queues;
use super::sample::Sample;
use super::usual::Usual;
use super::wait_clock::WaitClock;
use crate::settings::{SHARE, Settings};
use crate::stats::Counts;
use crate::{Decision, Link, VoId};

/// Decisions kept per link.
const DECISIONS_KEPT: usize = 8;
/// Number of samples over which the figures of a link are averaged: half of the running transfers, within these bounds.
const RECENT: (f64, f64) = (2.0, 16.0);
/// A link that had nothing to do catches up with so much of its target.
const TARGET_BURST: Duration = Duration::from_secs(60);

/// A target rate, as a clock: it shows the time at which the bytes started so far were due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    rate: BitRate,
    pub(crate) due: Timestamp,
}

impl Target {
    pub(crate) fn new(rate: BitRate, now: Timestamp) -> Self {
        Self { rate, due: now }
    }

    pub(crate) fn rate(&self) -> BitRate {
        self.rate
    }

    pub(crate) fn start(&mut self, now: Timestamp, size: Bytes) {
        let from = self.due.0.max(now.0.saturating_sub(TARGET_BURST.as_nanos() as u64));
        self.due = Timestamp(from) + self.rate.time_for(size).unwrap_or(Duration::MAX);
    }

    /// An attempt that was counted with `size` moved `moved`.
    pub(crate) fn correct(&mut self, size: Bytes, moved: Bytes) {
        let time = |volume| self.rate.time_for(volume).unwrap_or_default().as_nanos() as u64;
        self.due = Timestamp(self.due.0.saturating_sub(time(size)).saturating_add(time(moved)));
    }
}

/// One link.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub(crate) link: Link,
    pub(crate) weight: u32,
    pub(crate) target: Option<Target>,
    /// Shares of its VOs that have something queued, in all.
    pub(crate) shares: f64,
    pub(crate) counts: Counts,
    pub(crate) decisions: VecDeque<Decision>,
    /// Bytes and slot seconds of recent samples, start-up and failures included.
    recent: (f64, f64),
    /// The same without start-ups, as far as reports tell them apart.
    moving: (f64, f64),
    /// When a transfer last reported its progress.
    pub(crate) reported: Option<Timestamp>,
    /// Part of recent attempts that failed for reasons of the path or the storage.
    pub(crate) failing: f64,
    pub(crate) lanes: Vec<u32>,
    /// The gate of the link itself.
    pub(crate) gate: u32,
}

impl LinkState {
    pub(crate) fn new(link: Link, gate: u32, settings: &Settings, now: Timestamp) -> Self {
        let mut state = Self {
            link,
            weight: SHARE,
            target: None,
            shares: 0.0,
            counts: Counts::default(),
            decisions: VecDeque::new(),
            recent: (0.0, 0.0),
            moving: (0.0, 0.0),
            reported: None,
            failing: 0.0,
            lanes: Vec::new(),
            gate,
        };
        state.set(settings, now);
        state
    }

    pub(crate) fn set(&mut self, settings: &Settings, now: Timestamp) {
        self.weight = settings.weight(self.link);
        let rate = settings
            .targets
            .get(&self.link)
            .copied()
            .filter(|rate| *rate > BitRate(0));
        if rate != self.target.map(|target| target.rate()) {
            self.target = rate.map(|rate| Target::new(rate, now));
        }
    }

    /// Throughput of one transfer, in bytes per second of slot time; `None` if unknown.
    pub(crate) fn each(&self) -> Option<f64> {
        (self.recent.1 > 0.0).then(|| self.recent.0 / self.recent.1)
    }

    /// Estimated throughput of a transfer that has not reported yet, in bytes per second.
    pub(crate) fn moving(&self) -> f64 {
        if self.moving.1 > 0.0 {
            self.moving.0 / self.moving.1
        } else {
            self.each().unwrap_or(0.0)
        }
    }

    pub(crate) fn sample(&mut self, sample: &Sample) {
        // A report that stands for many others replaces their estimates all the sooner.
        let voices = self.counts.active as f64 / sample.weight.max(1.0);
        let keep = 1.0 - 1.0 / (voices / 2.0).clamp(RECENT.0, RECENT.1);
        let add = |to: (f64, f64)| (to.0 * keep + sample.bytes, to.1 * keep + sample.seconds);
        self.recent = add(self.recent);
        if sample.is_steady() && sample.weight > 0.0 {
            self.moving = add(self.moving);
        }
    }

    pub(crate) fn forget(&mut self) {
        (self.recent, self.moving, self.failing) = ((0.0, 0.0), (0.0, 0.0), 0.0);
    }

    pub(crate) fn ended(&mut self, failed: bool) {
        self.failing += (f64::from(u8::from(failed)) - self.failing) / RECENT.1;
    }

    /// Notes a decision. Waiting again for the same cause is not news.
    pub(crate) fn note(&mut self, decision: Decision) {
        let same = |last: &Decision| last.transfer == decision.transfer && last.verdict == decision.verdict;
        if self.decisions.back().is_some_and(same) {
            return;
        }
        if self.decisions.len() == DECISIONS_KEPT {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }
}

/// A gate on the way of a lane, with the lane's virtual times there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) gate: u32,
    pub(crate) tags: [u64; LEVELS],
    /// The lane's usual throughput at this gate.
    pub(crate) usual: Usual,
}

/// The transfers of one VO on one link: the unit that waits, and takes turns.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) link: u32,
    pub(crate) vo: VoId,
    pub(crate) share: f64,
    /// The hall, then every gate that its transfers need.
    pub(crate) passes: Vec<Pass>,
    pub(crate) queues: Queues,
    /// Transfers that hold slots.
    pub(crate) active: u32,
    /// Number of transfers that report their progress, and their throughput in bytes per second.
    pub(crate) reporting: (u32, f64),
    /// Estimated throughput of all its active transfers, in bytes per second.
    pub(crate) flow: f64,
    /// Where it waits, if it has something to do.
    pub(crate) place: Option<(u32, Key)>,
    /// Turns in a row that came to nothing because another gate was full.
    pub(crate) misses: u32,
    /// Until when it keeps a slot of its destination while it waits for another gate; none if it keeps none.
    pub(crate) reserved: Option<Timestamp>,
    /// It had its turn, could have started, and lined up behind other lanes instead.
    pub(crate) deferred: bool,
    /// The look at the clock that was asked for.
    pub(crate) alarm: Timestamp,
    /// Its account of waits.
    pub(super) clock: WaitClock,
}

impl Lane {
    /// Estimated throughput of all active transfers: the last reports of reporting ones, the link's average for the
    /// others.
    pub(crate) fn estimate(&self, each: f64) -> f64 {
        if self.active == 0 {
            return 0.0;
        }
        let silent = self.active.saturating_sub(self.reporting.0);
        self.reporting.1.max(0.0) + f64::from(silent) * each
    }

    /// A transfer reports another rate than before.
    pub(crate) fn report(&mut self, former: Option<f64>, rate: Option<f64>) {
        if let Some(former) = former {
            self.reporting = (self.reporting.0 - 1, self.reporting.1 - former);
        }
        if let Some(rate) = rate {
            self.reporting = (self.reporting.0 + 1, self.reporting.1 + rate);
        }
        if self.reporting.0 == 0 {
            self.reporting.1 = 0.0;
        }
    }

    /// The inbound gate of its destination.
    pub(crate) fn destination(&self) -> u32 {
        self.passes.iter().rev().nth(1).map_or(super::HALL, |pass| pass.gate)
    }

    /// The outbound gate of its source.
    pub(crate) fn source(&self) -> u32 {
        self.passes.last().map_or(super::HALL, |pass| pass.gate)
    }
}

/// A share as a weight: zero counts as a thousandth of the usual one.
pub(crate) fn weight(share: u32) -> f64 {
    if share == 0 {
        0.001
    } else {
        f64::from(share) / f64::from(SHARE)
    }
}
