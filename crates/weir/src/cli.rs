//! The command line as data: its commands and options, without their execution.

mod authority;
mod catalog;
mod fault;
mod incident;
mod load;
mod probe;
mod storage;
mod transfer;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_units::Bytes;

pub(crate) use authority::{AuthorityCommand, AuthorityHostArguments, AuthorityNewArguments, AuthorityUserArguments};
pub(crate) use catalog::{
    CatalogArguments, CatalogBackupArguments, CatalogCheckArguments, CatalogCommand, CatalogRestoreArguments,
    CatalogStatusArguments, RuleAddArguments, RuleCommand, RuleListArguments, RuleWhyArguments, RulesArguments,
};
pub(crate) use fault::{FaultAddArguments, FaultClearArguments, FaultCommand, FaultListArguments};
pub(crate) use incident::{
    IncidentCommand, IncidentRunArguments, IncidentScoreArguments, IncidentShowArguments, IncidentVaryArguments,
};
pub(crate) use load::{LoadAddArguments, LoadCommand, LoadListArguments, LoadShowArguments, LoadStopArguments};
pub(crate) use probe::ProbeArguments;
pub(crate) use storage::{
    AccessArguments, StorageChecksumArguments, StorageCommand, StorageDuArguments, StorageGetArguments,
    StorageLsArguments, StoragePutArguments, StorageRmArguments,
};
pub(crate) use transfer::{
    DoorArguments, TransferCancelArguments, TransferCommand, TransferDrainArguments, TransferForceArguments,
    TransferLimitsArguments, TransferListArguments, TransferStatusArguments, TransferSubmitArguments,
    TransferWatchArguments, TransferWhyArguments,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    about = "Run, test and simulate a scientific data grid",
    propagate_version = false,
    after_help = "Exit codes: 0 done (verdict pass or none), 1 verdict fail or unstable, 2 bad input, 3 could not run, 130 interrupted"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Print one JSON envelope instead of text
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// Print without colour
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) no_color: bool,
    /// Log at least this level (error, warn, info, debug, trace, off; or target=level,…)
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        env = "WEIR_LOG",
        help_heading = "Common options"
    )]
    pub(crate) log_level: Option<String>,
    /// Write the log to this file instead of standard error
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub(crate) log_file: Option<PathBuf>,
}

/// The commands of `weir`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Test a grid with a repeatable data challenge
    #[command(subcommand)]
    Challenge(ChallengeCommand),
    /// List, add and end the faults of a run under way
    #[command(subcommand)]
    Fault(FaultCommand),
    /// Keep an embedded grid running
    #[command(subcommand)]
    Grid(GridCommand),
    /// Run one service for production
    #[command(subcommand)]
    Serve(ServeCommand),
    /// List, get, put, remove and check files at a storage endpoint
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Submit, watch and steer transfers at a transfer service
    #[command(subcommand)]
    Transfer(TransferCommand),
    /// Ask a catalogue for copies of data, and follow them
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Hold links at rates by rules that a catalogue makes
    #[command(subcommand)]
    Load(LoadCommand),
    /// Look after a catalogue
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Simulate in virtual time
    #[command(subcommand)]
    Sim(SimCommand),
    /// Make the incidents of past data challenges, and check their remedies
    #[command(subcommand)]
    Incident(IncidentCommand),
    /// Identify an endpoint, and test its operations and its speed
    Probe(ProbeArguments),
    /// Make certificates where a machine has no authority for them
    #[command(subcommand)]
    Authority(AuthorityCommand),
    /// Render the report of a run again
    Report(ReportArguments),
    /// Say what held the links of a run back
    Why(WhyArguments),
    /// Print the completion script of a shell
    Completions(CompletionsArguments),
}

impl Command {
    /// The default log level: services log their work, commands only their errors.
    pub(crate) fn default_log_level(&self) -> &'static str {
        match self {
            Self::Serve(_) => "info",
            _ => "warn",
        }
    }
}

