//! From two readings of counters to the gauges of hosts and storages between them. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use weir_measure::gauges::GaugeRow;
use weir_model::catalog::RequestWait;
use weir_world::{Gauge, Place, PlaceKind};

use crate::execute::host_reading::HostReading;
use crate::execute::signal_book::NamedDoor;
use crate::inject::fts::TokenSums;
use crate::inject::rules::open_requests::OpenRequests;
use crate::services::storage::{StorageSums, TcpSums};

/// The last reading of each party.
#[derive(Debug)]
pub(crate) struct GaugeBook {
    doors: Vec<NamedDoor>,
    /// Source and destination of each link, as numbers of doors.
    ends: Vec<(usize, usize)>,
    /// The name of this host.
    host: String,
    on_host: Option<(Duration, HostReading)>,
    storages: HashMap<usize, (Duration, StorageSums)>,
    tokens: Option<(Duration, TokenSums)>,
    /// When the catalogue's requests were read last, and the gauges that were not zero.
    requests: Option<(Duration, BTreeSet<(Gauge, String)>)>,
}

impl GaugeBook {
    pub(crate) fn new(doors: Vec<NamedDoor>, ends: Vec<(usize, usize)>, host: String) -> Self {
        Self {
            doors,
            ends,
            host,
            on_host: None,
            storages: HashMap::new(),
            tokens: None,
            requests: None,
        }
    }

    /// The gauges of this host since its last reading.
    pub(crate) fn host(&mut self, at: Duration, reading: HostReading) -> Vec<GaugeRow> {
        let known = self.on_host.take();
        let gauges = known.as_ref().map_or_else(Vec::new, |(from, before)| {
            reading.since(before, at.saturating_sub(*from))
        });
        let from = known.map_or(at, |(from, _)| from);
        self.on_host = Some((at, reading));
        let row = |(gauge, part, value): (Gauge, String, f64)| {
            let name = if part.is_empty() {
                self.host.clone()
            } else {
                format!("{}/{part}", self.host)
            };
            GaugeRow {
                span: (from, at),
                gauge,
                place: Place::new(PlaceKind::Server, name),
                value,
            }
        };
        gauges.into_iter().map(row).collect()
    }

    /// The gauges of tokens since the last reading.
    pub(crate) fn tokens(&mut self, at: Duration, sums: TokenSums) -> Vec<GaugeRow> {
        let Some((from, before)) = self.tokens.replace((at, sums)) else {
            return Vec::new();
        };
        let gauges = [
            (Gauge::TokenLatency, mean(sums.requests, before.requests)),
            (Gauge::TokenLife, mean(sums.lives, before.lives)),
        ];
        let row = |(gauge, value): (Gauge, Option<f64>)| {
            Some(GaugeRow {
                span: (from, at),
                gauge,
                place: Place::new(PlaceKind::Issuer, "tokens"),
                value: value?,
            })
        };
        gauges.into_iter().filter_map(row).collect()
    }

    /// Requests into the RSEs of the run by reason, and the room of files on their way. A number that is zero is told after one that was
    /// not.
    pub(crate) fn requests(&mut self, at: Duration, open: &OpenRequests) -> Vec<GaugeRow> {
        let mut values: BTreeMap<(Gauge, String), f64> = BTreeMap::new();
        for (rse, wait, requests) in open.waiting() {
            values.insert((gauge_of(wait), rse.to_owned()), requests as f64);
        }
        for (rse, bytes) in open.reserved() {
            values.insert((Gauge::ReservedSpace, rse.to_owned()), bytes as f64);
        }
        values.retain(|(_, rse), _| self.doors.iter().any(|door| door.rse == *rse));
        let (from, before) = self.requests.take().unwrap_or_else(|| (at, BTreeSet::new()));
        let now = values.keys().cloned().collect();
        for gone in before {
            values.entry(gone).or_insert(0.0);
        }
        self.requests = Some((at, now));
        let row = |((gauge, rse), value): ((Gauge, String), f64)| GaugeRow {
            span: (from, at),
            gauge,
            place: Place::new(PlaceKind::RseIn, rse),
            value,
        };
        values.into_iter().map(row).collect()
    }

