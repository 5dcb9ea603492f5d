//! `weir incident …`

use clap::{Args, Subcommand};

/// `weir incident …`
#[derive(Debug, Subcommand)]
pub(crate) enum IncidentCommand {
    /// List the incidents of past data challenges that can be made
    List,
    /// Show an incident: its story, its faults, its signs and its remedy
    Show(IncidentShowArguments),
    /// Run incidents, each with its faults and with its remedy, and check both
    Run(IncidentRunArguments),
    /// Draw runs with known causes, on which a diagnosis can be judged
    Vary(IncidentVaryArguments),
    /// Simulate drawn runs, and judge what each diagnosis says of them
    Score(IncidentScoreArguments),
}

/// `weir incident show`
#[derive(Debug, Args)]
pub(crate) struct IncidentShowArguments {
    /// The incident, such as INC-J5; or the path of a file of your own
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print the file, to begin one of your own with
    #[arg(long)]
    pub(crate) toml: bool,
}

/// `weir incident run`
#[derive(Debug, Args)]
pub(crate) struct IncidentRunArguments {
    /// The incidents, such as INC-J5; or paths of files of your own
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) ids: Vec<String>,
    /// Run the whole library
    #[arg(long)]
    pub(crate) all: bool,
    /// Run with real services on this machine, in a hundredth of the rates and a fifteenth of the time
    #[arg(long)]
    pub(crate) real: bool,
    /// With --real, where the run folders go
    #[arg(long, value_name = "DIR", default_value = "weir-runs", requires = "real")]
    pub(crate) out: std::path::PathBuf,
}

/// `weir incident vary`
#[derive(Debug, Args)]
pub(crate) struct IncidentVaryArguments {
    /// The seed that draws them
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Variants of each incident
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) variants: u32,
    /// Cases with two faults; by default three for eight variants
    #[arg(long, value_name = "N")]
    pub(crate) pairs: Option<u32>,
    /// Runs with nothing wrong; by default three for four variants
    #[arg(long, value_name = "N")]
    pub(crate) healthy: Option<u32>,
    /// Draw from these incidents alone
    #[arg(long = "template", value_name = "ID")]
    pub(crate) templates: Vec<String>,
    /// Where the cases go
    #[arg(long, value_name = "DIR")]
    pub(crate) out: std::path::PathBuf,
}

/// `weir incident score`
#[derive(Debug, Args)]
pub(crate) struct IncidentScoreArguments {
    /// A folder of cases
    pub(crate) dir: std::path::PathBuf,
    /// List the cases that this diagnosis has wrong
    #[arg(long, value_name = "NAME")]
    pub(crate) wrong: Option<String>,
    /// Show the strict share of Weir's diagnosis for each value of an axis: sites, silent, shape, error, markers, load, magnitude
    #[arg(long, value_name = "AXIS")]
    pub(crate) by: Option<String>,
}
