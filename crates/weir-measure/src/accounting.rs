//! Turns one row per transfer into the figures of links, sites, workloads and the whole run.
//!
//! Rows may come in any order; the result does not depend on it, except that a sample is that of the failure that ended
//! first (the order of rows decides between equals).

mod series;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_world::{ErrorClass, Party, Phase};

use crate::lateness::Lateness;
use crate::report::{
    Egress, ErrorCount, ErrorReport, LinkReport, Series, SiteReport, Totals, WorkloadKind, WorkloadReport, ratio,
};
use crate::spec::{LinkSpec, Spec, WindowSpec, WorkloadSpec};
use crate::spread::{self, Bins};

/// One transfer, all attempts included. Times count from the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Index into [`Spec::workloads`].
    pub workload: usize,
    /// Index into [`Spec::links`].
    pub link: usize,
    /// Size of the file.
    pub size: u64,
    /// How it ended.
    pub state: State,
    /// Copy mode of the attempt that finished, where known.
    pub mode: Option<String>,
    /// How much later than wanted it was submitted.
    pub late: Duration,
    /// Start of the attempt that ended it; `None` when none started.
    pub started: Option<Duration>,
    /// End of that attempt, or the moment of failure.
    pub ended: Duration,
    /// Bytes moved by the attempt that ended it.
    pub bytes_moved: u64,
    /// Attempts beyond the first.
    pub retries: u32,
    /// What went wrong, unless it finished.
    pub failure: Option<Failure>,
}

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Delivered, size and checksum verified.
    Finished,
    /// Given up.
    Failed,
    /// Withdrawn by the run itself.
    Cancelled,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of error.
    pub class: ErrorClass,
    /// Text, secrets removed.
    pub message: String,
    /// Party at fault, where known.
    pub party: Option<Party>,
    /// Phase of the transfer, where known.
    pub phase: Option<Phase>,
    /// What helps, where known.
    pub remedy: Option<String>,
}

/// Counters that links, sites and workloads have in common.
#[derive(Debug, Clone, Default)]
struct Counts {
    transfers: u64,
    finished: u64,
    failed: u64,
    cancelled: u64,
    injected: u64,
    verified: u64,
    hold: u64,
    /// Part of `hold` that counts towards asked rates.
    hold_rated: u64,
    ramp: u64,
    moved_failed: u64,
    retries: u64,
    modes: BTreeMap<String, u64>,
    errors: Errors,
    late: Lateness,
}

/// Failures by class; the value is count, end of the first, and the first.
#[derive(Debug, Clone, Default)]
struct Errors(BTreeMap<ErrorClass, (u64, Duration, Failure)>);

impl Errors {
    fn add(&mut self, failure: &Failure, at: Duration) {
        let entry = self.0.entry(failure.class).or_insert_with(|| (0, at, failure.clone()));
        entry.0 += 1;
        if at < entry.1 {
            entry.1 = at;
            entry.2 = failure.clone();
        }
    }

    /// Most frequent first, then by name.
    fn sorted(&self) -> Vec<(ErrorClass, &(u64, Duration, Failure))> {
        let mut list: Vec<_> = self.0.iter().map(|(class, entry)| (*class, entry)).collect();
        list.sort_by_key(|(class, entry)| (std::cmp::Reverse(entry.0), class.as_str()));
        list
    }

    fn counts(&self) -> Vec<ErrorCount> {
        self.sorted()
            .into_iter()
            .map(|(class, (count, _, first))| ErrorCount {
                class: class.to_string(),
                count: *count,
                sample: first.message.clone(),
            })
            .collect()
    }
}

impl Counts {
    fn add(&mut self, row: &Transfer, windows: &WindowSpec, rated: bool, with_lateness: bool) {
        self.transfers += 1;
        self.injected += row.size;
        self.retries += u64::from(row.retries);
        if with_lateness {
            self.late.add(row.late);
        }
        match row.state {
            State::Finished => {
                self.finished += 1;
                self.verified += row.size;
                let (start, end) = row.span();
                self.ramp += spread::until(row.size, start, end, windows.ramp_end);
                let held = spread::between(row.size, start, end, windows.ramp_end, windows.hold_end);
                self.hold += held;
                self.hold_rated += if rated { held } else { 0 };
                if let Some(mode) = &row.mode {
                    *self.modes.entry(mode.clone()).or_default() += 1;
                }
            }
            State::Failed => {
                self.failed += 1;
                self.moved_failed += row.bytes_moved;
            }
            State::Cancelled => {
                self.cancelled += 1;
                self.moved_failed += row.bytes_moved;
            }
        }
        if let (State::Failed, Some(failure)) = (row.state, &row.failure) {
            self.errors.add(failure, row.ended);
        }
    }

    fn lateness(&self) -> (Option<f64>, Option<f64>) {
        let seconds = |time: Duration| time.as_secs_f64();
        (self.late.quantile(95).map(seconds), self.late.max().map(seconds))
    }
}

impl Transfer {
    /// Returns start and end of the attempt that ended it; a point in time where no start is known.
    fn span(&self) -> (Duration, Duration) {
        (self.started.unwrap_or(self.ended).min(self.ended), self.ended)
    }
}