    /// The gauges of a storage, and of the links out of it, since its last reading.
    pub(crate) fn storage(&mut self, at: Duration, door: usize, sums: &StorageSums) -> Vec<GaugeRow> {
        let Some((from, before)) = self.storages.insert(door, (at, sums.clone())) else {
            return Vec::new();
        };
        let span = (from, at);
        let mut rows = Vec::new();
        if let Some(available) = sums.available {
            rows.push(GaugeRow {
                span,
                gauge: Gauge::FreeSpace,
                place: Place::new(PlaceKind::RseIn, &self.doors[door].rse),
                value: available as f64,
            });
        }
        for (source, destination) in self.ends.iter().filter(|(source, _)| *source == door) {
            let Some(address) = self.doors[*destination].address else {
                continue;
            };
            let Some(now) = sums.tcp.get(&address) else {
                continue;
            };
            let before = before.tcp.get(&address).copied().unwrap_or_default();
            let path = format!("{}→{}", self.doors[*source].rse, self.doors[*destination].rse);
            let place = Place::new(PlaceKind::Path, path);
            let seconds = at.saturating_sub(from).as_secs_f64();
            rows.extend(tcp(*now, before, seconds).into_iter().map(|(gauge, value)| GaugeRow {
                span,
                gauge,
                place: place.clone(),
                value,
            }));
        }
        rows
    }
}

/// The gauge that counts requests which wait for this.
fn gauge_of(wait: RequestWait) -> Gauge {
    match wait {
        RequestWait::Turn => Gauge::RequestsTurn,
        RequestWait::Share => Gauge::RequestsShare,
        RequestWait::Retry => Gauge::RequestsRetry,
        RequestWait::Room => Gauge::RequestsRoom,
        RequestWait::Service => Gauge::RequestsService,
        RequestWait::Token => Gauge::RequestsToken,
        RequestWait::Submission => Gauge::RequestsSubmission,
        RequestWait::Other => Gauge::RequestsOther,
    }
}

/// The mean of what was added between two sums with their numbers; `None` where nothing was, or the service began anew.
fn mean([n_now, now]: [f64; 2], [n_before, before]: [f64; 2]) -> Option<f64> {
    let count = n_now - n_before;
    (count > 0.0 && now >= before).then(|| (now - before) / count)
}