/// `weir challenge …`
#[derive(Debug, Subcommand)]
pub(crate) enum ChallengeCommand {
    /// Run a challenge and give a verdict
    Run(ChallengeRunArguments),
    /// Write a commented two-site, ten-second challenge to start from
    New(ChallengeNewArguments),
    /// Validate a challenge file without starting anything; with --sites look at its storage too
    Check(ChallengeCheckArguments),
    /// Print the injections, volumes, space and concurrency of a challenge
    Plan(ChallengeFileArguments),
    /// List the leftovers of a run at storages and on this machine, and delete them with --yes
    Clean(ChallengeCleanArguments),
}

/// Options that change a challenge without editing its file.
#[derive(Debug, Clone, Args)]
pub(crate) struct OverrideArguments {
    /// Multiply every rate by this factor (0.01: a hundredth)
    #[arg(long, value_name = "FACTOR")]
    pub(crate) scale: Option<f64>,
    /// Hold the load for this long (60s, 2m)
    #[arg(long, value_name = "TIME", value_parser = weir_units::duration::parse)]
    pub(crate) duration: Option<Duration>,
    /// Draw everything random from this seed
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
}

/// `weir challenge run`
#[derive(Debug, Args)]
pub(crate) struct ChallengeRunArguments {
    /// The challenge file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) overrides: OverrideArguments,
    /// Read this share of the delivered files back at the end and verify them (5%)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub(crate) audit: Option<f64>,
    /// Look at storage that does not start with the grid for at most this long before anything begins, or not at all (none)
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_preflight)]
    pub(crate) preflight: PreflightLimit,
    #[command(flatten)]
    pub(crate) faults: RunFaultArguments,
    /// Keep the data areas of the embedded grid after the run
    #[arg(long)]
    pub(crate) keep: bool,
    /// Put the run folder here
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    pub(crate) out: PathBuf,
}

/// The means that a run has for faults.
#[derive(Debug, Args)]
pub(crate) struct RunFaultArguments {
    /// Take faults by hand while it runs, of every kind (weir fault add)
    #[arg(long)]
    pub(crate) breakable: bool,
    /// Run the storages of each site in a process of their own, which faults can stop and kill
    #[arg(long)]
    pub(crate) processes: bool,
    /// Run in a network namespace of its own, in which faults act on packets: packet-loss, mtu, capacity
    #[arg(long)]
    pub(crate) namespace: bool,
    /// Congestion control of TCP in the namespace (cubic, bbr, reno)
    #[arg(long, value_name = "NAME", requires = "namespace")]
    pub(crate) congestion_control: Option<String>,
}

/// `weir challenge new`
#[derive(Debug, Args)]
pub(crate) struct ChallengeNewArguments {
    /// The file to write; never overwrites
    #[arg(value_name = "FILE", default_value = "challenge.toml")]
    pub(crate) file: PathBuf,
}

/// How long storage is looked at before a run; not at all if none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreflightLimit(pub(crate) Option<Duration>);

fn parse_preflight(text: &str) -> Result<PreflightLimit, String> {
    if text == "none" {
        return Ok(PreflightLimit(None));
    }
    let limit = weir_units::duration::parse(text).map_err(|error| format!("{error}, or the word none"))?;
    Ok(PreflightLimit(Some(limit)))
}

/// `weir challenge check`
#[derive(Debug, Args)]
pub(crate) struct ChallengeCheckArguments {
    #[command(flatten)]
    pub(crate) challenge: ChallengeFileArguments,
    /// Look at storage that does not start with the grid: name, certificate, token, write, read, copies, delete
    #[arg(long)]
    pub(crate) sites: bool,
    /// Look for at most this long
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = weir_units::duration::parse)]
    pub(crate) limit: Duration,
}

