//! The types of `report.json`, contract `weir-report/1`.
//!
//! `docs/report.md` documents every field with its unit and how it is measured. Within `weir-report/1` fields are only
//! added, never renamed, removed or given another meaning; a reader ignores unknown fields. `None` is written as `null`
//! and means "no data" or "does not apply", never zero. Rates are bits per second, volumes bytes, times seconds since
//! `started_at`.

use std::collections::BTreeMap;

use weir_units::BitRate;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use crate::chain_report::ChainReport;
pub use crate::crosscheck::CrossCheck;
pub use crate::deficit::LinkDeficit;
pub use crate::diagnosis::{CauseSeries, Change, LinkLedger, Statement};
pub use crate::evenness::{Cv, Evenness};
pub use crate::fault_report::{FaultLink, FaultReport};
pub use crate::gauges::GaugeSeries;
pub use crate::quantiles::{Percentiles, Times};
pub use crate::signals::LinkSignals;
pub use crate::workload_report::{Cell, Step, WorkloadKind, WorkloadReport};

/// Name and version of the contract, the value of [`Report::schema`].
pub const SCHEMA: &str = "weir-report/1";

/// Everything one run of a challenge has to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The verdict on the run.
    pub verdict: Verdict,
    /// Why, one sentence each; never empty.
    pub verdict_reasons: Vec<String>,
    /// Advice when the machine was too weak for the run, e.g. "carries 0.8 of 1.3 Gb/s; try --scale 0.006".
    #[serde(default)]
    pub advice: Option<String>,
    /// Name of the challenge.
    pub challenge: String,
    /// The description in the challenge file; may be empty.
    #[serde(default)]
    pub description: String,
    /// Seed that every drawn value comes from.
    pub seed: u64,
    /// Factor applied to every asked rate.
    pub scale: f64,
    /// Whether the run was stopped before its time.
    pub interrupted: bool,
    /// Whether the run never came to its end, and the report was built from the rows that it left. Results after the
    /// drain, such as cross-checks and the audit, are missing.
    #[serde(default)]
    pub incomplete: bool,
    /// Command line that runs the same challenge again.
    pub command: String,
    /// Start of the ramp window, RFC 3339 in UTC; of a simulated run in its world's calendar, or `T+0s` if that has none. All
    /// times in seconds count from here.
    pub started_at: String,
    /// End of the run, clean-up included, written likewise.
    pub ended_at: String,
    /// The build that ran.
    pub weir: Build,
    /// The machine it ran on.
    pub host: Host,
    /// The three windows of the run.
    pub windows: Windows,
    /// Figures of the whole run.
    pub totals: Totals,
    /// One entry per link that was asked for or used, in the order of the challenge.
    pub links: Vec<LinkReport>,
    /// One entry per site that takes part, in the order of the grid.
    pub sites: Vec<SiteReport>,
    /// One entry per workload, in the order of the challenge.
    pub workloads: Vec<WorkloadReport>,
    /// Every threshold with its asked and measured value.
    pub thresholds: Vec<ThresholdReport>,
    /// Comparisons of independent counters.
    pub crosschecks: Vec<CrossCheck>,
    /// Delivered files that were read back; `null` when none was asked for.
    pub audit: Option<Audit>,
    /// Rules, files and deletions of the catalogue; `null` where no rule was made.
    #[serde(default)]
    pub chain: Option<ChainReport>,
    /// RSEs that reported no checksum for their files: copies there are verified by size alone. Absent if there is
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified_by_size: Vec<String>,
    /// Transfers that failed, by class, most frequent first.
    pub errors: Vec<ErrorReport>,
    /// How much the parts of the hold window differ; `null` when it is too short to be divided.
    #[serde(default)]
    pub stability: Option<Stability>,
    /// How even the hold was, second by second; `null` where no rate is asked or rates change, and in runs of more than two hours.
    #[serde(default)]
    pub evenness: Option<Evenness>,
    /// Time series.
    pub series: Series,
    /// The states in which the transfers of each link waited. Absent in reports of earlier builds, and for links of which
    /// nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<LinkSignals>,
    /// Figures of hosts and storages over time. Absent in reports of simulated runs and of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gauges: Vec<GaugeSeries>,
    /// The parts of each link's deficit, from a world that knows them: the simulator. Absent elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deficits: Vec<LinkDeficit>,
    /// Causes that held links back, as far as the signals tell: the surest first. Absent where nothing was held back, and in reports of earlier
    /// builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Statement>,
    /// Statements that were made while the run went on, and taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<Change>,
    /// The missing bits of the links that were held back, by bin and cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledger: Vec<LinkLedger>,
    /// Faults of the challenge, in the order of its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultReport>,
    /// The events of the run, in order of time.
    pub events: Vec<Event>,
    /// Every drawn or derived parameter, for the record.
    pub parameters: BTreeMap<String, String>,
}

