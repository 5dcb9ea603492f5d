//! From two readings of counters to the gauges of hosts and storages between them. Pure.

use std::collections::HashMap;
use std::time::Duration;

use weir_measure::gauges::GaugeRow;
use weir_world::{Gauge, Place, PlaceKind};

use crate::execute::host_reading::HostReading;
use crate::execute::signal_book::NamedDoor;
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
}

impl GaugeBook {
    pub(crate) fn new(doors: Vec<NamedDoor>, ends: Vec<(usize, usize)>, host: String) -> Self {
        Self {
            doors,
            ends,
            host,
            on_host: None,
            storages: HashMap::new(),
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
