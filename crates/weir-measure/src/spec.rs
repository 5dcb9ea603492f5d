//! The description of a run before its first transfer, from its plan alone: names, asked rates, windows, bins.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_model::{Grid, Link, RseName};
use weir_plan::{Cell, Mode, Phases, Plan, RatesPlan, StepsPlan, Workload};
use weir_units::BitRate;

use crate::report::WorkloadKind;

/// Values of the signals of a run, at most about, if each link has as many series as [`SERIES_OF_A_LINK`].
const SIGNALS_MAX: u64 = 1_000_000;
/// See [`SIGNALS_MAX`]; measured in simulated runs: five to twelve.
const SERIES_OF_A_LINK: u64 = 10;
/// Bins of a series, at most about: short runs show seconds.
const BINS_MAX: u64 = 600;

/// The description of a run before its first row: names, asked rates, windows.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Sites in the order of the report.
    pub sites: Vec<String>,
    /// Links in the order of the report.
    pub links: Vec<LinkSpec>,
    /// Workloads in the order of the challenge.
    pub workloads: Vec<WorkloadSpec>,
    /// The windows.
    pub windows: WindowSpec,
    /// Width of the bins of the series, if the run goes as planned.
    pub bin: Duration,
}

/// A link with its asked rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Index of the source's site in [`Spec::sites`].
    pub source_site: usize,
    /// Index of the destination's site in [`Spec::sites`].
    pub destination_site: usize,
    /// Asked rate, where one is asked: the mean over the hold.
    pub asked: Option<BitRate>,
    /// When which rate is asked of it: one curve per workload that asks. Empty where none does.
    pub curves: Vec<AskedCurve>,
    /// Size of its files, where it is one.
    pub file_bytes: Option<u64>,
}

/// A rate that is asked for from one moment to another: it rises in a line from zero, then stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedCurve {
    /// The rate once it is full.
    pub rate: BitRate,
    /// When it begins to rise.
    pub from: Duration,
    /// When it is full; not before `from`.
    pub full: Duration,
    /// When it ends.
    pub until: Duration,
}

impl AskedCurve {
    /// Returns the rate asked for at a moment.
    pub fn at(&self, moment: Duration) -> BitRate {
        if moment < self.from || moment >= self.until {
            return BitRate::ZERO;
        }
        let (passed, rise) = (moment.saturating_sub(self.from), self.full.saturating_sub(self.from));
        if passed >= rise {
            return self.rate;
        }
        let share = u128::from(self.rate.0) * passed.as_nanos() / rise.as_nanos();
        BitRate(u64::try_from(share).expect("a share of a u64"))
    }

    /// Returns the bits asked for until a moment, rounded down.
    pub fn bits_until(&self, moment: Duration) -> u64 {
        const NANOS: f64 = 1e9;
        let passed = moment.min(self.until).saturating_sub(self.from);
        let rise = self.full.saturating_sub(self.from);
        // Seconds at the full rate that the rise amounts to.
        let risen = passed.min(rise).as_nanos() as f64;
        let rising = if rise.is_zero() {
            0.0
        } else {
            risen * risen / (2.0 * rise.as_nanos() as f64)
        };
        let full = passed.saturating_sub(rise).as_nanos() as f64;
        (self.rate.as_f64() * (rising + full) / NANOS) as u64
    }
}

/// A workload with its asked rates.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadSpec {
    /// Its name.
    pub name: String,
    /// Its kind, with cells or steps still empty; [`crate::Accounting::finish`] fills in the figures of `Rates`.
    pub kind: WorkloadKind,
    /// Bytes it plans to move, for kinds without a rate.
    pub planned_bytes: u64,
    /// Its cells, step by step, for kinds without a rate.
    pub cells: Vec<CellSpec>,
    /// When its own hold begins and ends, if that is not the run's; within the run's.
    pub hold: Option<(Duration, Duration)>,
}

/// The description of a cell before its first row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellSpec {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Copy mode that is forced; `None` where the service chooses.
    pub mode: Option<&'static str>,
    /// File size.
    pub size: u64,
    /// Transfers that are planned.
    pub transfers: u64,
    /// Transfers that are under way at once.
    pub parallel: u64,
}

impl WorkloadSpec {
    /// Whether it asks for rates.
    pub fn asks_rates(&self) -> bool {
        matches!(self.kind, WorkloadKind::Rates { .. })
    }

