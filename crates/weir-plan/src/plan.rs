//! A plan: a challenge with nothing left open.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use weir_model::file::Part;
use weir_model::{Grid, Link, RseName};
use weir_units::{BitRate, Bytes};

use crate::curve::Curve;
use crate::fault::Fault;
use crate::phases::Phases;
use crate::spec::Inject;
use crate::steps::Step;
use crate::threshold::Threshold;

/// A challenge in which every value is decided: injections, grid and thresholds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The challenge's name; safe as a folder name.
    pub name: String,
    /// The purpose of the challenge; may be empty.
    pub description: String,
    /// The seed of everything drawn.
    pub seed: u64,
    /// The factor that rates, and file sizes of steps, have been multiplied by.
    pub scale: f64,
    /// The grid.
    pub grid: Grid,
    /// The phases.
    pub phases: Phases,
    /// The workloads, in the order of the file; at least one.
    pub workloads: Vec<Workload>,
    /// The thresholds, in the order of the file; may be empty.
    pub thresholds: Vec<Threshold>,
    /// The faults, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The challenge file that resolves to this plan without any override; a run folder keeps it.
    #[serde(skip)]
    pub resolved: String,
    /// The tables about the simulated world, which `weir-sim` reads; `None` if there are none.
    #[serde(skip)]
    pub sim: Option<Part>,
}

/// A workload of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workload {
    /// Holds links at asked rates; driven by [`crate::RatesCore`].
    Rates(RatesPlan),
    /// Tries links in modes and sizes, step by step.
    Matrix(StepsPlan),
    /// Tries links with more and more parallel transfers, step by step.
    Ramp(StepsPlan),
}

impl Workload {
    /// Gives the workload's name, unlike any other of the plan.
    pub fn name(&self) -> &str {
        match self {
            Workload::Rates(plan) => &plan.name,
            Workload::Matrix(plan) | Workload::Ramp(plan) => &plan.name,
        }
    }

    /// Gives the workload's kind: `rates`, `matrix`, `ramp`.
    pub fn kind(&self) -> &'static str {
        match self {
            Workload::Rates(_) => "rates",
            Workload::Matrix(_) => "matrix",
            Workload::Ramp(_) => "ramp",
        }
    }

    /// Gives the activity under which its transfers go.
    pub fn activity(&self) -> &str {
        match self {
            Workload::Rates(plan) => &plan.activity,
            Workload::Matrix(plan) | Workload::Ramp(plan) => &plan.activity,
        }
    }

    /// Lists its links, each once, in the order of the plan.
    pub fn links(&self) -> Vec<&Link> {
        let mut seen = BTreeSet::new();
        let mut links: Vec<&Link> = match self {
            Workload::Rates(plan) => plan.links.iter().map(|rated| &rated.link).collect(),
            Workload::Matrix(plan) | Workload::Ramp(plan) => plan
                .steps
                .iter()
                .flat_map(|step| &step.cells)
                .map(|cell| &cell.link)
                .collect(),
        };
        links.retain(|link| seen.insert(*link));
        links
    }
}

/// A workload of kind `rates`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatesPlan {
    /// The workload's name.
    pub name: String,
    /// The activity under which its transfers go.
    pub activity: String,
    /// The links, in the order of the file or table; at least one, none twice.
    pub links: Vec<RatedLink>,
    /// The service that the transfers are requested from.
    pub inject: Inject,
    /// Whether a link has one rule at a time, over all its source files. It ends when they have come, and the next one
    /// is made when their copies are gone.
    #[serde(rename = "loop")]
    pub is_loop: bool,
    /// How long a delivered file lives before it is deleted; with rules the lifetime of each rule, in whole seconds.
    #[serde(with = "weir_units::duration")]
    pub lifetime: Duration,
    /// With rules, how long a copy may stay at its destination after the end of its rule before the catalogue has deleted it.
    #[serde(with = "weir_units::duration")]
    pub deletion: Duration,
    /// The injector's cycle.
    #[serde(with = "weir_units::duration")]
    pub cycle: Duration,
    /// When it begins, from the start of the run.
    #[serde(with = "weir_units::duration")]
    pub start: Duration,
    /// Its own ramp and hold, from there.
    pub phases: Phases,
}

