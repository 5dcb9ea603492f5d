//! The table `[sim.rucio]`: the daemons of a Rucio, beside which Weir's catalogue is put.

use std::time::Duration;

use toml::de::DeValue;
use weir_model::file::{FromValue, Key, Refusal, Section, Table, one_of};

use super::values::{number, step, time, zero_or_step};

pub(crate) const RUCIO: Table = Table {
    title: "[sim.rucio]",
    keys: &[
        Key::new(
            "injection_interval",
            "duration",
            "`15 m`",
            "How often the injector makes rules, for all links at the same moment; a workload with a longer cycle keeps that.",
        ),
        Key::new("submitters", "number", "5", "Threads of the submitter."),
        Key::new(
            "submitter_bulk",
            "number",
            "100",
            "Requests that a thread takes at a time.",
        ),
        Key::new(
            "group_bulk",
            "number",
            "50",
            "Files of one job, at most; they are of one rule.",
        ),
        Key::new(
            "submitter_sleep",
            "duration",
            "`10 s`",
            "Pause of a thread that found fewer requests than it takes at a time.",
        ),
        Key::new(
            "skips_expired",
            "true or false",
            "true",
            "Whether the submitter skips requests of ended rules: since 34.1.",
        ),
        Key::new(
            "service_latency",
            "duration",
            "`100 ms`",
            "Time of one call of the transfer service.",
        ),
        Key::new(
            "throttler_max",
            "number",
            "none",
            "Requests into each destination that the throttler lets out; without it requests are submitted as they come.",
        ),
        Key::new(
            "throttler_interval",
            "duration",
            "`10 m`",
            "Pause between two passes of the throttler.",
        ),
        Key::new("pollers", "number", "1", "Threads of the poller."),
        Key::new(
            "poller_bulk",
            "number",
            "1000",
            "Requests that a thread asks for at a time.",
        ),
        Key::new(
            "poller_sleep",
            "duration",
            "`60 s`",
            "Least time between two passes that find little.",
        ),
        Key::new(
            "poller_older_than",
            "duration",
            "`60 s`",
            "A request that was asked for is not asked for again before this time.",
        ),
        Key::new("finishers", "number", "1", "Threads of the finisher."),
        Key::new(
            "finisher_sleep",
            "duration",
            "`30 s`",
            "Least time between two passes that find little.",
        ),
        Key::new(
            "cleaners",
            "number",
            "1",
            "Threads of the judge that deletes rules which have ended.",
        ),
        Key::new("cleaner_sleep", "duration", "`60 s`", "Least time between two passes."),
        Key::new(
            "repairer_sleep",
            "duration",
            "`60 s`",
            "Pause between two passes of the judge that repairs.",
        ),
        Key::new(
            "reapers",
            "number",
            "8",
            "Threads of the reaper, for all RSEs together.",
        ),
        Key::new(
            "reaper_chunk",
            "number",
            "100",
            "Copies at one RSE that a thread deletes, one after the other.",
        ),
        Key::new(
            "reaper_window",
            "duration",
            "`10 m`",
            "Copies that a thread has not deleted after this time are given to another one, too.",
        ),
        Key::new("reaper_sleep", "duration", "`60 s`", "Least time between two passes."),
        Key::new("reaper_threads_per_host", "number", "5", "Threads at one RSE."),
        Key::new(
            "rule_per_file",
            "duration",
            "`2 ms`",
            "Time of the database for a file of a new rule.",
        ),
        Key::new(
            "submit_per_file",
            "duration",
            "`6600 us`",
            "Time of a submitter for a file.",
        ),
        Key::new(
            "poll_per_file",
            "duration",
            "`3100 us`",
            "Time of a poller for a file that has come or failed.",
        ),
        Key::new(
            "finish_per_file",
            "duration",
            "`4600 us`",
            "Time of a finisher for a file.",
        ),
        Key::new(
            "clean_per_file",
            "duration",
            "`2700 us`",
            "Time of a cleaner for a file that has not come. It holds the rows of the whole rule until the last one is done.",
        ),
        Key::new(
            "clean_per_copy",
            "duration",
            "`730 us`",
            "Time of a cleaner for a file that has come.",
        ),
        Key::new(
            "reap_per_file",
            "duration",
            "`1250 us`",
            "Time of the database for a deleted copy.",
        ),
    ],
};

