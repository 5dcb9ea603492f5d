//! The simulated world of a challenge file: the properties that a real world would bring by itself.
//!
//! Everything is optional. A table of the lists `site`, `rse` and `link` may describe many objects by a pattern. Where
//! several tables describe one object, the last one that sets a key counts, key by key ([`SimSpec::rse`] and its
//! sisters merge them). A real run ignores all of it.

mod group;
mod keys;
mod read;
mod rucio;
mod segment;
mod signals;
mod values;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_model::file::Table;
use weir_model::{Link, LinkPattern, Pattern, RseName, SiteName};
use weir_units::{BitRate, Timestamp};

pub use group::Group;
pub use rucio::{CatalogKind, RucioModel};
pub use segment::Segment;
pub use signals::SignalsModel;

/// Every table about the simulated world, in the order of the handbook.
pub const SIM_TABLES: &[&Table] = &[
    &keys::SIM,
    &keys::STORE,
    &keys::INTERVAL,
    &keys::TOKENS,
    &signals::SIGNALS,
    &keys::ACTIVITY,
    &keys::SEGMENT,
    &keys::CHANGE,
    &group::GROUP,
    &keys::SITE,
    &keys::RSE,
    &keys::POINT,
    &keys::SERVERS,
    &keys::LINK,
    &keys::FTS,
    &rucio::RUCIO,
    &keys::FAILURES,
];

/// The simulated world; see the module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimSpec {
    /// The moment at which the run begins in the simulated world's calendar; `None` if it has none.
    pub start: Option<Timestamp>,
    /// Parameters of this world that were not measured, in words.
    pub assumed: Vec<String>,
    /// Changes within this time are taken together; zero for each at its own moment.
    pub tick: Duration,
    /// Workloads whose asked rates the policy `weir-targets` knows; `None` for all.
    pub targets: Option<Vec<String>>,
    /// How often due files are injected; `None` for a quarter of the workload's cycle.
    pub injection_interval: Option<Duration>,
    /// How often one transfer of each link reports how far it is; zero for never.
    pub marker_interval: Duration,
    /// The simulated store, tokens, network and so on that are one for all.
    pub common: Common,
    /// Store of the transfer service.
    pub store: StoreModel,
    /// Token service; `None` if tokens cost nothing.
    pub tokens: Option<TokenModel>,
    /// How completely and exactly the services tell the waits.
    pub signals: SignalsModel,
    /// Imitation of FTS.
    pub fts: FtsModel,
    /// The catalogue that keeps the rules.
    pub catalog: CatalogKind,
    /// The model of Rucio's daemons.
    pub rucio: RucioModel,
    /// Transfers per link of the policy `fixed`.
    pub fixed_active: u32,
    /// Urgency and shares, by activity.
    pub activities: BTreeMap<String, ActivityModel>,
    /// Shared pieces of the network, in the order of the file.
    pub segments: Vec<Segment>,
    /// Resources that storage elements share, in the order of the file.
    pub groups: Vec<Group>,
    sites: Vec<(Pattern, SiteModel)>,
    rses: Vec<(Pattern, RseModel)>,
    links: Vec<(LinkPattern, LinkModel)>,
}

/// Properties of every transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// Time that each attempt takes before bytes move, beside its round trips.
    pub startup: Duration,
    /// Round trips before bytes move: TCP, TLS, the copy request, redirection, the first byte.
    pub handshakes: u32,
    /// Time for closing, size and checksum after the last byte.
    pub finalization: Duration,
    /// Bytes in flight share a bottleneck by 1 ÷ RTT to this power.
    pub rtt_exponent: f64,
    /// After this time without a byte an attempt fails.
    pub stall_timeout: Duration,
    /// Largest total rate of streamed copies: they go through the transfer service's own host.
    pub streamed_rate: Option<BitRate>,
}

impl Default for Common {
    /// Four round trips and half a second to start; half a second to close. Weights are the root of the round-trip time
    /// (between Reno's 1 and the near 0 of BBR; CUBIC is measured at 0.3 to 0.5). Stalls end after the 180 s of gfal2.
    fn default() -> Self {
        Self {
            startup: Duration::from_millis(500),
            handshakes: 4,
            finalization: Duration::from_millis(500),
            rtt_exponent: 0.5,
            stall_timeout: Duration::from_secs(180),
            streamed_rate: None,
        }
    }
}

/// A stretch of time, from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Its begin.
    pub at: Duration,
    /// Its length; above zero.
    pub length: Duration,
}

