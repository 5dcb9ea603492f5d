//! From two readings of the services' sums to the waits of each link between them. Pure.
//!
//! The transfer service tells the time of its transfers in each state, by storage elements. A storage that serves a pull
//! tells why it sends no faster. So the time for which the receiving side waited for the network is divided by the
//! states of the sender.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use weir_fts_api::LinkWaits;
use weir_measure::signals::SignalRow;
use weir_world::{ErrorClass, Party, Place, PlaceKind, Wait};

use crate::services::storage::SenderTimes;

/// A state of each phase that a transfer service measures.
const OF_EACH_PHASE: [Wait; 4] = [Wait::Turn, Wait::Executor, Wait::Data, Wait::Verify];

/// Seconds by link, state and place; without a state those of slots.
type Sums = HashMap<(usize, Option<Wait>, Option<Place>), f64>;

/// Failed attempts by link, class and party.
type Failures = HashMap<(usize, ErrorClass, Party), f64>;

/// The sums of the services at one moment.
#[derive(Debug, Default)]
pub(crate) struct SignalReading {
    /// Of the transfer service.
    pub(crate) waits: Vec<LinkWaits<'static>>,
    /// Of storages whose counters can be read: by door and reader.
    pub(crate) senders: HashMap<(usize, IpAddr), SenderTimes>,
}

/// The streams of a sender to one reader, between two readings.
struct Sender {
    /// The share of each state.
    shares: SenderTimes,
    /// The time in all states.
    seconds: f64,
}

/// An RSE as the services name it.
#[derive(Debug, Clone)]
pub(crate) struct NamedDoor {
    /// The RSE.
    pub(crate) rse: String,
    /// Its storage element: `scheme://host`.
    pub(crate) se: String,
    /// The address from which it reads; `None` if its name has none, or several.
    pub(crate) address: Option<IpAddr>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SignalBook {
    doors: Vec<NamedDoor>,
    /// Source and destination of each link, as numbers of doors.
    ends: Vec<(usize, usize)>,
    /// Links by storage elements; `None` where several links have the same.
    links: HashMap<(String, String), Option<usize>>,
    waits: Sums,
    failures: Failures,
    senders: HashMap<(usize, IpAddr), SenderTimes>,
    /// The last reading.
    until: Option<Duration>,
}

impl SignalBook {
    pub(crate) fn new(doors: Vec<NamedDoor>, ends: Vec<(usize, usize)>) -> Self {
        let mut links: HashMap<(String, String), Option<usize>> = HashMap::new();
        for (link, (source, destination)) in ends.iter().enumerate() {
            let key = (doors[*source].se.clone(), doors[*destination].se.clone());
            links.entry(key).and_modify(|known| *known = None).or_insert(Some(link));
        }
        Self {
            doors,
            ends,
            links,
            waits: HashMap::new(),
            failures: HashMap::new(),
            senders: HashMap::new(),
            until: None,
        }
    }

    /// The waits since the last reading. The first one tells only which phases are measured: its sums are of the time
    /// before the run.
    pub(crate) fn take(&mut self, at: Duration, reading: SignalReading) -> Vec<SignalRow> {
        let Some(from) = self.until.replace(at) else {
            self.changes(&reading);
            self.failed(&reading);
            self.shares(reading.senders);
            return self.known(at);
        };
        let changes = self.changes(&reading);
        let failed = self.failed(&reading);
        let shares = self.shares(reading.senders);
        let row = |link, wait, place, seconds: f64| SignalRow {
            span: (from, at),
            link,
            wait,
            failed: None,
            place,
            time: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
        };
        let mut rows = Vec::new();
        for ((link, wait, place), seconds) in changes {
            let (source, destination) = self.ends[link];
            let address = self.doors[destination].address;
            let sender = address.and_then(|address| shares.get(&(source, address)));
            let Some(sender) = sender.filter(|_| wait == Some(Wait::Network)) else {
                rows.push(row(link, wait, place, seconds));
                continue;
            };
            // A file that the system took as a whole has left its sender long before it comes: that time is the network's.
            let told = if seconds > 0.0 {
                (sender.seconds / seconds).min(1.0)
            } else {
                0.0
            };
            let mut of_network = seconds;
            for (of_sender, share) in sender.shares.iter().filter(|(wait, _)| **wait != Wait::Network) {
                let part = seconds * share * told;
                of_network -= part;
                let place = Some(Place::new(PlaceKind::RseOut, &self.doors[source].rse));
                rows.push(row(link, Some(*of_sender), place, part));
            }
            rows.push(row(link, wait, place, of_network));
        }
        rows.retain(|row| !row.time.is_zero());
        rows.extend(failed.into_iter().map(|((link, class, party), attempts)| SignalRow {
            failed: Some((class, party, attempts as u64)),
            ..row(link, None, None, 0.0)
        }));
        let key = |row: &SignalRow| (row.link, row.wait, row.place.clone(), row.failed);
        rows.sort_by_key(key);
        rows
    }

