//! Metrics of the endpoint. Each is defined in `docs/metrics-storage.md`, with the event that starts and ends it.

mod states;
mod tcp;

use states::PEERS_LIMIT;
pub(crate) use states::waits_of_each;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use http::{Method, StatusCode};
use parking_lot::Mutex;

use weir_http::Occupancy;
use weir_network::firefly::{Beacon, Sent};
use weir_service::{
    metrics::{
        Kind::{Counter, Gauge},
        Page,
    },
    reload::Reloads,
};

use crate::{
    area::Area,
    bandwidth::{Bandwidth, CLASSES},
    memory::Budget,
};

/// How bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Get,
    Put,
    Pull,
    Push,
    Copy,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Get, Self::Put, Self::Pull, Self::Push, Self::Copy];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Copy => "copy",
        }
    }

    /// Whether bytes come in. A copy inside the endpoint writes the bytes that it reads and counts as coming in.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Put | Self::Pull | Self::Copy)
    }
}

/// Bytes of completed and of failed transfers, both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Written for transfers that completed.
    pub received_completed: u64,
    /// Written for transfers that failed, and removed again.
    pub received_failed: u64,
    /// Sent by transfers that completed.
    pub sent_completed: u64,
    /// Sent by transfers that failed.
    pub sent_failed: u64,
}

impl Traffic {
    fn add(&mut self, kind: Kind, bytes: u64, completed: bool) {
        let counter = match (kind.receives(), completed) {
            (true, true) => &mut self.received_completed,
            (true, false) => &mut self.received_failed,
            (false, true) => &mut self.sent_completed,
            (false, false) => &mut self.sent_failed,
        };
        *counter = counter.saturating_add(bytes);
    }

    fn each(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("received", "completed", self.received_completed),
            ("received", "failed", self.received_failed),
            ("sent", "completed", self.sent_completed),
            ("sent", "failed", self.sent_failed),
        ]
    }
}

/// A peer as counted: by its address, or together with all others beyond the limit.
type Peer = Option<IpAddr>;

#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// By area, then by peer.
    traffic: Mutex<ByArea<Peer, Traffic>>,
    transfers: Mutex<ByArea<(Kind, bool), u64>>,
    active: [AtomicI64; 5],
    pub(crate) copies_queued: AtomicI64,
    pub(crate) checksum_mismatches: AtomicU64,
    pub(crate) checksums_read: AtomicU64,
    pub(crate) streams_resumed: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) log_lines_lost: AtomicU64,
    /// Ranges in answers to GETs that asked for several.
    pub(crate) ranges_sent: AtomicU64,
    connections: OnceLock<Box<dyn Fn() -> Occupancy + Send + Sync>>,
    fireflies: OnceLock<Box<dyn Fn() -> Sent + Send + Sync>>,
    /// Reloads by kind, and the end of the certificate.
    pub(crate) reloads: Reloads,
    memory: OnceLock<Budget>,
    bandwidth: OnceLock<Bandwidth>,
    pub(crate) tcp: tcp::Tcp,
    pub(crate) states: states::StreamStates,
}

/// Counts of a code other than HTTP's: the client went away before there was a status.
pub(crate) const CLIENT_GONE: u16 = 499;

impl Metrics {
    /// From now on the connections are counted that this tells.
    pub(crate) fn watch(&self, connections: impl Fn() -> Occupancy + Send + Sync + 'static) {
        let _ = self.connections.set(Box::new(connections));
    }

    /// From now on its datagrams are counted.
    pub(crate) fn watch_fireflies(&self, beacon: &Beacon) {
        let _ = self.fireflies.set(Box::new(beacon.watch_sent()));
    }

    /// From now on this budget's figures are shown.
    pub(crate) fn watch_memory(&self, memory: Budget) {
        let _ = self.memory.set(memory);
    }

    /// From now on it is shown how long these limits hold transfers back.
    pub(crate) fn watch_bandwidth(&self, bandwidth: Bandwidth) {
        let _ = self.bandwidth.set(bandwidth);
    }