/// `weir challenge clean`
#[derive(Debug, Args)]
pub(crate) struct ChallengeCleanArguments {
    /// The run folder
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Delete the listed leftovers: unchanged files that the run made, its empty directories, its data areas
    #[arg(long)]
    pub(crate) yes: bool,
    /// Delete partial files too, with --yes: copies that broke off, or that a storage is still writing
    #[arg(long, requires = "yes")]
    pub(crate) partial: bool,
}

/// `weir challenge plan`, and the options that `check` shares with it
#[derive(Debug, Args)]
pub(crate) struct ChallengeFileArguments {
    /// The challenge file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) overrides: OverrideArguments,
}

/// `weir grid …`
#[derive(Debug, Subcommand)]
pub(crate) enum GridCommand {
    /// Start the grid of a file and keep it running
    Up(GridUpArguments),
    /// Print shell exports that point other programs to a running grid
    Env(GridEnvArguments),
    /// Show which doors of a grid answer
    Status(GridDirectoryArguments),
    /// Stop a running grid
    Down(GridDirectoryArguments),
    /// Run the storages of one site of a grid that is up with --processes, in the foreground
    Site(GridSiteArguments),
}

/// `weir grid up`
#[derive(Debug, Args)]
pub(crate) struct GridUpArguments {
    /// The grid file
    #[arg(value_name = "GRID")]
    pub(crate) grid: PathBuf,
    /// Keep keys, data and state in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Return as soon as the grid is ready, and leave it running in the background
    #[arg(long)]
    pub(crate) detach: bool,
    /// Run the storages of each site in a process of their own; grid.json has the pid of each
    #[arg(long)]
    pub(crate) processes: bool,
    /// Be the process behind `--detach`
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}

/// `weir grid site`
#[derive(Debug, Args)]
pub(crate) struct GridSiteArguments {
    /// The file of the grid
    #[arg(value_name = "GRID")]
    pub(crate) grid: PathBuf,
    /// The directory given to `grid up --dir`
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The site
    #[arg(value_name = "SITE")]
    pub(crate) site: weir_model::SiteName,
    /// Stop at the end of the standard input, too
    #[arg(long, hide = true)]
    pub(crate) bound: bool,
}

/// `weir grid env`
#[derive(Debug, Args)]
pub(crate) struct GridEnvArguments {
    /// The directory given to `grid up --dir`
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Export the token itself too (BEARER_TOKEN)
    #[arg(long)]
    pub(crate) show_token: bool,
    /// Export a token with the rights of an operator at the transfer service (limits, bans, drain), and none at storage
    #[arg(long)]
    pub(crate) operator: bool,
}

/// `weir grid status` and `weir grid down`
#[derive(Debug, Args)]
pub(crate) struct GridDirectoryArguments {
    /// The directory given to `grid up --dir`
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// `weir serve …`
#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Run a storage endpoint
    Storage(ServeArguments),
    /// Run a token issuer
    Issuer(ServeArguments),
    /// Run a transfer service
    Transfer(ServeArguments),
    /// Run a catalogue behind the Rucio REST API: accounts, RSEs, DIDs, replicas, rules
    Catalog(ServeArguments),
}

/// Arguments of every `weir serve SERVICE`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check everything that the configuration names, report problems, and start nothing; exit code 3 if there are any
    #[arg(long)]
    pub(crate) check: bool,
}

/// `weir sim …`
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run a challenge in virtual time and give a verdict
    Run(SimRunArguments),
    /// Set every policy beside an estimate of the optimum on one challenge
    Compare(SimCompareArguments),
    /// Run flows through the network model alone, and print when each ends
    Flows(SimFlowsArguments),
}

/// `weir sim run`
#[derive(Debug, Args)]
pub(crate) struct SimRunArguments {
    /// The challenge file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) overrides: OverrideArguments,
    /// The scheduler
    #[arg(long, value_name = "POLICY", default_value = "weir")]
    pub(crate) policy: SimPolicy,
    /// The catalogue that keeps the rules (default: as the file says, else weir)
    #[arg(long, value_name = "CATALOG")]
    pub(crate) catalog: Option<SimCatalog>,
    /// The transfers that get a row each
    #[arg(long, value_name = "ROWS", default_value = "sample")]
    pub(crate) rows: SimRows,
    /// Put the run folder here
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    pub(crate) out: PathBuf,
}

