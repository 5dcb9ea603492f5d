//! The figures of a moment in a run that goes on.

use std::collections::VecDeque;
use std::time::Duration;

use weir_units::BitRate;

use crate::report::{ErrorReport, Totals};
use crate::spec::{LinkSpec, Spec};
use crate::spread;

/// Over this time bytes that were delivered are shown as a rate. Files end in bursts of a cycle; ten of them show a rate.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Moments of the window at which the asked rate is read: it rises in lines, half a second apart.
const SAMPLES: u32 = 20;

/// The phase of a run at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPhase {
    /// Rates rise.
    Ramp,
    /// Rates are held.
    Hold,
    /// Nothing is injected any more.
    Drain,
    /// Steps go on, for as long as they take.
    Run,
}

impl RunPhase {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ramp => "ramp",
            Self::Hold => "hold",
            Self::Drain => "drain",
            Self::Run => "run",
        }
    }
}

/// Numbers of transfers that have not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Transfers under way.
    pub active: u64,
    /// Transfers submitted and waiting.
    pub queued: u64,
    /// Sizes of all transfers that were submitted, in bytes.
    pub injected_bytes: u64,
}

/// The figures of a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Time since the start.
    pub elapsed: Duration,
    /// The phase of the run.
    pub phase: RunPhase,
    /// Time until that part ends, where known.
    pub phase_left: Option<Duration>,
    /// Time until the drain ends at the latest, where known.
    pub left: Option<Duration>,
    /// Mean asked rate over the last [`RATE_WINDOW`], in bit/s: the achieved rate is compared with it.
    pub asked_bps: Option<BitRate>,
    /// Bytes delivered in the last [`RATE_WINDOW`], as a rate in bit/s.
    pub achieved_bps: BitRate,
    /// Traffic into each site, in the order of [`Spec::sites`].
    pub sites: Vec<RateNow>,
    /// The same of each link, in the order of [`Spec::links`].
    pub links: Vec<RateNow>,
    /// Mean number of transfers under way in the last [`RATE_WINDOW`]: ended ones count for the time in which they were
    /// under way, the others as they are now.
    pub active_mean: f64,
    /// Numbers of transfers that have not ended.
    pub standing: Standing,
    /// Figures of the transfers that have ended so far.
    pub totals: Totals,
    /// Failures so far by class, most frequent first.
    pub errors: Vec<ErrorReport>,
}

/// Rate into a site, or over a link, at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateNow {
    /// Rate in bit/s that was asked for in the last [`RATE_WINDOW`], the mean.
    pub asked_bps: Option<BitRate>,
    /// Bytes delivered in the last [`RATE_WINDOW`], as a rate in bit/s.
    pub achieved_bps: BitRate,
}

/// A transfer that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) at: Duration,
    /// Start of its last attempt, or its end.
    pub(crate) started: Duration,
    pub(crate) link: usize,
    /// Bytes that it delivered.
    pub(crate) bytes: u64,
}

/// The inputs of a snapshot.
pub(crate) struct Moment<'a> {
    pub(crate) now: Duration,
    pub(crate) spec: &'a Spec,
    /// When injection ended or will, once that is known.
    pub(crate) closed: Option<Duration>,
    pub(crate) drain: Duration,
    pub(crate) standing: Standing,
    /// The transfers that ended in the last [`RATE_WINDOW`].
    pub(crate) ended: &'a VecDeque<Ended>,
}

pub(crate) fn of(moment: &Moment<'_>, totals: Totals, errors: Vec<ErrorReport>) -> Snapshot {
    let (spec, now) = (moment.spec, moment.now);
    let from = now.saturating_sub(RATE_WINDOW);
    let window = now.min(RATE_WINDOW).max(Duration::from_millis(500));
    let mut bytes = vec![0; spec.links.len()];
    let mut under_way = Duration::ZERO;
    for ended in moment.ended.iter().filter(|ended| ended.at >= from) {
        bytes[ended.link] += ended.bytes;
        under_way += ended.at.saturating_sub(ended.started.max(from));
    }
    let rate = |bytes: u64| spread::rate(bytes, window).unwrap_or_default();
    let asked: Vec<Option<BitRate>> = spec.links.iter().map(|link| moment.asked(link, (from, now))).collect();
    let link = |(asked, bytes): (&Option<BitRate>, &u64)| RateNow {
        asked_bps: *asked,
        achieved_bps: rate(*bytes),
    };
    let links: Vec<RateNow> = asked.iter().zip(&bytes).map(link).collect();
    let of = |pick: &dyn Fn(usize) -> bool| {
        let chosen = || (0..links.len()).filter(|link| pick(*link));
        RateNow {
            asked_bps: chosen().filter_map(|link| asked[link]).reduce(|sum, rate| sum + rate),
            achieved_bps: rate(chosen().map(|link| bytes[link]).sum()),
        }
    };
    let into = |site: usize| of(&|link| spec.links[link].destination_site == site);
    let sites: Vec<RateNow> = (0..spec.sites.len()).map(into).collect();
    let total = of(&|_| true);
    let (phase, phase_left, left) = moment.phase();
    Snapshot {
        elapsed: now,
        phase,
        phase_left,
        left,
        asked_bps: total.asked_bps,
        achieved_bps: total.achieved_bps,
        sites,
        links,
        active_mean: under_way.as_secs_f64() / window.as_secs_f64() + moment.standing.active as f64,
        standing: moment.standing,
        totals,
        errors,
    }
}

impl Moment<'_> {
    /// When injection ended, once it has.
    fn over(&self) -> Option<Duration> {
        self.closed.filter(|closed| *closed <= self.now)
    }

    /// The mean rate asked of a link between two moments, if a rate is ever asked of it.
    fn asked(&self, link: &LinkSpec, (from, to): (Duration, Duration)) -> Option<BitRate> {
        if link.curves.is_empty() {
            return None;
        }
        if self.over().is_some() {
            return Some(BitRate::ZERO);
        }
        let step = to.saturating_sub(from) / SAMPLES;
        let at = |sample: u32| from + step * sample + step / 2;
        let sum: u128 = (0..SAMPLES)
            .flat_map(|sample| link.curves.iter().map(move |curve| u128::from(curve.at(at(sample)).0)))
            .sum();
        let mean = u64::try_from(sum / u128::from(SAMPLES)).unwrap_or(u64::MAX);
        Some(BitRate(mean))
    }

    /// The phase, the time left of it, and the longest time left in all.
    fn phase(&self) -> (RunPhase, Option<Duration>, Option<Duration>) {
        let until = |end: Duration| end.saturating_sub(self.now);
        if let Some(closed) = self.over() {
            let left = until(closed + self.drain);
            return (RunPhase::Drain, Some(left), Some(left));
        }
        let has_steps = self.spec.workloads.iter().any(|workload| !workload.asks_rates());
        if has_steps {
            return (RunPhase::Run, None, None);
        }
        let windows = &self.spec.windows;
        let left = until(windows.hold_end + self.drain);
        if self.now < windows.ramp_end {
            (RunPhase::Ramp, Some(until(windows.ramp_end)), Some(left))
        } else {
            (RunPhase::Hold, Some(until(windows.hold_end)), Some(left))
        }
    }
}