    pub(crate) fn request(&self, method: &Method, status: Option<StatusCode>) {
        let status = status.map_or(CLIENT_GONE, |status| status.as_u16());
        *self.requests.lock().entry((known(method), status)).or_default() += 1;
    }

    pub(crate) fn transfer_began(&self, kind: Kind) {
        self.active[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Transfers of data under way, of all kinds.
    pub(crate) fn transfers_active(&self) -> i64 {
        self.active.iter().map(|active| active.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn transfer_ended(&self, area: &str, kind: Kind, peer: Peer, bytes: u64, completed: bool) {
        self.active[kind as usize].fetch_sub(1, Ordering::Relaxed);
        *of_area(&mut self.transfers.lock(), area)
            .entry((kind, completed))
            .or_default() += 1;
        let mut traffic = self.traffic.lock();
        let known: usize = traffic.values().map(BTreeMap::len).sum();
        let of_area = of_area(&mut traffic, area);
        let mut peer = peer.map(|address| address.to_canonical());
        if known >= PEERS_LIMIT && !of_area.contains_key(&peer) {
            peer = None;
        }
        of_area.entry(peer).or_default().add(kind, bytes, completed);
    }

    /// Bytes of one area over all peers.
    pub(crate) fn traffic_of(&self, area: &str) -> Traffic {
        let mut sum = Traffic::default();
        for peer in self.traffic.lock().get(area).into_iter().flat_map(BTreeMap::values) {
            sum.received_completed += peer.received_completed;
            sum.received_failed += peer.received_failed;
            sum.sent_completed += peer.sent_completed;
            sum.sent_failed += peer.sent_failed;
        }
        sum
    }

    /// All of it as OpenMetrics text. Asks file systems for room: on the blocking pool only.
    pub(crate) fn render(&self, areas: &[std::sync::Arc<Area>]) -> String {
        let mut page = Page::of_process();
        self.render_traffic(&mut page);
        self.states.render(&mut page);
        page.family(
            "weir_storage_requests_total",
            Counter,
            "requests answered; status 499: the client went away first",
        );
        for ((method, status), count) in self.requests.lock().iter() {
            page.sample(&[("method", method), ("status", &status.to_string())], *count);
        }
        page.family("weir_storage_transfers_total", Counter, "transfers of data that ended");
        for (area, (kind, completed), count) in each(&self.transfers.lock()) {
            let outcome = if *completed { "completed" } else { "failed" };
            page.sample(&[("area", area), ("kind", kind.as_str()), ("outcome", outcome)], *count);
        }
        page.family("weir_storage_transfers_active", Gauge, "transfers of data under way");
        for kind in Kind::ALL {
            page.sample(
                &[("kind", kind.as_str())],
                self.active[kind as usize].load(Ordering::Relaxed),
            );
        }
        page.single(
            "weir_storage_copies_queued",
            Gauge,
            "third-party copies that wait for their turn",
            self.copies_queued.load(Ordering::Relaxed),
        );
        for (name, help, counter) in [
            (
                "weir_storage_checksum_mismatches_total",
                "bodies and copies with another checksum than announced",
                &self.checksum_mismatches,
            ),
            (
                "weir_storage_checksums_read_total",
                "files read again because a checksum was asked for that was not stored",
                &self.checksums_read,
            ),
            (
                "weir_storage_streams_resumed_total",
                "streams of pulls that broke and were taken up where they broke",
                &self.streams_resumed,
            ),
            (
                "weir_storage_swept_total",
                "leftovers of an earlier life found at start",
                &self.swept,
            ),
            (
                "weir_storage_ranges_sent_total",
                "ranges in answers to GETs that asked for several",
                &self.ranges_sent,
            ),
            (
                "weir_storage_log_lines_lost_total",
                "lines that the access log could not take",
                &self.log_lines_lost,
            ),
        ] {
            page.single(name, Counter, help, counter.load(Ordering::Relaxed));
        }
        if let Some(fireflies) = self.fireflies.get() {
            render_fireflies(&mut page, fireflies());
        }
        if let Some(connections) = self.connections.get() {
            render_connections(&mut page, connections());
        }
        self.tcp.render(&mut page);
        self.reloads.show(&mut page, "storage");
        if let Some(memory) = self.memory.get() {
            render_memory(&mut page, memory);
        }
        if let Some(bandwidth) = self.bandwidth.get().filter(|bandwidth| bandwidth.is_limited()) {
            render_bandwidth(&mut page, bandwidth);
        }
        render_space(&mut page, areas);
        page.text()
    }

    fn render_traffic(&self, page: &mut Page) {
        let traffic = self.traffic.lock();
        for (direction, name, help) in [
            (
                "received",
                "weir_storage_received_bytes_total",
                "bytes written to the file system for transfers that ended",
            ),
            (
                "sent",
                "weir_storage_sent_bytes_total",
                "bytes read and handed to the network by transfers that ended",
            ),
        ] {
            page.family(name, Counter, help);
            for (area, peer, counted) in each(&traffic) {
                let peer = peer.map_or_else(|| "other".to_owned(), |address| address.to_string());
                for (_, outcome, bytes) in counted.each().into_iter().filter(|(way, ..)| *way == direction) {
                    page.sample(&[("area", area), ("peer", &peer), ("outcome", outcome)], bytes);
                }
            }
        }
    }
}

/// Values of each area, by its name.
type ByArea<K, V> = BTreeMap<String, BTreeMap<K, V>>;

/// The value of an area; its name is copied on first use.
fn of_area<'a, T: Default>(all: &'a mut BTreeMap<String, T>, area: &str) -> &'a mut T {
    if !all.contains_key(area) {
        all.insert(area.to_owned(), T::default());
    }
    all.get_mut(area).expect("it was put there")
}

/// The values of every area, in order.
fn each<K, V>(all: &ByArea<K, V>) -> impl Iterator<Item = (&String, &K, &V)> {
    all.iter()
        .flat_map(|(area, kept)| kept.iter().map(move |(key, value)| (area, key, value)))
}

fn render_fireflies(page: &mut Page, sent: Sent) {
    page.family(
        "weir_storage_fireflies_total",
        Counter,
        "datagrams that tell of flows; dropped: the network did not take it",
    );
    page.sample(&[("outcome", "sent")], sent.sent);
    page.sample(&[("outcome", "dropped")], sent.dropped);
}

fn render_memory(page: &mut Page, memory: &Budget) {
    let (total, taken, waiting) = memory.figures();
    page.family(
        "weir_storage_memory_bytes",
        Gauge,
        "memory for data in flight: as configured, and taken by transfers",
    );
    page.sample(&[("state", "budget")], total);
    page.sample(&[("state", "taken")], taken);
    page.single(
        "weir_storage_memory_waiting",
        Gauge,
        "transfers and copies that wait because there is no memory for them",
        waiting,
    );
}

fn render_bandwidth(page: &mut Page, bandwidth: &Bandwidth) {
    if let Some(rate) = bandwidth.of_all() {
        page.single(
            "weir_storage_bandwidth_limit_bytes",
            Gauge,
            "bytes of files in a second that all transfers together may move",
            rate,
        );
    }
    page.family(
        "weir_storage_bandwidth_held_back_seconds_total",
        Counter,
        "time that transfers waited because their limit of bandwidth was reached",
    );
    for (class, time) in CLASSES.into_iter().zip(bandwidth.held_back()) {
        page.sample(&[("limit", class)], time.as_secs_f64());
    }
}

fn render_connections(page: &mut Page, connections: Occupancy) {
    page.single("weir_storage_connections", Gauge, "open connections", connections.open);
    for (name, help, count) in [
        (
            "weir_storage_connections_given_up_total",
            "idle connections that were closed for newcomers",
            connections.given_up,
        ),
        (
            "weir_storage_connections_refused_total",
            "connections refused because their address had its share",
            connections.refused,
        ),
        (
            "weir_storage_connections_too_slow_total",
            "connections that were cut because the client took too little of an answer",
            connections.too_slow,
        ),
        (
            "weir_storage_connections_heads_cut_total",
            "connections that were cut because others needed the memory of their large heads",
            connections.heads_cut,
        ),
    ] {
        page.single(name, Counter, help, count);
    }
}

fn render_space(page: &mut Page, areas: &[std::sync::Arc<Area>]) {
    page.family(
        "weir_storage_space_bytes",
        Gauge,
        "room of an area: used by files, available, and its quota if it has one",
    );
    for area in areas {
        let (available, used) = area.room();
        page.sample(&[("area", &area.name), ("state", "used")], used);
        page.sample(&[("area", &area.name), ("state", "available")], available);
        if let Some(quota) = area.quota() {
            page.sample(&[("area", &area.name), ("state", "quota")], quota);
        }
    }
    page.family("weir_storage_files", Gauge, "files in an area");
    for area in areas {
        page.sample(&[("area", &area.name)], area.usage().files);
    }
    page.family(
        "weir_storage_removals_waiting",
        Gauge,
        "trees and large files of an area that are deleted and not yet removed from the disk",
    );
    for area in areas {
        page.sample(&[("area", &area.name)], area.removals.count());
    }
}

/// Methods of strangers are counted together: a client must not be able to make up label values.
fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 11] = [
        "GET",
        "HEAD",
        "PUT",
        "POST",
        "DELETE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "MKCOL",
        "MOVE",
        "COPY",
    ];
    KNOWN
        .into_iter()
        .find(|name| *name == method.as_str())
        .unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of failed transfers counted as delivered would hide loss from the cross-check of a run.
    #[test]
    fn failed_and_completed_bytes_stay_apart() {
        let metrics = Metrics::default();
        let peer = Some(IpAddr::from([127, 0, 1, 2]));
        for (kind, bytes, completed) in [
            (Kind::Pull, 5, true),
            (Kind::Put, 2, true),
            (Kind::Put, 3, false),
            (Kind::Get, 7, true),
        ] {
            metrics.transfer_began(kind);
            metrics.transfer_ended("data", kind, peer, bytes, completed);
        }
        let text = metrics.render(&[]);
        for line in [
            r#"weir_storage_received_bytes_total{area="data",peer="127.0.1.2",outcome="completed"} 7"#,
            r#"weir_storage_received_bytes_total{area="data",peer="127.0.1.2",outcome="failed"} 3"#,
            r#"weir_storage_sent_bytes_total{area="data",peer="127.0.1.2",outcome="completed"} 7"#,
            r#"weir_storage_transfers_active{kind="put"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(metrics.traffic_of("data").received_completed, 7);
        assert_eq!(metrics.traffic_of("other"), Traffic::default());
    }

    /// An operator would see a number without a definition.
    #[test]
    fn every_metric_is_in_the_handbook() {
        let metrics = Metrics::default();
        metrics.watch(Occupancy::default);
        metrics.watch_fireflies(&Beacon::off());
        metrics
            .reloads
            .shows_certificate(Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)));
        let handbook = include_str!("../../../docs/metrics-storage.md");
        let shown = metrics.render(&[]);
        let families = shown.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut count = 0;
        for (name, kind) in families.filter_map(|family| family.split_once(' ')) {
            // The format leaves it to the samples.
            let name = format!("{name}{}", if kind == "counter" { "_total" } else { "" });
            let row = handbook.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let cells: Vec<_> = row
                .unwrap_or_else(|| panic!("{name} is not there"))
                .split('|')
                .map(str::trim)
                .collect();
            let [_, _, of, _, counts, from, to, _] = cells[..] else {
                panic!("{name}: {cells:?}")
            };
            assert_eq!(of, kind, "{name}");
            assert!(![counts, from, to].contains(&""), "{name} lacks what starts or ends it");
            count += 1;
        }
        assert!(count >= 19, "{count}");
    }

    /// A scan from many addresses must not fill the memory.
    #[test]
    fn peers_are_bounded() {
        let metrics = Metrics::default();
        for number in 0..3000_u32 {
            metrics.transfer_began(Kind::Get);
            metrics.transfer_ended("data", Kind::Get, Some(IpAddr::from(number.to_be_bytes())), 1, true);
        }
        assert!(metrics.traffic.lock()["data"].len() <= PEERS_LIMIT + 1);
        assert_eq!(metrics.traffic_of("data").sent_completed, 3000);
    }
}