/// The store behind the transfer service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreModel {
    /// Time for one commit; records that arrive meanwhile go into the next.
    pub latency: Duration,
    /// Times in which nothing is committed, in the order of the file.
    pub freezes: Vec<Interval>,
}

impl Default for StoreModel {
    /// 5 ms, a group commit of PostgreSQL on a solid-state disk.
    fn default() -> Self {
        Self {
            latency: Duration::from_millis(5),
            freezes: Vec::new(),
        }
    }
}

/// The token service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenModel {
    /// Tokens per second, in all; above zero.
    pub rate: f64,
    /// Time for one token without queue.
    pub latency: Duration,
    /// Tokens that each attempt needs.
    pub per_attempt: u32,
}

/// How an activity is treated, by every policy alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActivityModel {
    /// From 1 to 5, the most urgent.
    pub priority: u8,
    /// Its share beside other activities; above zero.
    pub share: f64,
}

impl Default for ActivityModel {
    fn default() -> Self {
        Self {
            priority: 3,
            share: 1.0,
        }
    }
}

/// One point of the curve of throughput over concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurvePoint {
    /// Transfers at once; above zero.
    pub active: u32,
    /// Their total rate.
    pub rate: BitRate,
}

/// Servers of one kind in front of a storage element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    /// How many; above zero.
    pub count: u32,
    /// Rate of each, in and out together.
    pub rate: BitRate,
    /// Transfers that each runs at once; more wait.
    pub slots: u32,
}

/// Failures by error class, each with the share of attempts that end so.
pub type FailureShares = BTreeMap<String, f64>;

/// Defines a struct of optional fields that can be laid over another.
macro_rules! layers {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: Option<$type>,)+
        }

        impl $name {
            /// Overrides keys by those that `later` sets.
            fn lay(&mut self, later: &Self) {
                $(if later.$field.is_some() { self.$field.clone_from(&later.$field); })+
            }
        }
    };
}

layers!(
    /// A site's connection to the wide area network.
    SiteModel {
        /// Largest inward rate.
        inward: BitRate,
        /// Largest outward rate.
        outward: BitRate,
        /// Traffic into it that is not ours.
        background_in: BitRate,
        /// Traffic out of it that is not ours.
        background_out: BitRate,
        /// How far that traffic moves about its mean, from 0 to 1.
        background_variation: f64,
        /// Widens every rate of this table by a factor drawn per site, from 1 ÷ (1 + spread) to 1 + spread.
        spread: f64,
    }
);

layers!(
    /// A storage element.
    RseModel {
        /// Largest read rate.
        read: BitRate,
        /// Largest write rate.
        write: BitRate,
        /// Largest rate of reads and writes together.
        disk: BitRate,
        /// Share of `disk` that is lost when reads and writes are equal.
        mixing_loss: f64,
        /// Total rate of reads, by their number.
        read_curve: Vec<CurvePoint>,
        /// Total rate of writes, by their number.
        write_curve: Vec<CurvePoint>,
        /// Servers through which all bytes pass.
        servers: Vec<Servers>,
        /// How unevenly transfers are spread over the servers: 0 the least busy one, 1 at random.
        imbalance: f64,
        /// Largest rate of one transfer at a server.
        stream_rate: BitRate,
        /// Whether each file is read back for its checksum before the transfer ends.
        readback: bool,
        /// Concurrent reads; more wait.
        read_connections: u32,
        /// Concurrent writes; more wait.
        write_connections: u32,
        /// Share of transfers that find an old file, which is deleted first.
        overwrite: f64,
        /// Time of one deletion when nothing else happens.
        delete_time: Duration,
        /// Writes at once that double the time of a deletion.
        delete_load: u32,
        /// Share of attempts that fail here, by class.
        failures: FailureShares,
        /// Times in which no byte moves.
        outages: Vec<Interval>,
        /// Transfers into it that every policy allows at once.
        max_active_in: u32,
        /// Transfers out of it that every policy allows at once.
        max_active_out: u32,
        /// Rate into it that every policy that can is told to keep.
        max_rate_in: BitRate,
        /// Rate out of it that every policy that can is told to keep.
        max_rate_out: BitRate,
        /// Widens rates and times of this table by a factor drawn per RSE, from 1 ÷ (1 + spread) to 1 + spread.
        spread: f64,
    }
);

