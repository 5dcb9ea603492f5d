//! Turns one row per transfer into the figures of links, sites, workloads and the whole run.
//!
//! Rows may come in any order. The result does not depend on it, except that a sample is that of the failure that ended
//! first (the order of rows decides between equals).

mod announced;
mod series;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_units::BitRate;

use weir_world::ErrorClass;

use crate::evenness;
use crate::quantiles::Quantiles;
use crate::report::{
    Egress, ErrorCount, ErrorReport, LinkReport, Series, SiteReport, Times, Totals, WorkloadKind, WorkloadReport, ratio,
};
use crate::spec::{LinkSpec, Spec, WindowSpec, WorkloadSpec};
use crate::spread::{self, Bins, RecentBins};
use crate::steps::StepsAccounting;
use crate::transfer::{Failure, State, Transfer};

/// Width of bins at first, where they may become wider by whole numbers until the end.
const FINEST: Duration = Duration::from_secs(1);

/// Bins up to this width begin as [`FINEST`] ones; wider ones have their width from the plan.
const NARROW: Duration = Duration::from_secs(10);

/// Bins of a series that are kept at most until the end.
const BINS_KEPT: usize = 7_200;

/// Counters that links, sites and workloads have in common.
#[derive(Debug, Clone, Default)]
struct Counts {
    transfers: u64,
    finished: u64,
    failed: u64,
    cancelled: u64,
    /// Part of `cancelled`.
    unanswered: u64,
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
    late: Quantiles,
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
                party: first.party.map(|party| party.to_string()),
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
            self.late.add(nanos(row.late));
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
            State::Cancelled | State::Unanswered => {
                self.cancelled += 1;
                self.unanswered += u64::from(row.state == State::Unanswered);
                self.moved_failed += row.bytes_moved;
            }
        }
        if let (State::Failed, Some(failure)) = (row.state, &row.failure) {
            self.errors.add(failure, row.ended);
        }
    }

    fn lateness(&self) -> (Option<f64>, Option<f64>) {
        (self.late.quantile(95).map(seconds), self.late.max().map(seconds))
    }
}

/// How long transfers took and how fast they were.
#[derive(Debug, Clone)]
struct Timing {
    nanos: Quantiles,
    rates: Quantiles,
    first_bytes: Quantiles,
}

impl Timing {
    fn of(quantiles: fn() -> Quantiles) -> Self {
        Self {
            nanos: quantiles(),
            rates: quantiles(),
            first_bytes: quantiles(),
        }
    }

    /// Counts a transfer if it finished and its start is known.
    fn add(&mut self, row: &Transfer) {
        if row.state != State::Finished || row.started.is_none() {
            return;
        }
        let (start, end) = row.span();
        let took = end.saturating_sub(start);
        self.nanos.add(nanos(took));
        if let Some(rate) = spread::rate(row.size, took) {
            self.rates.add(rate.0);
        }
        if let Some(after) = row.first_byte {
            self.first_bytes.add(nanos(after));
        }
    }

    fn report(&self) -> Times {
        Times {
            transfer_s: self.nanos.percentiles(seconds),
            rate_bps: self.rates.percentiles(|rate| rate as f64),
            first_byte_s: self.first_bytes.percentiles(seconds),
        }
    }
}

/// Whether a transfer had not ended when the run was over: its end is that of its last attempt.
fn is_unfinished(row: &Transfer) -> bool {
    let class = row.failure.as_ref().map(|failure| failure.class);
    class == Some(ErrorClass::Unfinished)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// The bytes of each whole second within the hold, of links together.
fn seconds_of<'b>(windows: &WindowSpec, links: impl Iterator<Item = &'b Bins>) -> Vec<u64> {
    let width = evenness::BIN.as_nanos();
    let first = windows.ramp_end.as_nanos().div_ceil(width) as usize;
    let end = (windows.hold_end.as_nanos() / width) as usize;
    let mut seconds = vec![0; end.saturating_sub(first)];
    for bins in links {
        for (at, bytes) in seconds.iter_mut().enumerate() {
            *bytes += bins.sum_between(first + at, first + at + 1);
        }
    }
    seconds
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
    cells: Vec<StepsAccounting>,
    timing: Timing,
    link_timings: Vec<Timing>,
    /// Width of all bins until the end.
    width: Duration,
    link_bins: Vec<Bins>,
    injected_bins: Vec<Bins>,
    injected_files: Vec<Bins>,
    /// Bytes and files of every injection, where the run tells of it at once.
    announced: Option<(Vec<Bins>, Vec<Bins>)>,
    lost_bins: Vec<Bins>,
    recent: Vec<RecentBins>,
    /// Nanoseconds in which transfers were under way.
    active_bins: Bins,
    failed_bins: BTreeMap<usize, u64>,
    gauges: BTreeMap<usize, (u64, u64)>,
    parts: crate::stability::Parts,
}