/// The verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every threshold holds, and no counter contradicts another.
    Pass,
    /// Nothing was asked, and nothing failed.
    None,
    /// The windows vary too much, or ended too early, to be believed.
    Unstable,
    /// A threshold does not hold, or counters disagree.
    Fail,
}

impl Verdict {
    /// Returns the word used in reports: `pass`, `none`, `unstable` or `fail`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::None => "none",
            Self::Unstable => "unstable",
            Self::Fail => "fail",
        }
    }
}

/// The build that ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version of the release.
    pub version: String,
    /// Commit it was built from, where known.
    pub commit: Option<String>,
}

/// The machine that ran it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Processors usable by the run.
    pub cores: u32,
    /// Main memory, bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Type of the file system that held the data areas, e.g. `ext4`.
    pub scratch_filesystem: String,
    /// Share of processor time in use on the whole machine during the hold window, 0 to 1.
    #[serde(default)]
    pub cpu_busy_ratio: Option<f64>,
    /// Share of the hold window in which everything that ran waited for a disk (Linux pressure stall information, `io`, `full`).
    #[serde(default)]
    pub disk_stalled_ratio: Option<f64>,
    /// The same of memory.
    #[serde(default)]
    pub memory_stalled_ratio: Option<f64>,
}

/// The three windows of a run, back to back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    /// Injection rises to the asked rates.
    pub ramp: Window,
    /// Injection at the asked rates: the window the verdict is about.
    pub hold: Window,
    /// No injection; transfers under way may finish.
    pub drain: Window,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Start, seconds since the start of the run.
    pub start_s: f64,
    /// End, seconds since the start of the run.
    pub end_s: f64,
}

/// Figures of the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Sum of the asked rates; `null` when no workload asks for a rate.
    #[serde(with = "weir_units::bps::option", default)]
    pub asked_bps: Option<BitRate>,
    /// Verified bytes within the hold window ÷ its length.
    #[serde(with = "weir_units::bps::option", default)]
    pub achieved_bps: Option<BitRate>,
    /// `achieved_bps ÷ asked_bps`.
    pub ratio: Option<f64>,
    /// `asked_bps` × hold, plus the bytes that workloads without a rate plan to move.
    pub asked_bytes: u64,
    /// Sizes of all transfers that were submitted.
    pub injected_bytes: u64,
    /// Sizes of all transfers that finished with size and checksum verified.
    pub verified_bytes: u64,
    /// The part of `verified_bytes` within the hold window.
    pub hold_verified_bytes: u64,
    /// The part of `verified_bytes` within the ramp window.
    pub ramp_verified_bytes: u64,
    /// The part of `verified_bytes` within the drain window.
    pub drain_verified_bytes: u64,
    /// Bytes moved by transfers that failed or were cancelled.
    pub moved_bytes_failed: u64,
    /// Transfers submitted.
    pub transfers: u64,
    /// Finished transfers.
    pub finished: u64,
    /// Failed transfers.
    pub failed: u64,
    /// Transfers that the run cancelled because it was interrupted.
    #[serde(default)]
    pub cancelled: u64,
    /// The part of `cancelled` of which the run ended before the transfer service said how they ended.
    #[serde(default)]
    pub unanswered: u64,
    /// `finished ÷ (finished + failed)`.
    pub efficiency: Option<f64>,
    /// Attempts beyond the first, of all transfers.
    pub retries: u64,
    /// Delivered files deleted at the end of their lifetime or in the clean-up.
    pub deleted_files: u64,
    /// 95th percentile of injected minus wanted time over all transfers.
    pub lateness_p95_s: Option<f64>,
    /// The largest of them.
    pub lateness_max_s: Option<f64>,
    /// How long transfers took.
    #[serde(default)]
    pub times: Times,
}