layers!(
    /// A link.
    LinkModel {
        /// Its capacity.
        capacity: BitRate,
        /// Its round-trip time.
        rtt: Duration,
        /// Segments that it uses, by name.
        via: Vec<String>,
        /// Window of one TCP stream: a stream gets at most window ÷ RTT.
        window: weir_units::Bytes,
        /// TCP streams of one transfer.
        streams: u32,
        /// Largest rate of one transfer, whatever the window.
        stream_rate: BitRate,
        /// Share of attempts that fail here, by class.
        failures: FailureShares,
        /// Share of attempts in which bytes stop moving.
        stalls: f64,
        /// Transfers over it that every policy allows at once.
        max_active: u32,
        /// Widens rates and the round trip of this table by a factor drawn per link, from 1 ÷ (1 + spread) to 1 + spread.
        spread: f64,
    }
);

/// Configuration of the imitation of FTS. Defaults are those of FTS 3.14 where it has one; names in parentheses are its
/// own.
#[derive(Debug, Clone, PartialEq)]
pub struct FtsModel {
    /// Least transfers per link that the optimizer decides (`t_link_config`, the row `*→*` that ships: 2).
    pub link_min: u32,
    /// Most transfers per link that the optimizer decides (the same row: 130; 200 in the data challenge of 2024).
    pub link_max: u32,
    /// Transfers into or out of a storage element without a limit of its own (`t_se`, the row `*` that ships: 200 and 200).
    pub se_max: u32,
    /// Optimizer mode: 1 conservative, 2 normal, 3 aggressive (the row `*→*` that ships: 2).
    pub mode: u8,
    /// Pause between two cycles of the scheduler (`SchedulingInterval`: 2 s).
    pub scheduler_interval: Duration,
    /// Time of a scheduler cycle for each link with waiting files. The scheduler counts the active transfers there and
    /// queries the highest priority, in a table of all files of a week. The duration is not published; zero unless it
    /// is fitted.
    pub scheduler_per_link: Duration,
    /// Pause between two cycles of the optimizer (`OptimizerInterval`: 60 s).
    pub optimizer_interval: Duration,
    /// Time that a cycle of the optimizer takes with nothing queued: 6 to 12 minutes in a large instance, up to 3 h in 2024.
    pub optimizer_cycle: Duration,
    /// Time that each queued transfer adds to it; not published.
    pub optimizer_cycle_per_queued: Duration,
    /// How often the server is restarted, which ends a cycle of the optimizer wherever it is: each hour in 2024; zero for never.
    pub restart_interval: Duration,
    /// Transfers that run at once in the whole instance (`MaxUrlCopyProcesses`: 400 on each node).
    pub url_copy_max: u32,
    /// Pause before an attempt is made again (120 s, where a job says 0).
    pub retry_delay: Duration,
}

impl Default for FtsModel {
    /// FTS 3.14 as released: `*→*` 2 to 130 in mode 2, 200 per storage element, scheduler each 2 s, optimizer each 60
    /// s. It has 400 processes per node (here one node of ten, the size of a large instance), and retries after 120 s.
    fn default() -> Self {
        Self {
            link_min: 2,
            link_max: 130,
            se_max: 200,
            mode: 2,
            scheduler_interval: Duration::from_secs(2),
            scheduler_per_link: Duration::ZERO,
            optimizer_interval: Duration::from_secs(60),
            optimizer_cycle: Duration::ZERO,
            optimizer_cycle_per_queued: Duration::ZERO,
            restart_interval: Duration::ZERO,
            url_copy_max: 4_000,
            retry_delay: Duration::from_secs(120),
        }
    }
}

impl SimSpec {
    /// Merges the tables of a site.
    pub fn site(&self, name: &SiteName) -> SiteModel {
        let mut model = SiteModel::default();
        for (pattern, layer) in &self.sites {
            if pattern.fits(name.as_str()) {
                model.lay(layer);
            }
        }
        model
    }

    /// Merges the tables of an RSE.
    pub fn rse(&self, name: &RseName) -> RseModel {
        let mut model = RseModel::default();
        for (pattern, layer) in &self.rses {
            if pattern.fits(name.as_str()) {
                model.lay(layer);
            }
        }
        model
    }

    /// Merges the tables of a link.
    pub fn link(&self, link: &Link) -> LinkModel {
        let mut model = LinkModel::default();
        for (pattern, layer) in &self.links {
            if pattern.fits(link) {
                model.lay(layer);
            }
        }
        model
    }

    /// The shared pieces of the network, followed by groups with a capacity.
    pub fn all_segments(&self) -> impl Iterator<Item = &Segment> {
        let of_groups = self.groups.iter().filter_map(|group| group.segment.as_ref());
        self.segments.iter().chain(of_groups)
    }

    /// How an activity is treated.
    pub fn activity(&self, name: &str) -> ActivityModel {
        self.activities.get(name).copied().unwrap_or_default()
    }
}
