//! The kinds of faults, with their places and units.

use std::fmt::Write as _;

use super::place::Service;

/// The unit of an amount, and the key of the challenge file that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    /// No degrees, no key.
    Whole,
    /// `rate`.
    Rate,
    /// `delay`.
    Delay,
    /// `share`.
    Share,
    /// `limit`.
    Limit,
    /// `size`.
    Size,
    /// `factor`.
    Factor,
}

impl Gauge {
    /// The key of the challenge file.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Gauge::Whole => None,
            Gauge::Rate => Some("rate"),
            Gauge::Delay => Some("delay"),
            Gauge::Share => Some("share"),
            Gauge::Limit => Some("limit"),
            Gauge::Size => Some("size"),
            Gauge::Factor => Some("factor"),
        }
    }
}

/// A place that a kind can be at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKey {
    /// A storage element.
    Rse,
    /// A site.
    Site,
    /// A link.
    Link,
    /// A segment.
    Segment,
    /// One of the services.
    Service(Service),
    /// A workload.
    Workload,
}

impl PlaceKey {
    /// The key of the challenge file.
    pub fn key(self) -> &'static str {
        match self {
            PlaceKey::Rse => "rse",
            PlaceKey::Site => "site",
            PlaceKey::Link => "link",
            PlaceKey::Segment => "segment",
            PlaceKey::Service(_) => "service",
            PlaceKey::Workload => "workload",
        }
    }
}

/// A kind with its places, its unit and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct KindRow {
    /// The kind.
    pub kind: FaultKind,
    /// Where it can be.
    pub places: &'static [PlaceKey],
    /// The unit of its amount.
    pub gauge: Gauge,
    /// Whether it takes a direction at a storage element.
    pub has_way: bool,
    /// Other keys that it takes; those with `!` must be there.
    pub details: &'static [&'static str],
    /// Its effect, in one sentence.
    pub meaning: &'static str,
    /// Incidents of the sources that it can make.
    pub serves: &'static [&'static str],
}

/// Writes the enum, its words and its table from one list.
macro_rules! kinds {
    ($($variant:ident = $word:literal, [$($place:expr),+], $gauge:ident, $way:literal, [$($detail:literal),*], $meaning:literal, [$($serves:literal),*];)+) => {
        /// Kinds of faults. [`FaultKind::row`] describes each variant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the table of rows has a sentence for each")]
        pub enum FaultKind { $($variant,)+ }

        impl FaultKind {
            /// Every kind, in the order of the handbook.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$variant,)+];

            /// The word of the challenge file.
            pub fn as_str(self) -> &'static str {
                match self { $(FaultKind::$variant => $word,)+ }
            }

            /// Its places, its unit and its meaning.
            pub fn row(self) -> KindRow {
                match self {
                    $(FaultKind::$variant => KindRow {
                        kind: self,
                        places: &[$($place),+],
                        gauge: Gauge::$gauge,
                        has_way: $way,
                        details: &[$($detail),*],
                        meaning: $meaning,
                        serves: &[$($serves),*],
                    },)+
                }
            }
        }
    };
}

use PlaceKey::{Link, Rse, Segment, Site, Workload};

const TRANSFER: PlaceKey = PlaceKey::Service(Service::Transfer);
const ISSUER: PlaceKey = PlaceKey::Service(Service::Issuer);
const CATALOG: PlaceKey = PlaceKey::Service(Service::Catalog);