    /// The phases that the service measures, of every link that it can tell from others.
    fn known(&self, at: Duration) -> Vec<SignalRow> {
        let mut links: Vec<usize> = self.links.values().copied().flatten().collect();
        links.sort_unstable();
        let rows = links
            .into_iter()
            .flat_map(|link| OF_EACH_PHASE.map(|wait| (link, wait)));
        rows.map(|(link, wait)| SignalRow {
            span: (at, at),
            link,
            wait: Some(wait),
            failed: None,
            place: None,
            time: Duration::ZERO,
        })
        .collect()
    }

    /// Notes the sums, and gives how much each has grown. A sum that fell is that of a service that began anew.
    fn changes(&mut self, reading: &SignalReading) -> Sums {
        let mut now = Sums::new();
        for link in &reading.waits {
            let key = (link.source_se.to_string(), link.dest_se.to_string());
            let Some(Some(number)) = self.links.get(&key) else {
                continue;
            };
            for wait in &link.waits {
                let place = wait.place.as_ref().map(|place| self.renamed(place));
                *now.entry((*number, Some(wait.wait), place)).or_default() += wait.seconds;
            }
            for place in &link.way {
                *now.entry((*number, None, Some(self.renamed(place)))).or_default() += link.slot_seconds;
            }
        }
        let changes = grown(&self.waits, &now);
        self.waits = now;
        changes
    }

    /// Notes the failed attempts, and gives how many there are more.
    fn failed(&mut self, reading: &SignalReading) -> Failures {
        let mut now = Failures::new();
        for link in &reading.waits {
            let key = (link.source_se.to_string(), link.dest_se.to_string());
            let Some(Some(number)) = self.links.get(&key) else {
                continue;
            };
            for failure in &link.failures {
                *now.entry((*number, failure.class, failure.party)).or_default() += failure.attempts as f64;
            }
        }
        let more = grown(&self.failures, &now);
        self.failures = now;
        more
    }

    /// Notes the times of senders, and gives the share of each state since the last reading.
    fn shares(&mut self, now: HashMap<(usize, IpAddr), SenderTimes>) -> HashMap<(usize, IpAddr), Sender> {
        let mut shares = HashMap::new();
        for (key, times) in &now {
            let before = self.senders.get(key).cloned().unwrap_or_default();
            let more: SenderTimes = grown(&before, times).into_iter().collect();
            let sum: f64 = more.values().sum();
            if sum > 0.0 {
                let sender = Sender {
                    shares: more.into_iter().map(|(wait, time)| (wait, time / sum)).collect(),
                    seconds: sum,
                };
                shares.insert(*key, sender);
            }
        }
        // A storage that could not be read this time goes on from its last reading.
        self.senders.extend(now);
        shares
    }

    /// A place with the names of RSEs for those of storage elements.
    fn renamed(&self, place: &Place) -> Place {
        let name = match place.kind {
            PlaceKind::RseIn | PlaceKind::RseOut => self.rse_of(&place.name),
            PlaceKind::Path => match place.name.split_once('→') {
                Some((source, destination)) => format!("{}→{}", self.rse_of(source), self.rse_of(destination)),
                None => place.name.clone(),
            },
            _ => place.name.clone(),
        };
        Place::new(place.kind, name)
    }

