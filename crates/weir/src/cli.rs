//! The command line as data: what can be asked of `weir`, and nothing about how it is done.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_units::Bytes;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    about = "Run, test and simulate a scientific data grid",
    propagate_version = false,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done (verdict pass), 1 verdict fail, 2 bad input, 3 could not run, 130 interrupted"
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
    /// Log what is at least this important (error, warn, info, debug, trace, off; or target=level,…)
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

/// What `weir` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Test a grid with a repeatable data challenge
    #[command(subcommand)]
    Challenge(ChallengeCommand),
    /// Keep an embedded grid running
    #[command(subcommand)]
    Grid(GridCommand),
    /// Run one service for production
    #[command(subcommand)]
    Serve(ServeCommand),
    /// Submit, watch and steer transfers at a transfer service
    #[command(subcommand)]
    Transfer(TransferCommand),
    /// Simulate in virtual time
    #[command(subcommand)]
    Sim(SimCommand),
    /// Render the report of a run again
    Report(ReportArguments),
    /// Print the completion script of a shell
    Completions(CompletionsArguments),
}

impl Command {
    /// The log level where the user names none: services tell what they do, commands only what went wrong.
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
    /// Validate a challenge file without starting anything
    Check(ChallengeFileArguments),
    /// Print what a challenge would inject, with the volumes, space and concurrency it needs
    Plan(ChallengeFileArguments),
}

/// What changes a challenge without editing its file.
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
    /// Keep the data areas of the embedded grid after the run
    #[arg(long)]
    pub(crate) keep: bool,
    /// Put the run folder here
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    pub(crate) out: PathBuf,
}

/// `weir challenge new`
#[derive(Debug, Args)]
pub(crate) struct ChallengeNewArguments {
    /// The file to write; never overwrites
    #[arg(value_name = "FILE", default_value = "challenge.toml")]
    pub(crate) file: PathBuf,
}

/// `weir challenge check` and `weir challenge plan`
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
    /// Be the process behind `--detach`
    #[arg(long, hide = true)]
    pub(crate) background: bool,
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
}

/// Arguments of every `weir serve SERVICE`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// `weir transfer …`
#[derive(Debug, Subcommand)]
pub(crate) enum TransferCommand {
    /// Submit a copy, or a file of them, and print the job's id
    Submit(TransferSubmitArguments),
    /// Show jobs, and why their files are not finished
    Status(TransferStatusArguments),
    /// Follow jobs to their end
    Watch(TransferWatchArguments),
    /// Cancel jobs, or single files of one
    Cancel(TransferCancelArguments),
    /// List jobs, the newest first
    List(TransferListArguments),
    /// Say what holds a link, a job or a file back
    Why(TransferWhyArguments),
    /// Show the limits of links and storage elements, or change one
    Limits(TransferLimitsArguments),
    /// Start nothing new, or start again
    Drain(TransferDrainArguments),
}

/// Which transfer service, and as whom.
#[derive(Debug, Args)]
pub(crate) struct DoorArguments {
    /// The transfer service
    #[arg(
        long,
        value_name = "URL",
        env = "FTS_ENDPOINT",
        hide_env_values = true,
        help_heading = "Transfer service"
    )]
    pub(crate) endpoint: String,
    /// Take the token from this file (default: BEARER_TOKEN, BEARER_TOKEN_FILE, then where WLCG tools look)
    #[arg(long, value_name = "FILE", help_heading = "Transfer service")]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust these certificate authorities instead of the system's and the grid's
    #[arg(
        long,
        value_name = "FILE",
        env = "WEIR_CA_FILE",
        hide_env_values = true,
        help_heading = "Transfer service"
    )]
    pub(crate) ca: Option<PathBuf>,
    /// Find the grid's certificate authorities here
    #[arg(
        long,
        value_name = "DIR",
        env = "X509_CERT_DIR",
        hide_env_values = true,
        help_heading = "Transfer service"
    )]
    pub(crate) ca_directory: Option<PathBuf>,
}

/// `weir transfer submit`
#[derive(Debug, Args)]
pub(crate) struct TransferSubmitArguments {
    /// The file to copy
    #[arg(value_name = "SOURCE", conflicts_with = "file")]
    pub(crate) source: Option<String>,
    /// Where to
    #[arg(value_name = "DESTINATION", requires = "source")]
    pub(crate) destination: Option<String>,
    /// Submit these instead: lines `SOURCE DESTINATION [CHECKSUM]`, or a job in FTS3's JSON; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The file's checksum (ADLER32:0a1b2c3d), or the algorithm alone
    #[arg(long, value_name = "CHECKSUM", conflicts_with = "file")]
    pub(crate) checksum: Option<String>,
    /// The file's size; anything else at the source is refused
    #[arg(long, value_name = "SIZE", conflicts_with = "file")]
    pub(crate) size: Option<Bytes>,
    /// Replace a file that exists at the destination
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Compare checksums at these ends
    #[arg(long, value_name = "ENDS")]
    pub(crate) verify_checksum: Option<VerifyChecksum>,
    /// Try so often again after a failure
    #[arg(long, value_name = "N")]
    pub(crate) retry: Option<u8>,
    /// More urgent is higher
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: Option<u8>,
    /// The activity whose share is used
    #[arg(long, value_name = "NAME")]
    pub(crate) activity: Option<String>,
    /// Anything, in JSON, to find the job by later
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// The token for the source (default: the caller's)
    #[arg(long, value_name = "FILE")]
    pub(crate) source_token_file: Option<PathBuf>,
    /// The token for the destination (default: the caller's)
    #[arg(long, value_name = "FILE")]
    pub(crate) destination_token_file: Option<PathBuf>,
    /// Follow the job to its end
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// Whose checksums are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyChecksum {
    /// Nobody's; sizes are compared always
    None,
    /// The source's
    Source,
    /// The destination's
    Target,
    /// Both
    Both,
}

