//! The figures of a moment in a run that goes on.

use std::collections::VecDeque;
use std::time::Duration;

use crate::report::{ErrorReport, Totals};
use crate::spec::Spec;
use crate::spread;

/// Over this time bytes that were delivered are shown as a rate. Files end in bursts of a cycle; ten of them show a rate.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Which part of a run a moment lies in.
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

/// How it stands with what has not ended.
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
    /// Which part of the run it is.
    pub phase: RunPhase,
    /// Time until that part ends, where known.
    pub phase_left: Option<Duration>,
    /// Time until the drain ends at the latest, where known.
    pub left: Option<Duration>,
    /// Rate in bit/s that is asked for now.
    pub asked_bps: Option<u64>,
    /// Bytes delivered in the last [`RATE_WINDOW`], as a rate in bit/s.
    pub achieved_bps: u64,
    /// The same of what comes into each site, in the order of [`Spec::sites`].
    pub sites: Vec<SiteNow>,
    /// How it stands with what has not ended.
    pub standing: Standing,
    /// Figures of what has ended so far.
    pub totals: Totals,
    /// Failures so far by class, most frequent first.
    pub errors: Vec<ErrorReport>,
}

/// What comes into a site at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteNow {
    /// Rate in bit/s that is asked for now.
    pub asked_bps: Option<u64>,
    /// Bytes delivered in the last [`RATE_WINDOW`], as a rate in bit/s.
    pub achieved_bps: u64,
}

/// What a snapshot is made of.
pub(crate) struct Moment<'a> {
    pub(crate) now: Duration,
    pub(crate) spec: &'a Spec,
    /// When injection ended or will, once that is known.
    pub(crate) closed: Option<Duration>,
    pub(crate) drain: Duration,
    pub(crate) standing: Standing,
    /// End, site and size of what was delivered last.
    pub(crate) delivered: &'a VecDeque<(Duration, usize, u64)>,
}

pub(crate) fn of(moment: &Moment<'_>, totals: Totals, errors: Vec<ErrorReport>) -> Snapshot {
    let (spec, now) = (moment.spec, moment.now);
    let from = now.saturating_sub(RATE_WINDOW);
    let window = now.min(RATE_WINDOW).max(Duration::from_millis(500));
    let mut bytes = vec![0; spec.sites.len()];
    for (_, site, size) in moment.delivered.iter().filter(|(at, _, _)| *at >= from) {
        bytes[*site] += size;
    }
    let rate = |bytes: u64| spread::rate(bytes, window).unwrap_or(0);
    let site = |(site, bytes): (usize, &u64)| SiteNow {
        asked_bps: moment.asked(site),
        achieved_bps: rate(*bytes),
    };
    let sites: Vec<SiteNow> = bytes.iter().enumerate().map(site).collect();
    let (phase, phase_left, left) = moment.phase();
    Snapshot {
        elapsed: now,
        phase,
        phase_left,
        left,
        asked_bps: sites
            .iter()
            .filter_map(|site| site.asked_bps)
            .reduce(|sum, rate| sum + rate),
        achieved_bps: rate(bytes.iter().sum()),
        sites,
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

    /// What is asked of the links into a site now, if anything ever is.
    fn asked(&self, site: usize) -> Option<u64> {
        let into = self.spec.links.iter().filter(|link| link.destination_site == site);
        let asked = into.flat_map(|link| &link.curves).map(|curve| curve.at(self.now));
        let sum = asked.reduce(|sum, rate| sum + rate)?;
        Some(if self.over().is_some() { 0 } else { sum })
    }

    /// The phase, what is left of it, and what is left in all at most.
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
