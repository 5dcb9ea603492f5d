//! A challenge as its file describes it: valid, not yet scaled.

use std::path::PathBuf;
use std::time::Duration;

use weir_model::file::Part;
use weir_model::{Grid, Link};
use weir_units::{BitRate, Bytes};

use crate::fault::Fault;
use crate::mode::Mode;
use crate::phases::Phases;
use crate::sizing::FileSizes;
use crate::threshold::Threshold;

/// A valid challenge file, its grid and its tables read.
#[derive(Debug, Clone, PartialEq)]
pub struct Challenge {
    /// The file it was read from, as it was named.
    pub file: PathBuf,
    /// The challenge's name; safe as a folder name.
    pub name: String,
    /// The purpose of the challenge, in a sentence or more; may be empty.
    pub description: String,
    /// The seed of everything drawn.
    pub seed: u64,
    /// The factor on rates, and on file sizes of steps; above zero.
    pub scale: f64,
    /// The grid it runs on.
    pub grid: Grid,
    /// Its phases.
    pub phases: Phases,
    /// Its workloads, in the order of the file; at least one, no two share a name.
    pub workloads: Vec<WorkloadSpec>,
    /// Its thresholds, `*` already spread over its sites or links; may be empty.
    pub thresholds: Vec<Threshold>,
    /// The faults, in the order of the file; no two share a name.
    pub faults: Vec<Fault>,
    /// The tables about the simulated world, which `weir-sim` reads; `None` if there are none.
    pub sim: Option<Part>,
    /// The story of an incident, its signs and its remedy, which [`crate::incident::Incident`] reads.
    pub incident: Option<Part>,
    /// See `incident`.
    pub expect: Option<Part>,
    /// See `incident`.
    pub remedy: Option<Part>,
}

/// A workload as the file describes it.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadSpec {
    /// Holds links at asked rates.
    Rates(RatesSpec),
    /// Tries every link in every mode with every size.
    Matrix(MatrixSpec),
    /// Tries links with more and more parallel transfers.
    Ramp(RampSpec),
}

impl WorkloadSpec {
    /// Gives the workload's name.
    pub fn name(&self) -> &str {
        match self {
            WorkloadSpec::Rates(spec) => &spec.name,
            WorkloadSpec::Matrix(spec) => &spec.name,
            WorkloadSpec::Ramp(spec) => &spec.name,
        }
    }

    /// Gives the activity under which its transfers go.
    pub fn activity(&self) -> &str {
        match self {
            WorkloadSpec::Rates(spec) => &spec.activity,
            WorkloadSpec::Matrix(spec) => &spec.activity,
            WorkloadSpec::Ramp(spec) => &spec.activity,
        }
    }

    /// Gives the workload's kind: `rates`, `matrix`, `ramp`.
    pub fn kind(&self) -> &'static str {
        match self {
            WorkloadSpec::Rates(_) => "rates",
            WorkloadSpec::Matrix(_) => "matrix",
            WorkloadSpec::Ramp(_) => "ramp",
        }
    }
}

/// The service that the transfers of a workload are requested from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inject {
    /// The catalogue, by a replication rule with a lifetime for the files of each cycle and link.
    Rules,
    /// The transfer service, by jobs.
    Transfers,
}

impl Inject {
    /// Gives the word of the challenge file: `rules`, `transfers`.
    pub fn as_str(self) -> &'static str {
        match self {
            Inject::Rules => "rules",
            Inject::Transfers => "transfers",
        }
    }
}

/// One link with the rate asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSpec {
    /// The link.
    pub link: Link,
    /// The rate at scale 1; above zero.
    pub rate: BitRate,
}

/// A workload of kind `rates`.
#[derive(Debug, Clone, PartialEq)]
pub struct RatesSpec {
    /// The workload's name.
    pub name: String,
    /// The activity under which its transfers go.
    pub activity: String,
    /// The links, in the order of the file or table; at least one, none twice.
    pub rates: Vec<RateSpec>,
    /// The bounds of file sizes.
    pub sizes: FileSizes,
    /// The service that the transfers are requested from.
    pub inject: Inject,
    /// Different files that each source holds for a link, above zero; as many as are needed if absent.
    pub source_files: Option<u32>,
    /// Whether a link has one rule at a time, over all its files, which ends when they have come.
    pub is_loop: bool,
    /// How long a delivered file lives before it is deleted; with rules the lifetime of each rule.
    pub lifetime: Duration,
    /// With rules, how long a copy may stay at its destination after the end of its rule before the catalogue has deleted it.
    pub deletion: Duration,
    /// The injector's cycle.
    pub cycle: Duration,
    /// When it begins, from the start of the run.
    pub start: Duration,
    /// How long it lasts, its ramp included; to the end of the hold if absent.
    pub length: Option<Duration>,
}

/// A workload of kind `matrix`.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixSpec {
    /// The workload's name.
    pub name: String,
    /// The activity under which its transfers go.
    pub activity: String,
    /// The links; at least one, none twice.
    pub links: Vec<Link>,
    /// The modes; at least one, none twice.
    pub modes: Vec<Mode>,
    /// The file sizes at scale 1; at least one, none twice.
    pub sizes: Vec<Bytes>,
    /// Transfers per cell; above zero.
    pub repeat: u32,
    /// Cells that run at once; above zero.
    pub at_once: u32,
    /// Longest time for one step.
    pub timeout: Duration,
}

/// A workload of kind `ramp`.
#[derive(Debug, Clone, PartialEq)]
pub struct RampSpec {
    /// The workload's name.
    pub name: String,
    /// The activity under which its transfers go.
    pub activity: String,
    /// The links, one after the other; at least one, none twice.
    pub links: Vec<Link>,
    /// Numbers of parallel transfers, one after the other; at least one, each above zero, none twice.
    pub parallel: Vec<u32>,
    /// The size of each file at scale 1; above zero.
    pub file_size: Bytes,
    /// Different files that each source holds; above zero.
    pub source_files: u32,
    /// Files per parallel slot; above zero.
    pub repeat: u32,
    /// The mode; the transfer service chooses if absent.
    pub mode: Option<Mode>,
    /// Longest time for one step.
    pub timeout: Duration,
}

/// Values of the command line that replace those of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// The factor on rates, and on file sizes of steps.
    pub scale: Option<f64>,
    /// The length of the hold.
    pub duration: Option<Duration>,
    /// The seed.
    pub seed: Option<u64>,
}