/// The gauges of the connections to a peer over so many seconds. Sums that fell are those of a storage that began anew.
fn tcp(now: TcpSums, before: TcpSums, seconds: f64) -> Vec<(Gauge, f64)> {
    let before = if now.busy < before.busy {
        TcpSums::default()
    } else {
        before
    };
    let mut gauges = Vec::new();
    if seconds > 0.0 {
        let busy = now.busy - before.busy;
        gauges.push((Gauge::TcpBusy, busy / seconds));
        gauges.push((
            Gauge::Retransmits,
            (now.retransmits - before.retransmits).max(0.0) / seconds,
        ));
        if busy > 0.0 {
            let share = |now: f64, before: f64| ((now - before) / busy).clamp(0.0, 1.0);
            gauges.push((Gauge::TcpHeldByPeer, share(now.held_by_peer, before.held_by_peer)));
            gauges.push((Gauge::TcpHeldByBuffer, share(now.held_by_buffer, before.held_by_buffer)));
        }
    }
    if now.open > 0.0 {
        gauges.push((Gauge::RoundTrip, now.round_trips / now.open));
    }
    gauges
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use std::net::IpAddr;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn book() -> GaugeBook {
        let door = |(at, rse): (u8, &str)| NamedDoor {
            rse: rse.to_owned(),
            se: format!("https://127.0.1.{at}"),
            address: Some(IpAddr::from([127, 0, 1, at])),
        };
        let doors = [(1, "RAL"), (2, "QMUL"), (3, "CNAF")].map(door).into();
        GaugeBook::new(doors, vec![(0, 1), (0, 2), (1, 0)], "node1".to_owned())
    }

    fn sums(tcp: TcpSums) -> StorageSums {
        StorageSums {
            tcp: HashMap::from([(IpAddr::from([127, 0, 1, 2]), tcp)]),
            available: Some(7),
            ..StorageSums::default()
        }
    }

    fn shown(rows: &[GaugeRow]) -> Vec<String> {
        let text = |row: &GaugeRow| format!("{} {} {:.3}", row.gauge, row.place, row.value);
        rows.iter().map(text).collect()
    }

    #[test]
    fn requests_that_wait_no_more_are_told_once() {
        // Wrong: a curve stays up after its last request has gone, or an RSE that takes no part fills the report.
        let mut book = book();
        let told = |waits: &str| -> OpenRequests {
            serde_json::from_str(&format!(
                r#"{{"waits": [{waits}], "reserved": [{{"rse": "RAL", "bytes": 70}}]}}"#
            ))
            .unwrap()
        };
        let waits =
            r#"{"rse": "RAL", "why": "ROOM", "requests": 3}, {"rse": "ELSEWHERE", "why": "TURN", "requests": 9}"#;
        let first = book.requests(SECOND, &told(waits));
        assert_eq!(
            shown(&first),
            ["requests-room rse-in:RAL 3.000", "reserved-space rse-in:RAL 70.000"]
        );
        let next = book.requests(2 * SECOND, &told(""));
        assert_eq!(
            shown(&next),
            ["requests-room rse-in:RAL 0.000", "reserved-space rse-in:RAL 70.000"]
        );
        assert_eq!(next[0].span, (SECOND, 2 * SECOND));
        assert_eq!(
            shown(&book.requests(3 * SECOND, &told(""))),
            ["reserved-space rse-in:RAL 70.000"]
        );
    }

    #[test]
    fn connections_are_those_of_the_link_whose_data_they_carry() {
        let mut book = book();
        let tcp = |busy: f64| TcpSums {
            open: 2.0,
            round_trips: 0.2,
            busy,
            held_by_peer: busy * 0.75,
            held_by_buffer: 0.0,
            retransmits: busy * 3.0,
        };
        assert_eq!(book.storage(SECOND, 0, &sums(tcp(100.0))), []);
        let rows = book.storage(5 * SECOND, 0, &sums(tcp(104.0)));
        assert_eq!(
            shown(&rows),
            [
                "free-space rse-in:RAL 7.000",
                "tcp-busy path:RAL→QMUL 1.000",
                "retransmits path:RAL→QMUL 3.000",
                "tcp-held-by-peer path:RAL→QMUL 0.750",
                "tcp-held-by-buffer path:RAL→QMUL 0.000",
                "round-trip path:RAL→QMUL 0.100",
            ]
        );
        assert_eq!(rows[0].span, (SECOND, 5 * SECOND));
        // Wrong: after a restart a share is negative, or the time before it counts again.
        let rows = book.storage(6 * SECOND, 0, &sums(tcp(0.5)));
        assert_eq!(shown(&rows)[1], "tcp-busy path:RAL→QMUL 0.500");
        assert!(rows.iter().all(|row| row.value >= 0.0), "{rows:?}");
    }

    #[test]
    fn tokens_that_nobody_asked_for_have_no_latency() {
        let mut book = book();
        let sums = |requests, lives| TokenSums { requests, lives };
        assert_eq!(book.tokens(SECOND, sums([5.0, 9.0], [2.0, 60.0])), []);
        let rows = book.tokens(2 * SECOND, sums([5.0, 9.0], [4.0, 80.0]));
        assert_eq!(shown(&rows), ["token-life issuer:tokens 10.000"]);
        let rows = book.tokens(3 * SECOND, sums([7.0, 12.0], [4.0, 80.0]));
        assert_eq!(shown(&rows), ["token-latency issuer:tokens 1.500"]);
        // Wrong: a service that began anew shows a negative life.
        assert_eq!(book.tokens(4 * SECOND, sums([0.0, 0.0], [1.0, 5.0])), []);
    }

    #[test]
    fn a_storage_that_tells_nothing_is_unknown() {
        let mut book = book();
        book.storage(SECOND, 0, &StorageSums::default());
        assert_eq!(book.storage(2 * SECOND, 0, &StorageSums::default()), []);
    }

    #[test]
    fn the_parts_of_a_host_are_named_after_it() {
        let mut book = book();
        let stalled = |seconds| HostReading {
            stalled: [(Gauge::IoStalled, Duration::from_secs(seconds))].into(),
            ..HostReading::default()
        };
        assert_eq!(book.host(SECOND, stalled(5)), []);
        assert_eq!(
            shown(&book.host(3 * SECOND, stalled(6))),
            ["io-stalled server:node1 0.500"]
        );
    }
}