/// Accounts for a run, row by row.
#[derive(Debug, Clone)]
pub struct Accounting {
    spec: Spec,
    links: Vec<Counts>,
    ingress: Vec<Counts>,
    egress: Vec<u64>,
    workloads: Vec<Counts>,
    total: Counts,
    link_bins: Vec<Bins>,
    failed_bins: BTreeMap<usize, u64>,
    gauges: BTreeMap<usize, (u64, u64)>,
    parts: crate::stability::Parts,
}

/// The figures of a run.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Whole run; `deleted_files` is left at zero for the caller.
    pub totals: Totals,
    /// Links in the order of the specification.
    pub links: Vec<LinkReport>,
    /// Sites in the order of the specification.
    pub sites: Vec<SiteReport>,
    /// Workloads in the order of the specification.
    pub workloads: Vec<WorkloadReport>,
    /// Failures by class, most frequent first.
    pub errors: Vec<ErrorReport>,
    /// Time series.
    pub series: Series,
    /// Bytes per part of the hold window.
    pub parts: crate::stability::Parts,
}

impl Accounting {
    /// Starts with nothing counted.
    pub fn new(spec: Spec) -> Self {
        let (links, sites) = (spec.links.len(), spec.sites.len());
        Self {
            links: vec![Counts::default(); links],
            ingress: vec![Counts::default(); sites],
            egress: vec![0; sites],
            workloads: vec![Counts::default(); spec.workloads.len()],
            total: Counts::default(),
            link_bins: vec![Bins::new(spec.bin); links],
            failed_bins: BTreeMap::new(),
            gauges: BTreeMap::new(),
            parts: crate::stability::Parts::new(&spec.windows, sites, links),
            spec,
        }
    }

    /// Accounts for one transfer.
    pub fn add(&mut self, row: &Transfer) {
        let windows = self.spec.windows;
        let link = &self.spec.links[row.link];
        let rated = self.counts_as_rate(row.workload);
        self.links[row.link].add(row, &windows, rated, false);
        self.ingress[link.destination_site].add(row, &windows, rated, false);
        let own = self.spec.workloads[row.workload].windows(&windows);
        self.workloads[row.workload].add(row, &own, rated, true);
        self.total.add(row, &windows, rated, true);
        let (start, end) = row.span();
        match row.state {
            State::Finished if rated => {
                self.egress[link.source_site] +=
                    spread::between(row.size, start, end, windows.ramp_end, windows.hold_end);
                self.link_bins[row.link].add(row.size, start, end);
                self.parts.add(row.size, start, end, link.destination_site, row.link);
            }
            State::Failed => *self.failed_bins.entry(self.bin_of(row.ended)).or_default() += 1,
            State::Finished | State::Cancelled => {}
        }
    }

    /// Whether a workload's bytes count towards achieved rates: where rates are asked, only what is moved for them does.
    /// Otherwise a burst beside them would make up for a link that does not keep its rate.
    fn counts_as_rate(&self, workload: usize) -> bool {
        let asks = |workload: &WorkloadSpec| matches!(workload.kind, WorkloadKind::Rates { .. });
        asks(&self.spec.workloads[workload]) || !self.spec.workloads.iter().any(asks)
    }

    /// Records how many transfers are active and queued at a moment; the last value of a bin counts.
    pub fn gauge(&mut self, at: Duration, active: u64, queued: u64) {
        let bin = self.bin_of(at);
        self.gauges.insert(bin, (active, queued));
    }

    /// The drain ended at this moment, not as planned: the series reach to there.
    pub fn drained(&mut self, at: Duration) {
        self.spec.windows.drain_end = at.max(self.spec.windows.hold_end);
    }

    /// Computes the figures.
    pub fn finish(self) -> Figures {
        Figures {
            totals: self.totals(),
            links: self.link_reports(),
            sites: self.site_reports(),
            workloads: self.workload_reports(),
            errors: self.error_reports(),
            series: self.series(),
            parts: self.parts,
        }
    }