impl RatesPlan {
    /// When its own hold begins and ends, from the start of the run; `None` if that is the hold of the whole run.
    pub fn own_hold(&self, run: &Phases) -> Option<(Duration, Duration)> {
        Some(self.hold()).filter(|hold| *hold != (run.ramp, run.end()))
    }

    fn hold(&self) -> (Duration, Duration) {
        (self.start + self.phases.ramp, self.start + self.phases.end())
    }

    /// The mean rate of a link over the hold of the whole run, the workload's own ramp included.
    pub fn mean_rate(&self, rate: BitRate, run: &Phases) -> BitRate {
        if self.own_hold(run).is_none() || rate == BitRate::ZERO {
            return rate;
        }
        let curve = Curve::new(rate, &self.phases);
        let by = |moment: Duration| curve.bytes_at(moment.saturating_sub(self.start).min(self.phases.end()));
        BitRate::of(Bytes(by(run.end()) - by(run.ramp)), run.hold)
    }
}

/// One link with its asked rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatedLink {
    /// The link.
    pub link: Link,
    /// The asked rate, scaled; above zero.
    pub rate: BitRate,
    /// The asked rate times the hold.
    pub volume: Bytes,
    /// The size of every file on this link; above zero.
    pub file_size: Bytes,
    /// Whole files that pass in the hold at the asked rate; above zero.
    pub n_files: u64,
    /// Different files of that size that the source holds; [`crate::Injection::file`] counts from 0 below this.
    pub source_files: u32,
}

/// A workload made of steps: kind `matrix` or `ramp`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepsPlan {
    /// The workload's name.
    pub name: String,
    /// The activity under which its transfers go.
    pub activity: String,
    /// The steps; one begins when the one before has ended. At least one.
    pub steps: Vec<Step>,
    /// Longest time of one step; transfers that then still run are cancelled and count as failed.
    #[serde(with = "weir_units::duration")]
    pub timeout: Duration,
}

/// One file that must be at a source before the run begins, its content drawn from the seed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourceFile {
    /// The RSE that holds it.
    pub rse: RseName,
    /// Its size.
    pub size: Bytes,
    /// Its number among the files of this RSE and size, from 0.
    pub file: u32,
}

impl Plan {
    /// Lists the files that sources must hold before the run begins, sorted, each once.
    ///
    /// A transfer of size S from RSE R with file number N reads the one with these three.
    pub fn source_files(&self) -> BTreeSet<SourceFile> {
        let mut files = BTreeSet::new();
        let mut add = |rse: &RseName, size: Bytes, n_files: u32| {
            files.extend((0..n_files).map(|file| SourceFile {
                rse: rse.clone(),
                size,
                file,
            }));
        };
        for workload in &self.workloads {
            match workload {
                Workload::Rates(plan) => {
                    plan.links
                        .iter()
                        .for_each(|rated| add(&rated.link.source, rated.file_size, rated.source_files));
                }
                Workload::Matrix(plan) | Workload::Ramp(plan) => {
                    let cells = plan.steps.iter().flat_map(|step| &step.cells);
                    cells.for_each(|cell| add(&cell.link.source, cell.size, cell.source_files));
                }
            }
        }
        files
    }

    /// Says whether a workload makes rules, so that the run needs a catalogue.
    pub fn makes_rules(&self) -> bool {
        self.rates().any(|(_, rates)| rates.inject == Inject::Rules)
    }

    /// Lists the rates workloads with their index among the workloads.
    pub fn rates(&self) -> impl Iterator<Item = (usize, &RatesPlan)> {
        self.workloads
            .iter()
            .enumerate()
            .filter_map(|(index, workload)| match workload {
                Workload::Rates(plan) => Some((index, plan)),
                Workload::Matrix(_) | Workload::Ramp(_) => None,
            })
    }
}
