//! The injections and needs of a plan, before anything is started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use weir_model::{RseKind, RseName};
use weir_units::{BitRate, Bytes};

use crate::inject::backlog_files;
use crate::phases::Phases;
use crate::plan::{Plan, RatesPlan, StepsPlan, Workload};
use crate::spec::Inject;
use crate::threshold::{Comparison, Metric, Subject, Threshold};

/// Time that a transfer is taken to need beside moving its bytes, in the estimate of concurrency.
const OVERHEAD: Duration = Duration::from_secs(1);

/// Rate at which a transfer is taken to move its bytes, in the estimate of concurrency.
const STREAM: BitRate = BitRate(400_000_000);

/// The injections and needs of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSummary {
    /// The workloads, in the order of the plan.
    pub workloads: Vec<WorkloadSummary>,
    /// The rate asked of all links together, as the mean over the hold: the asked rate of a report.
    pub asked: BitRate,
    /// Transfers in all, in ramp, hold and steps.
    pub transfers: u64,
    /// Bytes moved in all, likewise.
    pub volume: Bytes,
    /// Longest time of ramp, hold and drain; steps may take longer.
    #[serde(with = "weir_units::duration")]
    pub duration: Duration,
    /// Files that sources must hold before the run begins.
    pub source_files: u64,
    /// Their volume.
    pub source_volume: Bytes,
    /// The RSEs that take part, in the order of the grid.
    pub rses: Vec<RseNeed>,
    /// Space needed on this machine at most: of all embedded RSEs.
    pub space: Bytes,
    /// Transfers that begin in a second of the hold.
    pub starts_per_second: f64,
    /// Transfers at once, if each takes 1 s and the time for its bytes at 400 Mb/s.
    pub active_estimate: u64,
    /// Transfers at once when every backlog is full, within the grid's limits.
    pub active_max: u64,
    /// Notes to read before a run; may be empty.
    pub notes: Vec<String>,
}

/// The injections of one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadSummary {
    /// The workload's name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its links.
    pub links: u64,
    /// The rate asked in its own hold; zero for steps.
    pub asked: BitRate,
    /// Steps; zero for rates.
    pub steps: u64,
    /// Transfers in all.
    pub transfers: u64,
    /// Bytes moved in all.
    pub volume: Bytes,
    /// Smallest file.
    pub file_size_min: Bytes,
    /// Largest file.
    pub file_size_max: Bytes,
}

/// The needs of one RSE.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RseNeed {
    /// The RSE.
    pub rse: RseName,
    /// Rate asked into it.
    pub ingress: BitRate,
    /// Rate asked out of it.
    pub egress: BitRate,
    /// Space for the files that it is the source of.
    pub sources: Bytes,
    /// Largest space of arriving files: the files of one lifetime, and full backlogs.
    pub arriving: Bytes,
    /// The space that it may use; `None` if Weir does not manage the storage.
    pub quota: Option<Bytes>,
    /// Whether both fit; true where the quota is unknown.
    pub fits: bool,
}

impl RseNeed {
    /// Gives the space needed in all.
    pub fn space(&self) -> Bytes {
        self.sources + self.arriving
    }
}

impl Plan {
    /// Sums up the injections and needs of the plan.
    pub fn summary(&self) -> PlanSummary {
        of(self)
    }
}

fn of(plan: &Plan) -> PlanSummary {
    let workloads: Vec<_> = plan.workloads.iter().map(workload_summary).collect();
    let sources = plan.source_files();
    let rses = rse_needs(plan);
    let embedded = |need: &&RseNeed| need.quota.is_some();
    let (starts_per_second, active_estimate) = estimate(plan);
    let mut summary = PlanSummary {
        asked: asked(plan),
        transfers: workloads
            .iter()
            .fold(0, |sum, workload| sum.saturating_add(workload.transfers)),
        volume: workloads.iter().map(|workload| workload.volume).sum(),
        duration: plan.phases.ramp + plan.phases.hold + plan.phases.drain,
        source_files: sources.len() as u64,
        source_volume: sources.iter().map(|file| file.size).sum(),
        space: rses.iter().filter(embedded).map(RseNeed::space).sum(),
        starts_per_second,
        active_estimate,
        active_max: active_max(plan),
        notes: Vec::new(),
        workloads,
        rses,
    };
    summary.notes = notes(plan, &summary);
    summary
}

/// The mean asked rate over the hold. A workload with a time of its own counts for that time alone.
fn asked(plan: &Plan) -> BitRate {
    let of = |rates: &RatesPlan| -> BitRate {
        let links = rates.links.iter();
        links.map(|rated| rates.mean_rate(rated.rate, &plan.phases)).sum()
    };
    plan.rates().map(|(_, rates)| of(rates)).sum()
}

/// Bytes asked of a rate in ramp and hold: the ramp is half as full until three quarters of it have passed.
fn volume_of(phases: &Phases, rate: BitRate) -> Bytes {
    rate.bytes_in(phases.end().saturating_sub(phases.full() / 2))
}