impl VerifyChecksum {
    /// FTS3's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Source => "source",
            Self::Target => "target",
            Self::Both => "both",
        }
    }
}

/// `weir transfer status`
#[derive(Debug, Args)]
pub(crate) struct TransferStatusArguments {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
    /// Show every file, not only those with something to say
    #[arg(long)]
    pub(crate) files: bool,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer watch`
#[derive(Debug, Args)]
pub(crate) struct TransferWatchArguments {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer cancel`
#[derive(Debug, Args)]
pub(crate) struct TransferCancelArguments {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
    /// Only these files
    #[arg(long = "file", value_name = "ID")]
    pub(crate) files: Vec<u64>,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer list`
#[derive(Debug, Args)]
pub(crate) struct TransferListArguments {
    /// Only jobs in these states (FINISHED,FAILED; default: those that have not ended)
    #[arg(long, value_name = "STATES")]
    pub(crate) state: Option<String>,
    /// Only this VO's
    #[arg(long, value_name = "VO")]
    pub(crate) vo: Option<String>,
    /// Only from this storage element (https://a.example.org)
    #[arg(long, value_name = "SE")]
    pub(crate) source: Option<String>,
    /// Only to this storage element
    #[arg(long, value_name = "SE")]
    pub(crate) destination: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer why`
#[derive(Debug, Args)]
pub(crate) struct TransferWhyArguments {
    /// A link (two storage elements, or 'https://a > https://b'), a job's id, or a file's
    #[arg(value_name = "LINK|JOB|FILE", required = true, num_args = 1..=2)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer limits`
#[derive(Debug, Args)]
#[command(after_help = "Without a limit to set, prints those that are set. Administrators only.")]
pub(crate) struct TransferLimitsArguments {
    /// Set limits of this link; * and * is every link
    #[arg(long, value_names = ["SOURCE", "DESTINATION"], num_args = 2, conflicts_with = "se")]
    pub(crate) link: Vec<String>,
    /// Set limits of this storage element
    #[arg(long, value_name = "SE")]
    pub(crate) se: Option<String>,
    /// Transfers at once on the link
    #[arg(long, value_name = "N", requires = "link")]
    pub(crate) max_active: Option<u32>,
    /// Bandwidth of the link (10 Gb/s)
    #[arg(long, value_name = "RATE", requires = "link")]
    pub(crate) rate: Option<String>,
    /// Serve the link first up to this rate
    #[arg(long, value_name = "RATE", requires = "link")]
    pub(crate) target: Option<String>,
    /// Weight of the link against others at shared ends (100)
    #[arg(long, value_name = "N", requires = "link")]
    pub(crate) weight: Option<u32>,
    /// The link's optimiser: auto, off, or a number of transfers
    #[arg(long, value_name = "MODE", requires = "link")]
    pub(crate) optimiser: Option<String>,
    /// Transfers at once into the storage element
    #[arg(long, value_name = "N", requires = "se")]
    pub(crate) inbound: Option<u32>,
    /// Transfers at once out of the storage element
    #[arg(long, value_name = "N", requires = "se")]
    pub(crate) outbound: Option<u32>,
    /// Take the limits of the link or the storage element back
    #[arg(long)]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer drain`
#[derive(Debug, Args)]
pub(crate) struct TransferDrainArguments {
    /// Whether to drain
    #[arg(value_name = "on|off")]
    pub(crate) switch: Switch,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// From now on
    On,
    /// No longer
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Self::On
    }
}

/// `weir sim …`
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run a challenge in virtual time and give a verdict
    Run(SimRunArguments),
    /// Set every policy beside the optimum on one challenge
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
    /// Who decides what starts when
    #[arg(long, value_name = "POLICY", default_value = "weir")]
    pub(crate) policy: SimPolicy,
    /// Which transfers to write down one by one
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

/// The policies of `weir sim run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimPolicy {
    /// Weir's scheduler, told what FTS is told
    Weir,
    /// The same, told also what is asked of each link
    WeirTargets,
    /// An imitation of FTS 3.14
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
    /// The run folder, with its report.json
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
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