/// The catalogue that keeps the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CatalogKind {
    /// Weir's catalogue.
    #[default]
    Weir,
    /// A model of Rucio's daemons, made after the source of Rucio 41.5.1: Rucio itself does not run.
    Rucio,
}

impl CatalogKind {
    /// Both.
    pub const ALL: [CatalogKind; 2] = [CatalogKind::Weir, CatalogKind::Rucio];

    /// The word of the challenge file and of the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            CatalogKind::Weir => "weir",
            CatalogKind::Rucio => "rucio",
        }
    }
}

impl FromValue for CatalogKind {
    fn from_value(value: &DeValue<'_>) -> Result<Self, Refusal> {
        one_of(
            &String::from_value(value)?,
            &Self::ALL.map(|kind| (kind.as_str(), kind)),
        )
    }
}

impl std::fmt::Display for CatalogKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Configuration of the model of Rucio's daemons. Numbers without a remark are the defaults of Rucio 41.5.1's command
/// lines. Times for a file were measured by `weir-bench catalog --only "the daemons of Rucio"` (docs/benchmarks-services.md).
#[derive(Debug, Clone, PartialEq)]
pub struct RucioModel {
    /// How often rules are made (`dc_inject`: 900 s).
    pub injection_interval: Duration,
    /// Threads of the submitter (CMS's configuration: 5).
    pub submitters: u32,
    /// Requests that a thread of the submitter takes (`--bulk`).
    pub submitter_bulk: u32,
    /// Files of one job (`--group-bulk`: 1; CMS's configuration: 50).
    pub group_bulk: u32,
    /// Pause of a submitter that found little (`--sleep-time`: 600 s; Rucio's Helm chart: 10 s).
    pub submitter_sleep: Duration,
    /// Whether requests of rules that have ended are passed over (issue 6505, since 34.1).
    pub skips_expired: bool,
    /// Time of one call of the transfer service; set, not published.
    pub service_latency: Duration,
    /// Requests into each destination that the throttler lets out; `None` without a throttler.
    pub throttler_max: Option<u32>,
    /// Pause between two passes of the throttler (`--sleep-time`).
    pub throttler_interval: Duration,
    /// Threads of the poller.
    pub pollers: u32,
    /// Requests that a thread of the poller takes (`--db-bulk`).
    pub poller_bulk: u32,
    /// Least time between two passes that find little (the default in the code; on the command line 300 s).
    pub poller_sleep: Duration,
    /// Time before a request is asked for again (`--older-than`).
    pub poller_older_than: Duration,
    /// Threads of the finisher.
    pub finishers: u32,
    /// Least time between two passes that find little (`--sleep-time`).
    pub finisher_sleep: Duration,
    /// Threads of the cleaner.
    pub cleaners: u32,
    /// Least time between two passes (`--sleep-time`).
    pub cleaner_sleep: Duration,
    /// Pause between two passes of the repairer (`--sleep-time`).
    pub repairer_sleep: Duration,
    /// Threads of the reaper (`--threads`: 1; CMS's configuration: 8).
    pub reapers: u32,
    /// Copies of a chunk (`--chunk-size`).
    pub reaper_chunk: u32,
    /// Time after which a chunk is given to another thread, too (`--delay-seconds`).
    pub reaper_window: Duration,
    /// Least time between two passes (`--sleep-time`).
    pub reaper_sleep: Duration,
    /// Threads at one RSE (`max_deletion_threads`: 5).
    pub reaper_threads_per_host: u32,
    /// Time for a file of a new rule.
    pub rule_per_file: Duration,
    /// Time of a submitter for a file, beside the call.
    pub submit_per_file: Duration,
    /// Time of a poller for a file that has ended.
    pub poll_per_file: Duration,
    /// Time of a finisher for a file.
    pub finish_per_file: Duration,
    /// Time of a cleaner for a file that has not come, beside the call that cancels it.
    pub clean_per_file: Duration,
    /// Time of a cleaner for a file that has come.
    pub clean_per_copy: Duration,
    /// Time for a deleted copy, beside its deletion.
    pub reap_per_file: Duration,
}

