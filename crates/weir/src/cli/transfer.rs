//! `weir transfer …`, as data.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_units::Bytes;

use super::AccessArguments;

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
    /// Explain why a link, a job or a file waits
    Why(TransferWhyArguments),
    /// Show the limits of links and storage elements, or change one
    Limits(TransferLimitsArguments),
    /// Start files that wait, past all limits
    Force(TransferForceArguments),
    /// Start nothing new, or start again
    Drain(TransferDrainArguments),
}

/// The transfer service, and the credential.
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
    #[command(flatten)]
    pub(crate) access: AccessArguments,
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
    /// The activity, for its share
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

/// The compared checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyChecksum {
    /// None; sizes are always compared
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

/// FTS3's names of the states of a job.
const JOB_STATES: [&str; 9] = [
    "SUBMITTED",
    "READY",
    "STAGING",
    "ACTIVE",
    "ARCHIVING",
    "FINISHED",
    "FAILED",
    "FINISHEDDIRTY",
    "CANCELED",
];

/// `weir transfer list`
#[derive(Debug, Args)]
pub(crate) struct TransferListArguments {
    /// Only jobs in these states (FINISHED,FAILED; default: unfinished ones)
    #[arg(
        long,
        value_name = "STATES",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = JOB_STATES,
        hide_possible_values = true
    )]
    pub(crate) state: Vec<String>,
    /// Only this VO's
    #[arg(long, value_name = "VO")]
    pub(crate) vo: Option<String>,
    /// Only from this storage element (scheme and host, without port)
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
    /// A link (two storage elements, or one text 'A > B'), a job's id, or a file's
    #[arg(value_name = "LINK|JOB|FILE", required = true, num_args = 1..=2)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
}

/// `weir transfer limits`
#[derive(Debug, Args)]
#[command(after_help = "Without a limit to set, prints the current ones. Administrators only.")]
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

/// `weir transfer force`
#[derive(Debug, Args)]
#[command(
    after_help = "Transfers that wait for tape, are banned, or wait while the service drains keep waiting. Administrators only."
)]
pub(crate) struct TransferForceArguments {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<u64>,
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