/// Bytes of each second: in all, and into each site.
pub(crate) type Seconds = (Vec<u64>, BTreeMap<String, Vec<u64>>);

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
    /// Bytes of each second of the hold: in all, and into each site. `None` where no rate is asked, or the bins are wider.
    pub(crate) seconds: Option<Seconds>,
}

impl Accounting {
    /// Starts with nothing counted.
    pub fn new(mut spec: Spec) -> Self {
        let (links, sites) = (spec.links.len(), spec.sites.len());
        // The end of a run moves the width of its bins by seconds, as long as they are narrow.
        let width = if spec.bin > NARROW {
            spec.bin
        } else {
            FINEST.min(spec.bin)
        };
        let parts = if spec.is_open() {
            spec.windows.hold_end = Duration::MAX;
            crate::stability::Parts::open(sites, links)
        } else {
            crate::stability::Parts::new(&spec.windows, sites, links)
        };
        let cells = spec.workloads.iter();
        Self {
            cells: cells
                .map(|workload| StepsAccounting::new(workload.cells.iter().cloned()))
                .collect(),
            width,
            recent: vec![RecentBins::default(); links],
            links: vec![Counts::default(); links],
            ingress: vec![Counts::default(); sites],
            egress: vec![0; sites],
            workloads: vec![Counts::default(); spec.workloads.len()],
            total: Counts::default(),
            timing: Timing::of(Quantiles::default),
            link_timings: vec![Timing::of(Quantiles::small); links],
            link_bins: vec![Bins::new(width); links],
            injected_bins: vec![Bins::new(width); links],
            injected_files: vec![Bins::new(width); links],
            announced: None,
            lost_bins: vec![Bins::new(width); links],
            active_bins: Bins::new(width),
            failed_bins: BTreeMap::new(),
            gauges: BTreeMap::new(),
            parts,
            spec,
        }
    }

    /// Accounts for one transfer.
    pub fn add(&mut self, row: &Transfer) {
        self.make_room(row.ended);
        let windows = self.spec.windows;
        let link = &self.spec.links[row.link];
        if let Some(cell) = row.cell {
            self.cells[row.workload].add(cell, row);
        }
        let rated = self.counts_as_rate(row.workload);
        self.links[row.link].add(row, &windows, rated, false);
        self.ingress[link.destination_site].add(row, &windows, rated, false);
        let own = self.spec.workloads[row.workload].windows(&windows);
        self.workloads[row.workload].add(row, &own, rated, true);
        self.total.add(row, &windows, rated, true);
        self.timing.add(row);
        self.link_timings[row.link].add(row);
        if rated {
            self.injected_bins[row.link].add(row.size, row.injected, row.injected);
            self.injected_files[row.link].add(1, row.injected, row.injected);
            if row.state == State::Failed && !is_unfinished(row) {
                self.lost_bins[row.link].add(row.size, row.ended, row.ended);
            }
        }
        let (start, end) = row.span();
        self.active_bins.add(nanos(end.saturating_sub(start)), start, end);
        match row.state {
            State::Finished if rated => {
                self.egress[link.source_site] +=
                    spread::between(row.size, start, end, windows.ramp_end, windows.hold_end);
                self.link_bins[row.link].add(row.size, start, end);
                self.recent[row.link].add(row.size, start, end);
                self.parts.add(row.size, start, end, link.destination_site, row.link);
            }
            State::Failed => *self.failed_bins.entry(self.bin_of(row.ended)).or_default() += 1,
            State::Finished | State::Cancelled | State::Unanswered => {}
        }
    }

    /// True if a workload's bytes count towards achieved rates: if any rate is asked, only bytes moved for one count.
    /// Otherwise a burst beside them would make up for a link that does not keep its rate.
    fn counts_as_rate(&self, workload: usize) -> bool {
        self.spec.workloads[workload].asks_rates() || self.spec.is_open()
    }

    /// Records how many transfers are active and queued at a moment; the last value of a bin counts.
    pub fn gauge(&mut self, at: Duration, active: u64, queued: u64) {
        self.make_room(at);
        let bin = self.bin_of(at);
        self.gauges.insert(bin, (active, queued));
    }

    /// The description of the run, as far as it is known.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Injection ended at this moment: the ramp and the hold last no longer. Where no rate is asked, the hold ended now.
    pub fn close(&mut self, at: Duration) {
        let open = self.spec.is_open();
        let windows = &mut self.spec.windows;
        windows.ramp_end = windows.ramp_end.min(at);
        windows.hold_end = if open { at } else { windows.hold_end.min(at) };
        windows.drain_end = windows.drain_end.max(windows.hold_end);
        self.parts.close(&self.spec.windows);
    }