impl Default for RucioModel {
    fn default() -> Self {
        let (seconds, micros) = (Duration::from_secs, Duration::from_micros);
        Self {
            injection_interval: seconds(900),
            submitters: 5,
            submitter_bulk: 100,
            group_bulk: 50,
            submitter_sleep: seconds(10),
            skips_expired: true,
            service_latency: Duration::from_millis(100),
            throttler_max: None,
            throttler_interval: seconds(600),
            pollers: 1,
            poller_bulk: 1_000,
            poller_sleep: seconds(60),
            poller_older_than: seconds(60),
            finishers: 1,
            finisher_sleep: seconds(30),
            cleaners: 1,
            cleaner_sleep: seconds(60),
            repairer_sleep: seconds(60),
            reapers: 8,
            reaper_chunk: 100,
            reaper_window: seconds(600),
            reaper_sleep: seconds(60),
            reaper_threads_per_host: 5,
            rule_per_file: micros(2_000),
            submit_per_file: micros(6_600),
            poll_per_file: micros(3_100),
            finish_per_file: micros(4_600),
            clean_per_file: micros(2_700),
            clean_per_copy: micros(730),
            reap_per_file: micros(1_250),
        }
    }
}

/// Reads the table.
pub(super) fn rucio(table: &Section<'_>) -> RucioModel {
    let default = RucioModel::default();
    let count = |key: &str, default: u32| number(table, key).unwrap_or(default);
    let pause = |key: &str, default: Duration| step(table, key).unwrap_or(default);
    let length = |key: &str, default: Duration| time(table, key).unwrap_or(default);
    RucioModel {
        injection_interval: pause("injection_interval", default.injection_interval),
        submitters: count("submitters", default.submitters),
        submitter_bulk: count("submitter_bulk", default.submitter_bulk),
        group_bulk: count("group_bulk", default.group_bulk),
        submitter_sleep: pause("submitter_sleep", default.submitter_sleep),
        skips_expired: table.optional("skips_expired").unwrap_or(default.skips_expired),
        service_latency: length("service_latency", default.service_latency),
        throttler_max: number(table, "throttler_max"),
        throttler_interval: pause("throttler_interval", default.throttler_interval),
        pollers: count("pollers", default.pollers),
        poller_bulk: count("poller_bulk", default.poller_bulk),
        poller_sleep: pause("poller_sleep", default.poller_sleep),
        poller_older_than: zero_or_step(table, "poller_older_than").unwrap_or(default.poller_older_than),
        finishers: count("finishers", default.finishers),
        finisher_sleep: pause("finisher_sleep", default.finisher_sleep),
        cleaners: count("cleaners", default.cleaners),
        cleaner_sleep: pause("cleaner_sleep", default.cleaner_sleep),
        repairer_sleep: pause("repairer_sleep", default.repairer_sleep),
        reapers: count("reapers", default.reapers),
        reaper_chunk: count("reaper_chunk", default.reaper_chunk),
        reaper_window: pause("reaper_window", default.reaper_window),
        reaper_sleep: pause("reaper_sleep", default.reaper_sleep),
        reaper_threads_per_host: count("reaper_threads_per_host", default.reaper_threads_per_host),
        rule_per_file: length("rule_per_file", default.rule_per_file),
        submit_per_file: length("submit_per_file", default.submit_per_file),
        poll_per_file: length("poll_per_file", default.poll_per_file),
        finish_per_file: length("finish_per_file", default.finish_per_file),
        clean_per_file: length("clean_per_file", default.clean_per_file),
        clean_per_copy: length("clean_per_copy", default.clean_per_copy),
        reap_per_file: length("reap_per_file", default.reap_per_file),
    }
}
