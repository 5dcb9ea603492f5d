//! `weir fault …`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `weir fault …`
#[derive(Debug, Subcommand)]
pub(crate) enum FaultCommand {
    /// List the kinds of faults, or the faults of a run
    List(FaultListArguments),
    /// Add a fault to a run under way, from now on
    Add(Box<FaultAddArguments>),
    /// End faults of a run under way
    Clear(FaultClearArguments),
}

/// `weir fault list`
#[derive(Debug, Args)]
pub(crate) struct FaultListArguments {
    /// The run folder; without it the kinds are listed
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
}

/// `weir fault add`
#[derive(Debug, Args)]
pub(crate) struct FaultAddArguments {
    /// The run folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// What breaks: a kind of `weir fault list`
    #[arg(value_name = "KIND")]
    pub(crate) kind: String,
    /// Its name; the kind if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// How long it lasts; to the end of the run if absent
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) length: Option<String>,
    /// Where: storage elements
    #[arg(long, value_name = "RSE")]
    pub(crate) rse: Option<String>,
    /// Where: sites
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// Where: links
    #[arg(long, value_name = "A->B")]
    pub(crate) link: Option<String>,
    /// Where: a service (transfer, issuer)
    #[arg(long)]
    pub(crate) service: Option<String>,
    /// Where: workloads
    #[arg(long)]
    pub(crate) workload: Option<String>,
    /// The direction, as seen from the place (in, out, both)
    #[arg(long)]
    pub(crate) way: Option<String>,
    /// How hard: the rate that is left
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// How hard: the time that is added
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<String>,
    /// How hard: the share of cases
    #[arg(long)]
    pub(crate) share: Option<f64>,
    /// How hard: the number that is allowed
    #[arg(long)]
    pub(crate) limit: Option<u32>,
    /// How hard: the size that is left
    #[arg(long)]
    pub(crate) size: Option<String>,
    /// How hard: a factor
    #[arg(long)]
    pub(crate) factor: Option<f64>,
    /// The class of errors that failures have
    #[arg(long)]
    pub(crate) error: Option<String>,
    /// How it comes and goes (step, ramp, periodic, flapping)
    #[arg(long)]
    pub(crate) shape: Option<String>,
    /// The time in which a ramp rises
    #[arg(long, value_name = "TIME")]
    pub(crate) rise: Option<String>,
    /// The time from one begin to the next
    #[arg(long, value_name = "TIME")]
    pub(crate) period: Option<String>,
    /// The share of each period in which it is on
    #[arg(long, value_name = "SHARE")]
    pub(crate) on: Option<f64>,
}

/// `weir fault clear`
#[derive(Debug, Args)]
pub(crate) struct FaultClearArguments {
    /// The run folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The faults to end; all if none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}