/// Figures of one link (source RSE → destination RSE).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Site of the source.
    pub source_site: String,
    /// Site of the destination.
    pub destination_site: String,
    /// Asked rate; `null` when no workload asks for a rate here.
    #[serde(with = "weir_units::bps::option", default)]
    pub asked_bps: Option<BitRate>,
    /// Verified bytes within the hold window ÷ its length.
    #[serde(with = "weir_units::bps::option", default)]
    pub achieved_bps: Option<BitRate>,
    /// `achieved_bps ÷ asked_bps`.
    pub ratio: Option<f64>,
    /// Size of the files on this link; `null` when it varies.
    pub file_bytes: Option<u64>,
    /// Transfers submitted.
    pub transfers: u64,
    /// Finished transfers.
    pub finished: u64,
    /// Failed transfers.
    pub failed: u64,
    /// Cancelled transfers.
    #[serde(default)]
    pub cancelled: u64,
    /// Sizes of all transfers submitted.
    pub injected_bytes: u64,
    /// Sizes of the finished transfers.
    pub verified_bytes: u64,
    /// The part of `verified_bytes` within the hold window.
    #[serde(default)]
    pub hold_verified_bytes: u64,
    /// Failures by class, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Finished transfers by copy mode (`pull`, `push`, `streamed`).
    pub modes: BTreeMap<String, u64>,
    /// How long transfers took.
    #[serde(default)]
    pub times: Times,
}

/// Figures of one site; the plain fields concern traffic into the site.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    /// Its name.
    pub site: String,
    /// Sum of the asked rates of the links into it; `null` when none is asked for.
    #[serde(with = "weir_units::bps::option", default)]
    pub asked_bps: Option<BitRate>,
    /// Verified bytes that came in within the hold window ÷ its length.
    #[serde(with = "weir_units::bps::option", default)]
    pub achieved_bps: Option<BitRate>,
    /// `achieved_bps ÷ asked_bps`.
    pub ratio: Option<f64>,
    /// Transfers into it.
    pub transfers: u64,
    /// Finished transfers.
    #[serde(default)]
    pub finished: u64,
    /// Failed transfers.
    pub failed: u64,
    /// Cancelled transfers.
    #[serde(default)]
    pub cancelled: u64,
    /// Sizes of the transfers into it that finished.
    #[serde(default)]
    pub verified_bytes: u64,
    /// The part of `verified_bytes` within the hold window.
    #[serde(default)]
    pub hold_verified_bytes: u64,
    /// Failures of transfers into it by class, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Traffic out of the site.
    pub egress: Egress,
}

/// Traffic out of a site.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Egress {
    /// Sum of the asked rates of the links out of it.
    #[serde(with = "weir_units::bps::option", default)]
    pub asked_bps: Option<BitRate>,
    /// Verified bytes that left within the hold window ÷ its length.
    #[serde(with = "weir_units::bps::option", default)]
    pub achieved_bps: Option<BitRate>,
    /// `achieved_bps ÷ asked_bps`.
    pub ratio: Option<f64>,
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Class in kebab case, e.g. `no-space`.
    pub class: String,
    /// Transfers that ended so.
    pub count: u64,
    /// Text of the first of them; secrets removed.
    pub sample: String,
    /// Party at fault in the first of them, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<String>,
}

/// Failures of one class in the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// Class in kebab case, e.g. `no-space`.
    pub class: String,
    /// Transfers that ended so.
    pub count: u64,
    /// End of the first of them, seconds since the start.
    pub first_seen_s: f64,
    /// Text of the first of them; secrets removed.
    pub sample: String,
    /// Party at fault in the first of them, where known.
    pub party: Option<String>,
    /// The remedy, where known.
    pub remedy: Option<String>,
}

/// One threshold, asked and measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThresholdReport {
    /// Readable name, e.g. `site QMUL ratio`.
    pub name: String,
    /// The subject.
    pub subject: Subject,
    /// Metric in kebab or snake case as written in the challenge file.
    pub metric: String,
    /// `>=` or `<=`.
    pub comparison: String,
    /// The limit.
    pub asked: f64,
    /// The measured value; `null` when there is none (then it does not pass).
    pub measured: Option<f64>,
    /// Unit of both; empty for a pure number.
    pub unit: String,
    /// Whether the measured value keeps the limit.
    pub pass: bool,
}