kinds! {
    SlowRead = "slow-read", [Rse], Rate, false, [], "Reads from the storage get at most `rate` together.", ["D3", "D42", "D45", "J6", "M3"];
    SlowWrite = "slow-write", [Rse], Rate, false, [], "Writes to the storage get at most `rate` together.", ["D3", "D42", "J5"];
    SlowDisk = "slow-disk", [Rse], Rate, false, [], "Reads and writes get at most `rate` together.", ["D3", "D42", "D75"];
    SlowStream = "slow-stream", [Rse], Rate, true, [], "One transfer gets at most `rate`.", ["J5", "D11", "D59"];
    SlowClose = "slow-close", [Rse], Delay, false, [], "The storage answers so much later after the last byte of a file.", ["D3", "M3", "M5"];
    ReadBack = "read-back", [Rse], Whole, false, [], "The storage reads each new file back for its checksum before it answers.", ["D3", "M3", "M5"];
    Mixing = "mixing", [Rse], Share, false, [], "Reads and writes at once cost this share of what the disks do; most when there are as many of one as of the other.", ["D42"];
    Connections = "connections", [Rse], Limit, true, [], "The storage serves at most `limit` transfers at once; others wait for a place.", ["D33", "D37", "D44", "D73", "C2"];
    Overload = "overload", [Rse], Limit, false, ["rate!"], "Up to `limit` transfers get `rate` together; with more of them the sum falls as their number rises.", ["J7", "D33", "D61", "D75"];
    Crash = "crash", [Rse], Limit, false, ["delay!"], "More than `limit` transfers at once take more memory than there is: the server dies and is back after `delay`.", ["M6", "D63"];
    SlowServer = "slow-server", [Rse], Rate, false, ["server!"], "One server of several carries at most `rate`.", ["D28", "D65", "D77", "D81", "M1", "M8"];
    Uneven = "uneven", [Rse], Share, false, [], "This share of transfers goes to any server, not to the least busy one.", ["D28", "D70", "M2"];
    Outage = "outage", [Rse, Site, Link, Segment, TRANSFER, ISSUER, CATALOG], Whole, false, [], "Nothing moves and nothing answers.", ["D2", "D26", "D31", "D40", "D50", "D51", "D79", "C3"];
    FrozenSite = "frozen-site", [Site], Whole, false, [], "The processes of the site's storages stop: connections stay open, and nothing answers.", ["D2", "D40", "D48"];
    KilledSite = "killed-site", [Site], Whole, false, [], "The processes of the site's storages are killed: open transfers break, and new ones begin when others have started.", ["D2", "M6", "D63"];
    SkewedClock = "skewed-clock", [Site], Delay, false, [], "The clocks of the site's storages are `delay` behind: by more than a minute, and they refuse tokens as not yet valid.", ["D53"];
    SlowDelete = "slow-delete", [Rse], Delay, false, [], "Each deletion takes so much longer.", ["D17", "D22", "D29", "M5"];
    Overwrite = "overwrite", [Rse], Share, false, [], "This share of files finds an old file of its name, which is deleted first.", ["D29", "M5"];
    Quota = "quota", [Rse], Size, false, [], "The storage holds at most `size` of the files that the challenge brings; deleted ones give their room back.", ["D18", "D76", "M4"];
    Failures = "failures", [Rse, Link], Share, true, ["error!", "mode", "above"], "This share of attempts fails with `error`; only copies in `mode`, only files above a size where these are given.", ["J2", "J3", "J4", "J8", "D32", "D41", "D47", "D48", "D58", "D62", "C1", "C4"];
    Vanish = "vanish", [Rse], Share, false, [], "This share of files is gone after its transfer has succeeded.", ["D47"];
    Corrupt = "corrupt", [Rse], Share, false, [], "This share of files has other bytes after its transfer has succeeded; its checksum stays.", ["D47"];
    Capacity = "capacity", [Site, Link, Segment], Rate, true, [], "All bytes there get at most `rate` together.", ["D26", "D45", "D74", "D78", "D82", "D83", "M1", "M8"];
    ForeignLoad = "foreign-load", [Site, Link, Segment], Rate, true, [], "Traffic of others takes `rate`.", ["D62", "D82", "M10"];
    RoundTrip = "round-trip", [Link], Delay, false, [], "The round trip takes so much longer.", ["D4", "D27", "D58"];
    Window = "window", [Link], Size, false, [], "A TCP stream has at most `size` on its way.", ["D4", "D58", "J1"];
    PacketLoss = "packet-loss", [Link], Share, false, [], "This share of packets is lost: a stream gets at most segment ÷ round trip × 1.22 ÷ √share (Mathis and others, 1997).", ["D31", "D83"];
    Mtu = "mtu", [Link], Size, false, [], "Packets of full size are dropped without a word: files above `size` stall after their first bytes.", ["J1"];
    Reroute = "reroute", [Link], Whole, false, ["to!"], "Traffic takes the segment `to` instead of its own.", ["D26", "D27", "D66", "D80"];
    Slots = "slots", [Rse, Link], Limit, true, [], "The transfer service may run at most `limit` transfers there at once.", ["D1", "D12", "D14", "D24", "D25", "D71"];
    Fifo = "fifo", [TRANSFER], Whole, false, [], "The transfer service starts transfers in the order in which they came, whatever their link: slow ones hold the slots.", ["D11", "D59", "D71"];
    LateDecisions = "late-decisions", [TRANSFER], Delay, false, [], "The transfer service decides only so often.", ["D7", "D10", "D40", "D57"];
    SlowStore = "slow-store", [TRANSFER], Delay, false, [], "Each commit of the transfer service takes so much longer.", ["D6", "D8", "D15", "D56"];
    FrozenStore = "frozen-store", [TRANSFER], Whole, false, [], "The transfer service can record nothing.", ["D5", "D21"];
    SlowIssuer = "slow-issuer", [ISSUER], Delay, false, [], "Each token takes so much longer.", ["D8", "D38", "D39", "D52"];
    FailingIssuer = "failing-issuer", [ISSUER], Share, false, [], "This share of tokens is refused.", ["D38", "D53"];
    TokenLifetime = "token-lifetime", [ISSUER], Delay, false, [], "A token is good for `delay` from the request of its transfer; nobody refreshes it.", ["D9", "D54"];
    Comb = "comb", [Workload], Delay, false, [], "The injector asks only so often, for all that is due at once.", ["D36", "M9"];
    SmallFiles = "small-files", [Workload], Size, false, [], "Files have this size instead of their own.", ["D20"];
    Pause = "pause", [Workload], Whole, false, [], "Nothing is injected.", ["D23", "D34"];
    Volume = "volume", [Workload], Factor, false, [], "So many times the asked volume is injected, while the injector counts it as whole.", ["D19", "D34", "M7"];
    MissingSource = "missing-source", [Workload], Share, false, [], "This share of files is not at its source.", ["M7", "D77"];
    WrongCounters = "wrong-counters", [Rse], Factor, false, [], "The storage counts so many times the bytes that passed; below zero where the factor is.", ["D67", "D68", "D69"];
    MissingCounters = "missing-counters", [Rse], Whole, false, [], "The storage counts nothing.", ["D60", "D64"];
    LateCounters = "late-counters", [Rse], Delay, false, [], "The storage counts bytes so much later.", ["D68"];
    LateSubmission = "late-submission", [CATALOG], Delay, false, [], "The catalogue hands each request to the transfer service so much later.", ["D15", "D16"];
    SlowSubmission = "slow-submission", [CATALOG], Delay, false, [], "The catalogue hands requests over one after the other, each for so long.", ["D15", "D16", "D39"];
    LateDeletion = "late-deletion", [CATALOG], Delay, false, [], "The catalogue deletes each copy so much later than it could.", ["D17", "D22"];
    Controller = "controller", [Workload], Limit, false, ["delay!"], "Another controller stops the workload for `delay` whenever more than `limit` of its transfers run.", ["D34", "D65", "D66"];
}