    /// The drain ended at this moment, not as planned: the series reach to there.
    pub fn drained(&mut self, at: Duration) {
        self.spec.windows.drain_end = at.max(self.spec.windows.hold_end);
    }

    /// Totals and failures of the rows added so far.
    pub(crate) fn so_far(&self) -> (Totals, Vec<ErrorReport>) {
        (self.totals(), self.error_reports())
    }

    /// Computes the figures; also returns the final description of the run.
    pub fn finish(mut self) -> (Figures, Spec) {
        let windows = self.spec.windows;
        let widths = windows.bin().as_nanos().div_ceil(self.width.as_nanos());
        self.spec.bin =
            self.width * u32::try_from(widths).expect("a run of hours is no billion seconds longer than planned");
        let figures = Figures {
            totals: self.totals(),
            links: self.link_reports(),
            sites: self.site_reports(),
            workloads: self.workload_reports(),
            errors: self.error_reports(),
            series: self.series(),
            seconds: self.seconds(),
            parts: self.parts,
        };
        (figures, self.spec)
    }

    fn seconds(&self) -> Option<Seconds> {
        let is_rated = self.spec.links.iter().any(|link| link.asked.is_some());
        if self.width != evenness::BIN || !is_rated {
            return None;
        }
        let windows = &self.spec.windows;
        let into = |site: usize| {
            let links = self.spec.links.iter().zip(&self.link_bins);
            let own = links
                .filter(move |(link, _)| link.destination_site == site)
                .map(|(_, bins)| bins);
            seconds_of(windows, own)
        };
        let sites = self.spec.sites.iter().enumerate();
        let sites = sites.map(|(at, name)| (name.clone(), into(at)));
        Some((seconds_of(windows, self.link_bins.iter()), sites.collect()))
    }

    /// Makes all bins wider until a moment has a place in them: a run that lasts longer than planned keeps its memory.
    fn make_room(&mut self, at: Duration) {
        while self.bin_of(at) >= BINS_KEPT {
            self.width *= 2;
            for bins in [
                &mut self.link_bins,
                &mut self.injected_bins,
                &mut self.injected_files,
                &mut self.lost_bins,
            ] {
                bins.iter_mut().for_each(Bins::double);
            }
            if let Some((bytes, files)) = &mut self.announced {
                bytes.iter_mut().chain(files).for_each(Bins::double);
            }
            self.active_bins.double();
            let (failed, gauges) = (std::mem::take(&mut self.failed_bins), std::mem::take(&mut self.gauges));
            for (bin, count) in failed {
                *self.failed_bins.entry(bin / 2).or_default() += count;
            }
            self.gauges
                .extend(gauges.into_iter().map(|(bin, gauge)| (bin / 2, gauge)));
        }
    }

    fn bin_of(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.width.as_nanos()).expect("a bin number fits a usize")
    }

    /// Rate over the hold window; none if there was no such window.
    fn achieved(&self, hold_bytes: u64) -> Option<BitRate> {
        spread::rate(hold_bytes, self.spec.windows.hold())
    }

    /// The same beside an ask: none either where others are asked for a rate, and this one is not.
    fn achieved_of(&self, asked: Option<BitRate>, hold_bytes: u64) -> Option<BitRate> {
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
            asked_bytes: asked.unwrap_or_default().bytes_in(windows.hold()).0 + planned,
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
            unanswered: counts.unanswered,
            efficiency: ratio(counts.finished, counts.finished + counts.failed),
            retries: counts.retries,
            deleted_files: 0,
            lateness_p95_s,
            lateness_max_s,
            times: self.timing.report(),
        }
    }

    fn link_reports(&self) -> Vec<LinkReport> {
        let sites = &self.spec.sites;
        let report = |((spec, counts), timing): ((&LinkSpec, &Counts), &Timing)| LinkReport {
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
            times: timing.report(),
        };
        let links = self.spec.links.iter().zip(&self.links);
        links.zip(&self.link_timings).map(report).collect()
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
        let report = |((spec, counts), cells): ((&WorkloadSpec, &Counts), &StepsAccounting)| {
            let mut kind = spec.kind.clone();
            cells.fill(&mut kind);
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
        let workloads = self.spec.workloads.iter().zip(&self.workloads);
        workloads.zip(&self.cells).map(report).collect()
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
fn share(achieved: Option<BitRate>, asked: Option<BitRate>) -> Option<f64> {
    ratio(achieved?.0, asked?.0)
}

/// Sum of the values that exist; `None` if there is none.
fn sum(values: impl Iterator<Item = Option<BitRate>>) -> Option<BitRate> {
    values.flatten().reduce(|total, value| total + value)
}