/// The subject of a threshold; exactly one field is present.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// A site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// A link, `A→B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// A workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The whole run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub total: bool,
}

/// Delivered files that were read back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Share of the delivered files asked for, per cent.
    pub asked_percent: f64,
    /// Files read back.
    pub files: u64,
    /// Files whose bytes differ from the ones sent, or could not be read.
    pub failed: u64,
    /// Bytes read back.
    pub bytes: u64,
    /// Failed files by the storage element that holds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_at: BTreeMap<String, u64>,
    /// Texts of the first failures.
    pub samples: Vec<String>,
}

/// How much the parts of the hold window differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Number of equal parts.
    pub parts: u32,
    /// Length of one part.
    pub part_s: f64,
    /// Standard deviation ÷ mean of the total over the parts; `null` when nothing was achieved.
    pub cv_total: Option<f64>,
    /// The same for the traffic into each site.
    pub cv_sites: BTreeMap<String, Option<f64>>,
}

/// Time series in equal bins from the start of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of a bin.
    pub bin_s: f64,
    /// Number of bins; every list below has this length.
    pub n_bins: u64,
    /// The whole run.
    pub total: TotalSeries,
    /// The traffic into each site.
    pub sites: IndexMap<String, RateSeries>,
    /// Each link, by its name `A→B`.
    pub links: IndexMap<String, RateSeries>,
}

/// Series of the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalSeries {
    /// Asked rate.
    #[serde(with = "weir_units::bps::series", default)]
    pub asked_bps: Vec<Option<BitRate>>,
    /// Achieved rate: verified bytes spread over each transfer's duration ÷ bin.
    #[serde(with = "weir_units::bps::series", default)]
    pub achieved_bps: Vec<Option<BitRate>>,
    /// Transfers active at the last sample in the bin.
    pub active: Vec<Option<u64>>,
    /// Transfers under way, as the mean over the bin: the time of the ended transfers in it, ÷ bin; the last sample if
    /// none of them was in it.
    #[serde(default)]
    pub active_mean: Vec<Option<f64>>,
    /// Transfers submitted and waiting at the end of the bin.
    pub queued: Vec<Option<u64>>,
    /// Transfers that failed in the bin.
    pub failed: Vec<Option<u64>>,
}

/// Asked and achieved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RateSeries {
    /// Asked rate.
    #[serde(with = "weir_units::bps::series", default)]
    pub asked_bps: Vec<Option<BitRate>>,
    /// Achieved rate.
    #[serde(with = "weir_units::bps::series", default)]
    pub achieved_bps: Vec<Option<BitRate>>,
    /// Of links that got less than 98 % of their asked rate, or lost transfers: the rate at which transfers were injected. Absent elsewhere.
    #[serde(with = "weir_units::bps::series", default, skip_serializing_if = "Vec::is_empty")]
    pub injected_bps: Vec<Option<BitRate>>,
    /// Of links: how many transfers were injected in each bin. Absent likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected_files: Vec<u64>,
    /// Of links: sizes of the transfers that were given up in a bin ÷ its length. Absent likewise.
    #[serde(with = "weir_units::bps::series", default, skip_serializing_if = "Vec::is_empty")]
    pub lost_bps: Vec<Option<BitRate>>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since the start of the run; negative before it.
    pub t_s: f64,
    /// The event.
    pub text: String,
}

/// Why a text is not a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It is not JSON of the right shape.
    #[error("not a report")]
    Parse(#[from] serde_json::Error),
    /// It is a report of another contract.
    #[error("report of contract {found:?}, this build reads {SCHEMA:?}")]
    Schema {
        /// The contract found.
        found: String,
    },
}

impl Report {
    /// Reads a report from JSON.
    ///
    /// # Errors
    /// When the text is no JSON of this shape, or of another contract than [`SCHEMA`].
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(ReportError::Schema { found: head.schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Writes the report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report has only string keys and finite numbers");
        text.push('\n');
        text
    }
}

/// Returns `part ÷ whole`, or `None` when the whole is zero.
#[expect(clippy::cast_precision_loss, reason = "a ratio is printed with three digits")]
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}