fn workload_summary(workload: &Workload) -> WorkloadSummary {
    let links = workload.links().len() as u64;
    let (name, kind) = (workload.name().to_owned(), workload.kind());
    let mut summary = WorkloadSummary {
        name,
        kind,
        links,
        asked: BitRate::ZERO,
        steps: 0,
        transfers: 0,
        volume: Bytes::ZERO,
        file_size_min: Bytes(u64::MAX),
        file_size_max: Bytes::ZERO,
    };
    let mut add = |size: Bytes, transfers: u64, volume: Bytes| {
        summary.transfers = summary.transfers.saturating_add(transfers);
        summary.volume += volume;
        summary.file_size_min = summary.file_size_min.min(size);
        summary.file_size_max = summary.file_size_max.max(size);
    };
    match workload {
        Workload::Rates(rates) => {
            for rated in &rates.links {
                let volume = volume_of(&rates.phases, rated.rate);
                add(rated.file_size, volume.0.div_ceil(rated.file_size.0), volume);
            }
            summary.asked = rates.links.iter().map(|rated| rated.rate).sum();
        }
        Workload::Matrix(steps) | Workload::Ramp(steps) => {
            for cell in steps.steps.iter().flat_map(|step| &step.cells) {
                add(cell.size, cell.transfers.into(), cell.size * u64::from(cell.transfers));
            }
            summary.steps = steps.steps.len() as u64;
        }
    }
    summary
}

fn rse_needs(plan: &Plan) -> Vec<RseNeed> {
    let mut sources: BTreeMap<RseName, Bytes> = BTreeMap::new();
    for file in plan.source_files() {
        *sources.entry(file.rse).or_default() += file.size;
    }
    let mut arriving: BTreeMap<RseName, Bytes> = BTreeMap::new();
    for workload in &plan.workloads {
        let needs = match workload {
            Workload::Rates(rates) => arriving_of_rates(rates),
            Workload::Matrix(steps) | Workload::Ramp(steps) => arriving_of_steps(steps),
        };
        for (rse, need) in needs {
            *arriving.entry(rse).or_default() += need;
        }
    }
    let links: Vec<_> = plan.rates().flat_map(|(_, rates)| &rates.links).collect();
    let asked = |is_end: &dyn Fn(&weir_model::Link) -> bool| -> BitRate {
        links
            .iter()
            .filter(|rated| is_end(&rated.link))
            .map(|rated| rated.rate)
            .sum()
    };
    let mut needs = Vec::new();
    for rse in &plan.grid.rses {
        let quota = match rse.kind {
            RseKind::Embedded { quota, .. } => Some(quota),
            RseKind::External { .. } => None,
        };
        let mut need = RseNeed {
            rse: rse.name.clone(),
            ingress: asked(&|link| link.destination == rse.name),
            egress: asked(&|link| link.source == rse.name),
            sources: sources.get(&rse.name).copied().unwrap_or_default(),
            arriving: arriving.get(&rse.name).copied().unwrap_or_default(),
            quota,
            fits: true,
        };
        need.fits = quota.is_none_or(|quota| need.space() <= quota);
        if need.space() > Bytes::ZERO {
            needs.push(need);
        }
    }
    needs
}

/// Largest space of files that live at once: the arrivals of one lifetime and one cycle (the delay until its end is noticed), and full
/// backlogs.
fn arriving_of_rates(rates: &RatesPlan) -> BTreeMap<RseName, Bytes> {
    let mut needs: BTreeMap<RseName, Bytes> = BTreeMap::new();
    let until_deleted = match rates.inject {
        Inject::Rules => rates.deletion,
        Inject::Transfers => 2 * rates.cycle,
    };
    let lives = (rates.lifetime + until_deleted).min(rates.phases.end());
    for rated in &rates.links {
        let backlog = rated.file_size * backlog_files(rated.rate, rated.file_size, rates.cycle);
        let need = (rated.rate.bytes_in(lives) + backlog).min(volume_of(&rates.phases, rated.rate) + rated.file_size);
        *needs.entry(rated.link.destination.clone()).or_default() += need;
    }
    needs
}

/// Files of a step are deleted when it ends, so the largest step counts.
fn arriving_of_steps(steps: &StepsPlan) -> BTreeMap<RseName, Bytes> {
    let mut needs: BTreeMap<RseName, Bytes> = BTreeMap::new();
    for step in &steps.steps {
        let mut brought: BTreeMap<&RseName, Bytes> = BTreeMap::new();
        for cell in &step.cells {
            *brought.entry(&cell.link.destination).or_default() += cell.size * u64::from(cell.transfers);
        }
        for (rse, volume) in brought {
            let need = needs.entry(rse.clone()).or_default();
            *need = volume.max(*need);
        }
    }
    needs
}

fn largest_step(steps: &StepsPlan) -> u64 {
    steps
        .steps
        .iter()
        .map(|step| step.cells.iter().map(|cell| u64::from(cell.parallel)).sum())
        .max()
        .unwrap_or(0)
}