/// `weir sim compare`
#[derive(Debug, Args)]
pub(crate) struct SimCompareArguments {
    /// The challenge file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) overrides: OverrideArguments,
    /// Write the comparison as a page for a browser into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// The catalogues of `weir sim run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimCatalog {
    /// Weir's catalogue
    Weir,
    /// A model of Rucio's daemons, made after the source of Rucio 41.5.1
    Rucio,
}

/// The policies of `weir sim run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimPolicy {
    /// Weir's scheduler, with the same information as FTS
    Weir,
    /// Weir's scheduler, which also knows the rate asked of each link
    WeirTargets,
    /// An imitation of FTS 3.14, made after its source
    #[value(name = "fts-imitation", alias = "fts")]
    Fts,
    /// A fixed number of transfers per link
    Fixed,
}

/// The rows of `weir sim run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimRows {
    /// Every transfer, and the injectors' ledger
    All,
    /// One in a hundred
    Sample,
    /// None
    None,
}

/// `weir sim flows`
#[derive(Debug, Args)]
pub(crate) struct SimFlowsArguments {
    /// The flows and the links they cross, in JSON
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How flows share a link
    #[arg(long, value_name = "MODEL", default_value = "maxmin")]
    pub(crate) model: FlowModel,
    /// Let each stream have at most this much under way, with `--model rtt`; a number alone is bytes
    #[arg(long, value_name = "SIZE", default_value = "4 MiB", value_parser = parse_window)]
    pub(crate) window: Bytes,
}

/// The models of `weir sim flows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowModel {
    /// All alike, however long their paths
    Maxmin,
    /// By streams and latency, as TCP does
    Rtt,
}

/// `weir report`
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The run folder, or its report.json; of a run that did not end the report is built from its rows
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// `weir why`
#[derive(Debug, Args)]
pub(crate) struct WhyArguments {
    /// The run folder, or its report.json; a run under way has rows so far
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Only this link, `A->B`, with its missing bits by cause
    #[arg(value_name = "LINK")]
    pub(crate) link: Option<String>,
    /// Only this time, from the start of the run: `4m`
    #[arg(long, value_name = "TIME", value_parser = weir_units::duration::parse)]
    pub(crate) at: Option<Duration>,
}

/// `weir completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The words of the command as typed: `challenge check`.
pub(crate) fn command_name(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut level = matches;
    while let Some((word, below)) = level.subcommand() {
        words.push(word);
        level = below;
    }
    words.join(" ")
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("`{text}` is not a percentage between 0% and 100%")),
    }
}

fn parse_window(text: &str) -> Result<Bytes, String> {
    let number = text.trim().parse::<u64>().map(Bytes);
    let window = number
        .or_else(|_| text.parse::<Bytes>())
        .map_err(|error| error.to_string())?;
    if window == Bytes::ZERO {
        return Err("a window of nothing moves nothing".to_owned());
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn percentages_have_bounds() {
        assert_eq!(parse_percent("5%"), Ok(5.0));
        assert_eq!(parse_percent("12.5"), Ok(12.5));
        for wrong in ["-1%", "101%", "five", "", "NaN"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn windows_have_a_unit_or_are_bytes() {
        assert_eq!(parse_window("4 MiB"), Ok(Bytes(4 << 20)));
        assert_eq!(parse_window("4194304"), Ok(Bytes(4 << 20)));
        for wrong in ["0", "-1", "four", "", "NaN"] {
            assert!(parse_window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn command_names_are_the_words_typed() {
        let matches = Cli::command().get_matches_from(["weir", "grid", "up", "g.toml", "--dir", "d", "--json"]);
        assert_eq!(command_name(&matches), "grid up");
    }
}