    fn bin_of(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.spec.bin.as_nanos()).expect("a bin number fits a usize")
    }

    /// Rate over the hold window; none if there was no such window.
    fn achieved(&self, hold_bytes: u64) -> Option<u64> {
        spread::rate(hold_bytes, self.spec.windows.hold())
    }

    /// The same beside an ask: none either where others are asked for a rate, and this one is not.
    fn achieved_of(&self, asked: Option<u64>, hold_bytes: u64) -> Option<u64> {
        let elsewhere = asked.is_none() && self.spec.links.iter().any(|link| link.asked.is_some());
        self.achieved(hold_bytes).filter(|_| !elsewhere)
    }

    fn totals(&self) -> Totals {
        let windows = &self.spec.windows;
        let counts = &self.total;
        let asked = sum(self.spec.links.iter().map(|link| link.asked));
        let (lateness_p95_s, lateness_max_s) = counts.lateness();
        let planned: u64 = self.spec.workloads.iter().map(|workload| workload.planned_bytes).sum();
        Totals {
            asked_bps: asked,
            achieved_bps: self.achieved(counts.hold_rated),
            ratio: share(self.achieved(counts.hold_rated), asked),
            asked_bytes: bytes_in(asked.unwrap_or(0), windows.hold()) + planned,
            injected_bytes: counts.injected,
            verified_bytes: counts.verified,
            hold_verified_bytes: counts.hold,
            ramp_verified_bytes: counts.ramp,
            drain_verified_bytes: counts.verified - counts.hold - counts.ramp,
            moved_bytes_failed: counts.moved_failed,
            transfers: counts.transfers,
            finished: counts.finished,
            failed: counts.failed,
            cancelled: counts.cancelled,
            efficiency: ratio(counts.finished, counts.finished + counts.failed),
            retries: counts.retries,
            deleted_files: 0,
            lateness_p95_s,
            lateness_max_s,
        }
    }

    fn link_reports(&self) -> Vec<LinkReport> {
        let sites = &self.spec.sites;
        let report = |(spec, counts): (&LinkSpec, &Counts)| LinkReport {
            source: spec.source.clone(),
            destination: spec.destination.clone(),
            source_site: sites[spec.source_site].clone(),
            destination_site: sites[spec.destination_site].clone(),
            asked_bps: spec.asked,
            achieved_bps: self.achieved_of(spec.asked, counts.hold_rated),
            ratio: share(self.achieved(counts.hold_rated), spec.asked),
            file_bytes: spec.file_bytes,
            transfers: counts.transfers,
            finished: counts.finished,
            failed: counts.failed,
            cancelled: counts.cancelled,
            injected_bytes: counts.injected,
            verified_bytes: counts.verified,
            hold_verified_bytes: counts.hold,
            errors: counts.errors.counts(),
            modes: counts.modes.clone(),
        };
        self.spec.links.iter().zip(&self.links).map(report).collect()
    }

    fn site_reports(&self) -> Vec<SiteReport> {
        let asked_of = |site: usize, end: fn(&LinkSpec) -> usize| {
            sum(self
                .spec
                .links
                .iter()
                .filter(|link| end(link) == site)
                .map(|link| link.asked))
        };
        let report = |(site, name): (usize, &String)| {
            let counts = &self.ingress[site];
            let asked = asked_of(site, |link| link.destination_site);
            let asked_out = asked_of(site, |link| link.source_site);
            let out = self.achieved_of(asked_out, self.egress[site]);
            SiteReport {
                site: name.clone(),
                asked_bps: asked,
                achieved_bps: self.achieved_of(asked, counts.hold_rated),
                ratio: share(self.achieved(counts.hold_rated), asked),
                transfers: counts.transfers,
                finished: counts.finished,
                failed: counts.failed,
                cancelled: counts.cancelled,
                verified_bytes: counts.verified,
                hold_verified_bytes: counts.hold,
                errors: counts.errors.counts(),
                egress: Egress {
                    asked_bps: asked_out,
                    achieved_bps: out,
                    ratio: share(out, asked_out),
                },
            }
        };
        self.spec.sites.iter().enumerate().map(report).collect()
    }

    fn workload_reports(&self) -> Vec<WorkloadReport> {
        let report = |(spec, counts): (&WorkloadSpec, &Counts)| {
            let mut kind = spec.kind.clone();
            if let WorkloadKind::Rates {
                asked_bps,
                achieved_bps,
                ratio: achieved_ratio,
                lateness_p95_s,
                lateness_max_s,
            } = &mut kind
            {
                let hold = spec.windows(&self.spec.windows).hold();
                *achieved_bps = spread::rate(counts.hold, hold);
                *achieved_ratio = share(*achieved_bps, Some(*asked_bps));
                (*lateness_p95_s, *lateness_max_s) = counts.lateness();
            }
            WorkloadReport {
                name: spec.name.clone(),
                transfers: counts.transfers,
                finished: counts.finished,
                failed: counts.failed,
                cancelled: counts.cancelled,
                injected_bytes: counts.injected,
                verified_bytes: counts.verified,
                kind,
            }
        };
        self.spec.workloads.iter().zip(&self.workloads).map(report).collect()
    }

    fn error_reports(&self) -> Vec<ErrorReport> {
        let report = |(class, (count, at, first)): (ErrorClass, &(u64, Duration, Failure))| ErrorReport {
            class: class.to_string(),
            count: *count,
            first_seen_s: at.as_secs_f64(),
            sample: first.message.clone(),
            party: first.party.map(|party| party.to_string()),
            remedy: first.remedy.clone(),
        };
        self.total.errors.sorted().into_iter().map(report).collect()
    }
}

/// Achieved ÷ asked, where both are known.
fn share(achieved: Option<u64>, asked: Option<u64>) -> Option<f64> {
    ratio(achieved?, asked?)
}

/// Adds what is there; `None` when nothing is.
fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values
        .flatten()
        .fold(None, |total, value| Some(total.unwrap_or(0) + value))
}

/// Returns the whole bytes that a rate in bit/s brings in a time.
fn bytes_in(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate) * time.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX)
}