    /// The windows that count for this workload.
    pub(crate) fn windows(&self, run: &WindowSpec) -> WindowSpec {
        let (ramp_end, hold_end) = self.hold.unwrap_or((run.ramp_end, run.hold_end));
        WindowSpec {
            ramp_end,
            hold_end: hold_end.min(run.hold_end), // a run may be interrupted
            ..*run
        }
    }
}

/// Ends of the windows, from the start of the run; the ramp starts at zero and each follows the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSpec {
    /// End of the ramp, start of the hold.
    pub ramp_end: Duration,
    /// End of the hold, start of the drain.
    pub hold_end: Duration,
    /// End of the drain.
    pub drain_end: Duration,
}

impl WindowSpec {
    /// Returns the length of the hold window.
    pub fn hold(&self) -> Duration {
        self.hold_end.saturating_sub(self.ramp_end)
    }
}

impl LinkSpec {
    /// Returns the link's name, `A→B`.
    pub fn name(&self) -> String {
        format!("{}→{}", self.source, self.destination)
    }
}

impl WindowSpec {
    /// The windows as planned, the drain to its limit.
    pub fn planned(phases: &Phases) -> Self {
        Self {
            ramp_end: phases.ramp,
            hold_end: phases.end(),
            drain_end: phases.end() + phases.drain,
        }
    }

    /// Describes the position of a moment in ramp, hold or drain, in words that follow a verb: `3.2 s into the ramp of
    /// 10.0 s`. Windows are the planned ones; `drain` is the actual start of the drain, once it has begun.
    pub fn place(&self, moment: Duration, drain: Option<Duration>) -> String {
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let (name, from, length) = match drain {
            Some(began) => ("drain", began, self.drain_end.saturating_sub(self.hold_end)),
            None if moment < self.ramp_end => ("ramp", Duration::ZERO, self.ramp_end),
            None if self.hold().is_zero() => return format!("{} after its start", seconds(moment)),
            None => ("hold window", self.ramp_end, self.hold()),
        };
        let into = moment.saturating_sub(from);
        format!("{} into the {name} of {}", seconds(into), seconds(length))
    }

    /// The width of the bins in which a run with these windows is shown: whole seconds.
    pub fn bin(&self) -> Duration {
        let seconds = self.drain_end.as_secs() + 1;
        Duration::from_secs(seconds.div_ceil(BINS_MAX))
    }
}

impl Spec {
    /// Reads it off a plan. Links come in the order in which its workloads name them first.
    pub fn of(plan: &Plan) -> Self {
        let windows = WindowSpec::planned(&plan.phases);
        Self {
            sites: plan.grid.sites.iter().map(|site| site.name.to_string()).collect(),
            links: links(plan),
            workloads: plan
                .workloads
                .iter()
                .map(|workload| workload_of(workload, &plan.phases))
                .collect(),
            bin: windows.bin(),
            windows,
        }
    }

    /// The width of the bins of signals: that of the series, or twice it, four times, …, where there are many links.
    pub fn signal_bin(&self) -> Duration {
        let mut width = self.bin;
        let n_bins = |width: Duration| (self.windows.drain_end.as_nanos().div_ceil(width.as_nanos())) as u64;
        while n_bins(width) > 1 && n_bins(width) * self.links.len() as u64 * SERIES_OF_A_LINK > SIGNALS_MAX {
            width *= 2;
        }
        width
    }

    /// Whether the hold ends with the last step: no rate is asked.
    pub fn is_open(&self) -> bool {
        !self.workloads.iter().any(WorkloadSpec::asks_rates)
    }

    /// The number of a link; none if no workload names it.
    pub fn link(&self, link: &Link) -> Option<usize> {
        let is_it =
            |known: &LinkSpec| known.source == link.source.as_str() && known.destination == link.destination.as_str();
        self.links.iter().position(is_it)
    }

    /// The numbers of all links.
    pub fn numbers(&self) -> BTreeMap<(&str, &str), usize> {
        let links = self.links.iter().zip(0..);
        links
            .map(|(link, number)| ((link.source.as_str(), link.destination.as_str()), number))
            .collect()
    }
}