/// Starts per second, and by Little's law transfers at once.
fn estimate(plan: &Plan) -> (f64, u64) {
    let (mut starts, mut active, mut steps) = (0.0, 0.0, 0);
    for workload in &plan.workloads {
        match workload {
            Workload::Rates(rates) => {
                for rated in &rates.links {
                    let per_second = rated.rate.as_f64() / 8.0 / rated.file_size.as_f64();
                    let duration = OVERHEAD + STREAM.time_for(rated.file_size).unwrap_or_default();
                    starts += per_second;
                    active += per_second * duration.as_secs_f64();
                }
            }
            Workload::Matrix(plan) | Workload::Ramp(plan) => steps = steps.max(largest_step(plan)),
        }
    }
    (starts, active.ceil() as u64 + steps)
}

fn active_max(plan: &Plan) -> u64 {
    let limits = &plan.grid.transfer;
    let mut into: BTreeMap<&RseName, u64> = BTreeMap::new();
    let mut steps = 0;
    for workload in &plan.workloads {
        match workload {
            Workload::Rates(rates) => {
                for rated in &rates.links {
                    let backlog = backlog_files(rated.rate, rated.file_size, rates.cycle);
                    *into.entry(&rated.link.destination).or_default() += backlog.min(limits.max_active_per_link.into());
                }
            }
            Workload::Matrix(plan) | Workload::Ramp(plan) => steps = steps.max(largest_step(plan)),
        }
    }
    into.values()
        .map(|active| (*active).min(limits.max_active_per_rse_in.into()))
        .sum::<u64>()
        + steps
}

/// Thresholds on variation that the schedule alone does not keep.
fn uneven(plan: &Plan) -> Vec<String> {
    let is_one =
        |threshold: &&Threshold| threshold.metric == Metric::Variation && threshold.comparison == Comparison::AtMost;
    let mut asked = plan.thresholds.iter().filter(is_one).peekable();
    if asked.peek().is_none() {
        return Vec::new();
    }
    let possible = plan.variation();
    let note = |threshold: &Threshold| {
        let possible = match &threshold.subject {
            Subject::Site(site) => possible.sites.get(site).copied(),
            _ => possible.total,
        };
        let possible = possible.filter(|possible| *possible > threshold.asked)?;
        let (subject, asked) = (&threshold.subject, threshold.asked);
        Some(format!(
            "{subject} is to vary by {asked} at most, and files of this size at this rate vary by {possible:.2} as they are injected: choose \
             smaller files (file_size_max, files_min)"
        ))
    };
    asked.filter_map(note).take(NAMED_MAX).collect()
}

/// RSEs that notes name one by one.
const NAMED_MAX: usize = 5;

fn notes(plan: &Plan, summary: &PlanSummary) -> Vec<String> {
    let mut notes = Vec::new();
    let full = if plan.makes_rules() {
        "transfers of rules will fail for want of space"
    } else {
        "injection will wait for space"
    };
    let too_small: Vec<_> = summary.rses.iter().filter(|need| !need.fits).collect();
    for need in too_small.iter().take(NAMED_MAX) {
        let (rse, space, quota) = (&need.rse, need.space(), need.quota.unwrap_or_default());
        notes.push(format!("{rse} needs {space:.1} and may hold {quota:.1}: {full}"));
    }
    if let Some(others) = too_small.len().checked_sub(NAMED_MAX).filter(|others| *others > 0) {
        notes.push(format!("so it is with {others} more RSEs, which the plan lists"));
    }
    let destinations: BTreeSet<_> = plan
        .workloads
        .iter()
        .flat_map(Workload::links)
        .map(|link| &link.destination)
        .collect();
    for rse in &plan.grid.rses {
        if matches!(rse.kind, RseKind::Embedded { read_only: true, .. }) && destinations.contains(&rse.name) {
            notes.push(format!("{} is read-only: every transfer into it will fail", rse.name));
        }
    }
    let coarse = |n_files: u64| n_files < 10;
    let few: Vec<_> = plan
        .rates()
        .flat_map(|(_, rates)| &rates.links)
        .filter(|rated| coarse(rated.n_files))
        .collect();
    if let Some(rated) = few.iter().min_by_key(|rated| rated.n_files) {
        let (link, n_files) = (&rated.link, rated.n_files);
        notes.push(format!(
            "fewer than 10 files pass in the hold on {} links ({link}: {n_files}), so their figures are coarse: raise scale or \
             duration",
            few.len()
        ));
    }
    notes.extend(uneven(plan));
    let limit = plan.grid.transfer.max_active_per_link;
    for workload in &plan.workloads {
        if let Workload::Ramp(steps) = workload
            && largest_step(steps) > limit.into()
        {
            let name = &steps.name;
            let parallel = largest_step(steps);
            notes.push(format!(
                "{name} asks for {parallel} parallel transfers, the grid allows {limit} on a link"
            ));
        }
    }
    if plan.thresholds.is_empty() {
        notes.push("there is no threshold: the run ends without a verdict".to_owned());
    }
    notes
}
