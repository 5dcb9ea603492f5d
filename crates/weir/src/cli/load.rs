//! `weir load …`, as data.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use weir_units::BitRate;

use super::CatalogArguments;

/// `weir load …`
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Hold a link at a rate by rules, or the links of a file, and print the loads' ids
    Add(Box<LoadAddArguments>),
    /// List loads
    List(LoadListArguments),
    /// Show loads with the ledger of their cycles
    Show(LoadShowArguments),
    /// Stop loads, and end the rules that they made
    Stop(LoadStopArguments),
}

/// `weir load add`
#[derive(Debug, Args)]
pub(crate) struct LoadAddArguments {
    /// The RSE that holds the files
    #[arg(long, value_name = "RSE", required_unless_present = "csv", requires = "to")]
    pub(crate) from: Option<String>,
    /// The RSE that gets them
    #[arg(long, value_name = "RSE", requires = "from")]
    pub(crate) to: Option<String>,
    /// The rate of the link (10Gb/s)
    #[arg(long, value_name = "RATE", conflicts_with = "curve", requires = "from", required_unless_present_any = ["curve", "csv"])]
    pub(crate) rate: Option<BitRate>,
    /// The rate as straight lines between points (0s=0b/s,10m=5Gb/s)
    #[arg(long, value_name = "TIME=RATE,…", value_parser = curve, requires = "from")]
    pub(crate) curve: Option<Curve>,
    /// Read the loads from a CSV file of dc_inject
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) csv: Option<PathBuf>,
    /// When to start, in UTC (2026-11-28T12:00:00Z; default: now)
    #[arg(long, value_name = "TIME", conflicts_with = "csv")]
    pub(crate) start: Option<String>,
    /// When to end, in UTC
    #[arg(long, value_name = "TIME", conflicts_with_all = ["csv", "length"])]
    pub(crate) end: Option<String>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", default_value = "2h", conflicts_with = "csv", value_parser = weir_units::duration::parse)]
    pub(crate) length: Duration,
    /// From one rule to the next
    #[arg(long, value_name = "TIME", default_value = "60s", conflicts_with = "csv", value_parser = weir_units::duration::parse)]
    pub(crate) cycle: Duration,
    /// The life of a rule, after which its copies are deleted
    #[arg(long, value_name = "TIME", default_value = "1h", conflicts_with = "csv", value_parser = weir_units::duration::parse)]
    pub(crate) lifetime: Duration,
    /// Take only files of this dataset or container (scope:name; default: any file at the source)
    #[arg(long, value_name = "DID", conflicts_with = "csv")]
    pub(crate) data: Option<String>,
    /// The scope of the datasets that are made (default: user.ACCOUNT)
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// Take large files first
    #[arg(long, conflicts_with = "csv")]
    pub(crate) big_first: bool,
    /// The activity of the rules
    #[arg(long, value_name = "NAME", default_value = "Data Challenge")]
    pub(crate) activity: String,
    /// A remark
    #[arg(long, value_name = "TEXT", conflicts_with = "csv")]
    pub(crate) comment: Option<String>,
    /// Choose files and keep the ledger, but make no rules
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// Points of a curve: the time from the start, and the rate there.
#[derive(Debug, Clone)]
pub(crate) struct Curve(pub(crate) Vec<(Duration, BitRate)>);

fn curve(text: &str) -> Result<Curve, String> {
    let point = |text: &str| {
        let (after, rate) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not TIME=RATE"))?;
        let after = weir_units::duration::parse(after.trim()).map_err(|error| error.to_string())?;
        let rate = rate.trim().parse::<BitRate>().map_err(|error| error.to_string())?;
        Ok::<_, String>((after, rate))
    };
    text.split(',').map(point).collect::<Result<_, _>>().map(Curve)
}

/// `weir load list`
#[derive(Debug, Args)]
pub(crate) struct LoadListArguments {
    /// Loads of all accounts
    #[arg(long)]
    pub(crate) everybody: bool,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// `weir load show`
#[derive(Debug, Args)]
pub(crate) struct LoadShowArguments {
    /// The loads' ids
    #[arg(value_name = "LOAD", required = true)]
    pub(crate) loads: Vec<String>,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}

/// `weir load stop`
#[derive(Debug, Args)]
pub(crate) struct LoadStopArguments {
    /// The loads' ids
    #[arg(value_name = "LOAD", required_unless_present = "all")]
    pub(crate) loads: Vec<String>,
    /// All loads of the account; of all accounts, if it is an administrator's
    #[arg(long, conflicts_with = "loads")]
    pub(crate) all: bool,
    /// Let the rules that were made live on
    #[arg(long)]
    pub(crate) keep_rules: bool,
    #[command(flatten)]
    pub(crate) door: CatalogArguments,
}