    /// The RSE at a storage element, if there is one alone.
    fn rse_of(&self, se: &str) -> String {
        let mut there = self.doors.iter().filter(|door| door.se == se);
        match (there.next(), there.next()) {
            (Some(door), None) => door.rse.clone(),
            _ => se.to_owned(),
        }
    }
}

/// How much sums have grown.
fn grown<'a, K: std::hash::Hash + Eq + Clone + 'a>(
    before: &(impl SumOf<K> + ?Sized),
    now: impl IntoIterator<Item = (&'a K, &'a f64)>,
) -> HashMap<K, f64> {
    let more = |(key, now): (&K, &f64)| {
        let before = before.sum(key);
        let more = if *now < before { *now } else { now - before };
        (more > 0.0).then(|| (key.clone(), more))
    };
    now.into_iter().filter_map(more).collect()
}

trait SumOf<K> {
    fn sum(&self, key: &K) -> f64;
}

impl<K: std::hash::Hash + Eq> SumOf<K> for HashMap<K, f64> {
    fn sum(&self, key: &K) -> f64 {
        self.get(key).copied().unwrap_or_default()
    }
}

impl<K: Ord> SumOf<K> for BTreeMap<K, f64> {
    fn sum(&self, key: &K) -> f64 {
        self.get(key).copied().unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
mod tests {
    use weir_fts_api::LinkWait;

    use super::*;

    const HOSTS: [&str; 3] = ["127.0.1.1", "127.0.1.2", "127.0.1.3"];

    fn book() -> SignalBook {
        let door = |(at, rse): (usize, &str)| NamedDoor {
            rse: rse.to_owned(),
            se: format!("https://{}", HOSTS[at]),
            address: HOSTS[at].parse().ok(),
        };
        let doors = ["RAL", "QMUL", "CNAF"].into_iter().enumerate().map(door).collect();
        SignalBook::new(doors, vec![(0, 1), (0, 2)])
    }

    fn reading(waits: &[(&str, &str, f64)], senders: &[(usize, &str, Wait, f64)]) -> SignalReading {
        let waits = waits.iter().map(|(wait, place, seconds)| LinkWait {
            wait: Wait::parse(wait).unwrap(),
            place: Place::parse(place),
            seconds: *seconds,
        });
        let link = LinkWaits {
            source_se: format!("https://{}", HOSTS[0]).into(),
            dest_se: format!("https://{}", HOSTS[1]).into(),
            waits: waits.collect(),
            ..LinkWaits::default()
        };
        let mut sums: HashMap<(usize, IpAddr), SenderTimes> = HashMap::new();
        for (door, reader, wait, seconds) in senders {
            let times = sums.entry((*door, reader.parse().unwrap())).or_default();
            *times.entry(*wait).or_default() += seconds;
        }
        SignalReading {
            waits: vec![link],
            senders: sums,
        }
    }

    fn shown(rows: &[SignalRow]) -> Vec<String> {
        let place = |row: &SignalRow| row.place.as_ref().map_or_else(String::new, Place::to_string);
        let text = |row: &SignalRow| {
            let state = row.wait.map_or("held", Wait::as_str);
            format!("{} {state} {} {:.3}", row.link, place(row), row.time.as_secs_f64())
        };
        rows.iter().map(text).collect()
    }

    const NETWORK: &str = "path:https://127.0.1.1→https://127.0.1.2";

    #[test]
    fn sums_of_before_the_run_are_not_its_own() {
        let mut book = book();
        let first = book.take(Duration::ZERO, reading(&[("slots", NETWORK, 70.0)], &[]));
        assert_eq!(first.len(), 8, "four phases of two links: {first:?}");
        assert!(first.iter().all(|row| row.time.is_zero()));
        let next = book.take(
            Duration::from_secs(10),
            reading(
                &[("slots", NETWORK, 71.5), ("disk", "rse-in:https://127.0.1.2", 4.0)],
                &[],
            ),
        );
        assert_eq!(
            shown(&next),
            ["0 slots path:RAL→QMUL 1.500", "0 disk rse-in:QMUL 4.000"]
        );
        assert_eq!(next[0].span, (Duration::ZERO, Duration::from_secs(10)));
    }

    #[test]
    fn slots_are_held_at_every_place_of_the_way() {
        let mut book = book();
        let reading = |seconds: f64| {
            let mut reading = reading(&[], &[]);
            reading.waits[0].slot_seconds = seconds;
            reading.waits[0].way = ["rse-out:https://127.0.1.1", "rse-in:https://127.0.1.2", NETWORK]
                .map(|place| Place::parse(place).unwrap())
                .into();
            reading
        };
        book.take(Duration::ZERO, reading(3.0));
        let next = book.take(Duration::from_secs(1), reading(5.0));
        assert_eq!(
            shown(&next),
            [
                "0 held rse-in:QMUL 2.000",
                "0 held rse-out:RAL 2.000",
                "0 held path:RAL→QMUL 2.000"
            ]
        );
    }

    #[test]
    fn a_service_that_began_anew_counts_from_nothing() {
        let mut book = book();
        book.take(Duration::ZERO, reading(&[("slots", "", 70.0)], &[]));
        let next = book.take(Duration::from_secs(1), reading(&[("slots", "", 2.0)], &[]));
        assert_eq!(shown(&next), ["0 slots  2.000"]);
    }

    #[test]
    fn a_wait_for_the_network_is_divided_by_what_the_sender_does() {
        // Wrong: a slow disk at the source is shown as a full network.
        let mut book = book();
        let sender = |disk: f64, network: f64, other: f64| {
            [
                (0, HOSTS[1], Wait::Disk, disk),
                (0, HOSTS[1], Wait::Network, network),
                (0, HOSTS[2], Wait::Limiter, other),
                (1, HOSTS[1], Wait::Limiter, other),
            ]
        };
        let waits = |network| {
            [
                ("network", NETWORK, network),
                ("disk", "rse-in:https://127.0.1.2", network),
            ]
        };
        book.take(Duration::ZERO, reading(&waits(5.0), &sender(9.0, 9.0, 0.0)));
        let next = book.take(Duration::from_secs(1), reading(&waits(13.0), &sender(15.0, 11.0, 50.0)));
        assert_eq!(
            shown(&next),
            [
                "0 network path:RAL→QMUL 2.000",
                "0 disk rse-in:QMUL 8.000",
                "0 disk rse-out:RAL 6.000"
            ]
        );
        // A sender that was done long before the bytes came does not hold them.
        let next = book.take(
            Duration::from_secs(2),
            reading(&waits(17.0), &sender(15.75, 11.25, 50.0)),
        );
        assert_eq!(
            shown(&next),
            [
                "0 network path:RAL→QMUL 3.250",
                "0 disk rse-in:QMUL 4.000",
                "0 disk rse-out:RAL 0.750"
            ]
        );
        // Without a sender that tells it stays what it is.
        let next = book.take(Duration::from_secs(3), reading(&waits(18.0), &[]));
        assert_eq!(
            shown(&next),
            ["0 network path:RAL→QMUL 1.000", "0 disk rse-in:QMUL 1.000"]
        );
        // Wrong: after a reading that failed, all that the sender ever did is taken for what it does now.
        let next = book.take(
            Duration::from_secs(4),
            reading(&waits(20.0), &sender(15.75, 15.25, 50.0)),
        );
        assert_eq!(
            shown(&next),
            ["0 network path:RAL→QMUL 2.000", "0 disk rse-in:QMUL 2.000"]
        );
    }

    #[test]
    fn links_that_the_service_cannot_tell_apart_are_unknown() {
        // Two RSEs of one host: their waits would be counted for either.
        let door = |rse: &str, host: &str| NamedDoor {
            rse: rse.to_owned(),
            se: format!("https://{host}"),
            address: None,
        };
        let doors = vec![door("A", HOSTS[0]), door("B", HOSTS[1]), door("C", HOSTS[1])];
        let mut book = SignalBook::new(doors, vec![(0, 1), (0, 2)]);
        assert!(book.take(Duration::ZERO, reading(&[], &[])).is_empty());
        let next = book.take(Duration::from_secs(1), reading(&[("disk", "", 5.0)], &[]));
        assert!(next.is_empty(), "{next:?}");
    }
}