fn links(plan: &Plan) -> Vec<LinkSpec> {
    let mut known = Known::default();
    for workload in &plan.workloads {
        match workload {
            Workload::Rates(rates) => {
                for rated in &rates.links {
                    let link = known.link(&plan.grid, &rated.link, rated.file_size.0);
                    let asked = rates.mean_rate(rated.rate, &plan.phases);
                    link.asked = Some(link.asked.unwrap_or_default() + asked);
                    link.curves.push(AskedCurve::of(rates, rated.rate));
                }
            }
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                for cell in steps.steps.iter().flat_map(|step| &step.cells) {
                    known.link(&plan.grid, &cell.link, cell.size.0);
                }
            }
        }
    }
    let sizes = known.sizes.into_iter().map(Sizes::one);
    let with_size = known.links.into_iter().zip(sizes);
    with_size
        .map(|(link, file_bytes)| LinkSpec { file_bytes, ..link })
        .collect()
}

/// The links that were named so far.
#[derive(Default)]
struct Known<'p> {
    numbers: BTreeMap<&'p Link, usize>,
    links: Vec<LinkSpec>,
    /// Of the files on each.
    sizes: Vec<Sizes>,
}

impl<'p> Known<'p> {
    /// The link that is named with files of this size.
    fn link(&mut self, grid: &Grid, link: &'p Link, size: u64) -> &mut LinkSpec {
        let next = self.links.len();
        let number = *self.numbers.entry(link).or_insert(next);
        if number == next {
            self.links.push(link_of(grid, link));
            self.sizes.push(Sizes::None);
        }
        self.sizes[number].note(size);
        &mut self.links[number]
    }
}

/// The sizes of a link's files.
#[derive(Clone, Copy)]
enum Sizes {
    None,
    One(u64),
    Several,
}

impl Sizes {
    fn note(&mut self, size: u64) {
        *self = match self {
            Self::None => Self::One(size),
            Self::One(known) if *known == size => Self::One(size),
            Self::One(_) | Self::Several => Self::Several,
        };
    }

    fn one(self) -> Option<u64> {
        match self {
            Self::One(size) if size > 0 => Some(size),
            _ => None,
        }
    }
}

fn link_of(grid: &Grid, link: &Link) -> LinkSpec {
    let site_of = |rse: &RseName| {
        let site = grid.site_of(rse).expect("a plan names only RSEs of its grid");
        let mut sites = grid.sites.iter();
        let place = sites.position(|known| known.name == *site);
        place.expect("an RSE is at a site of its grid")
    };
    LinkSpec {
        source: link.source.to_string(),
        destination: link.destination.to_string(),
        source_site: site_of(&link.source),
        destination_site: site_of(&link.destination),
        asked: None,
        curves: Vec::new(),
        file_bytes: None,
    }
}

fn workload_of(workload: &Workload, phases: &Phases) -> WorkloadSpec {
    let (kind, cells, hold) = match workload {
        Workload::Rates(rates) => {
            let empty = WorkloadKind::Rates {
                asked_bps: rates.links.iter().map(|rated| rated.rate).sum(),
                achieved_bps: None,
                ratio: None,
                lateness_p95_s: None,
                lateness_max_s: None,
            };
            (empty, Vec::new(), rates.own_hold(phases))
        }
        Workload::Matrix(steps) => (WorkloadKind::Matrix { cells: Vec::new() }, cells_of(steps), None),
        Workload::Ramp(steps) => (WorkloadKind::Ramp { steps: Vec::new() }, cells_of(steps), None),
    };
    let bytes = cells.iter().map(|cell| cell.size.saturating_mul(cell.transfers));
    WorkloadSpec {
        name: workload.name().to_owned(),
        kind,
        planned_bytes: bytes.fold(0, u64::saturating_add),
        cells,
        hold,
    }
}

fn cells_of(steps: &StepsPlan) -> Vec<CellSpec> {
    let cell = |cell: &Cell| CellSpec {
        source: cell.link.source.to_string(),
        destination: cell.link.destination.to_string(),
        mode: cell.mode.map(Mode::as_str),
        size: cell.size.0,
        transfers: cell.transfers.into(),
        parallel: cell.parallel.into(),
    };
    steps.steps.iter().flat_map(|step| &step.cells).map(cell).collect()
}

impl AskedCurve {
    /// When which rate a workload asks of a link.
    fn of(rates: &RatesPlan, rate: BitRate) -> Self {
        Self {
            rate,
            from: rates.start,
            full: rates.start + rates.phases.full(),
            until: rates.start + rates.phases.end(),
        }
    }
}