impl FaultKind {
    /// Whether it acts on the processes that run the storages of a site, not on the site's connections.
    pub fn is_of_processes(self) -> bool {
        matches!(
            self,
            FaultKind::FrozenSite | FaultKind::KilledSite | FaultKind::SkewedClock
        )
    }
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Kinds that the file may not use yet, with the part of the grid that they wait for.
pub const WAITING: &[(&str, &str)] = &[
    ("tape-drives", "tape"),
    ("tape-buffer", "tape"),
    ("pin-leak", "tape"),
    ("stage-errors", "tape"),
    ("duplicate-stage", "tape"),
    ("cache-purge", "caches"),
    ("cache-load", "caches"),
    ("allocation", "control of the wide-area network"),
];

/// Writes the table of kinds for the handbook, in Markdown.
pub fn kinds_markdown() -> String {
    let mut text = String::from("| kind | place | keys | effect | incidents |\n|---|---|---|---|---|\n");
    for kind in FaultKind::ALL {
        let row = kind.row();
        let place = |place: &PlaceKey| match place {
            PlaceKey::Service(service) => format!("service `{}`", service.as_str()),
            place => format!("`{}`", place.key()),
        };
        let places: Vec<String> = row.places.iter().map(place).collect();
        let details = row.details.iter().map(|key| key.trim_end_matches('!'));
        let keys: Vec<String> = row
            .gauge
            .key()
            .into_iter()
            .chain(details)
            .map(|key| format!("`{key}`"))
            .collect();
        let _ = writeln!(
            text,
            "| {kind} | {} | {} | {} | {} |",
            places.join(", "),
            keys.join(", "),
            row.meaning,
            row.serves.join(", ")
        );
    }
    text
}
