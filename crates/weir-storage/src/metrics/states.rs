//! Time of data streams by state: of those under way and of those that have ended.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use weir_http::chronograph::{StateTimes, StreamState};
use weir_service::metrics::{Kind::Counter, Page};
use weir_world::{Wait, Waits};

/// Peers that are counted one by one; more are counted together, so that a scan cannot fill the memory.
pub(super) const PEERS_LIMIT: usize = 1024;

/// The account of one storage. Sums never fall: a transfer that ends moves from one table to the other at once.
#[derive(Default)]
pub(crate) struct StreamStates(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    /// By the address of the account, which is its own as long as the transfer holds it.
    live: HashMap<usize, (Key, Arc<StateTimes>)>,
    ended: BTreeMap<Key, [u64; 5]>,
}

/// The streams that are counted together. A peer is known where a client reads; unknown peers, and peers beyond the limit,
/// are one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    area: String,
    receives: bool,
    peer: Option<IpAddr>,
}

impl StreamStates {
    /// A transfer begins; gives its account.
    pub(crate) fn begin(&self, area: &str, receives: bool, peer: Option<IpAddr>) -> Arc<StateTimes> {
        let times = Arc::new(StateTimes::default());
        let mut tables = self.0.lock();
        let mut key = Key {
            area: area.to_owned(),
            receives,
            peer: peer.filter(|_| !receives).map(|peer| peer.to_canonical()),
        };
        if tables.ended.len() >= PEERS_LIMIT && !tables.ended.contains_key(&key) {
            key.peer = None;
        }
        tables.ended.entry(key.clone()).or_default();
        tables.live.insert(Arc::as_ptr(&times) as usize, (key, times.clone()));
        times
    }

    /// A transfer has ended.
    pub(crate) fn end(&self, times: &Arc<StateTimes>) {
        let mut tables = self.0.lock();
        if let Some((key, times)) = tables.live.remove(&(Arc::as_ptr(times) as usize)) {
            add(tables.ended.entry(key).or_default(), &times);
        }
    }

    fn sums(&self) -> BTreeMap<Key, [u64; 5]> {
        let tables = self.0.lock();
        let mut sums = tables.ended.clone();
        for (key, times) in tables.live.values() {
            add(sums.entry(key.clone()).or_default(), times);
        }
        sums
    }

    /// Appends the metrics.
    pub(super) fn render(&self, page: &mut Page) {
        let sums = self.sums();
        page.family(
            "weir_storage_stream_seconds_total",
            Counter,
            "time of data streams by state: each moment of a stream is in one; peer: who reads, if that is known",
        );
        for (key, nanos) in &sums {
            let direction = if key.receives { "received" } else { "sent" };
            let peer = key.peer.map(|peer| peer.to_string()).unwrap_or_default();
            // Most streams never wait for most things, and there may be a line for each of a thousand peers.
            for (state, nanos) in StreamState::ALL.into_iter().zip(nanos).filter(|(_, nanos)| **nanos > 0) {
                let labels = [
                    ("area", key.area.as_str()),
                    ("direction", direction),
                    ("peer", &peer),
                    ("state", wait_of(state).as_str()),
                ];
                page.sample(&labels, *nanos as f64 / 1e9);
            }
        }
    }
}

fn add(sums: &mut [u64; 5], times: &StateTimes) {
    for (sum, nanos) in sums.iter_mut().zip(times.nanos()) {
        *sum = sum.saturating_add(nanos);
    }
}

/// A state in the common vocabulary.
fn wait_of(state: StreamState) -> Wait {
    match state {
        StreamState::Network => Wait::Network,
        StreamState::Disk => Wait::Disk,
        StreamState::Processor => Wait::Processor,
        StreamState::Permit => Wait::Permit,
        StreamState::Limiter => Wait::Limiter,
    }
}

/// The times of one of so many streams, on average: the time that the transfer spent in each state.
pub(crate) fn waits_of_each(times: &StateTimes, streams: u64) -> Waits {
    let mut waits = Waits::default();
    for (state, nanos) in StreamState::ALL.into_iter().zip(times.nanos()) {
        waits.add(wait_of(state), Duration::from_nanos(nanos / streams.max(1)));
    }
    waits
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn sums_never_fall_and_peers_are_bounded() {
        let states = StreamStates::default();
        let reader = |number: u32| Some(IpAddr::from(number.to_be_bytes()));
        let all = |states: &StreamStates| -> u64 { states.sums().values().flatten().sum() };
        let mut before = 0;
        for number in 0..PEERS_LIMIT as u32 + 10 {
            let times = states.begin("data", false, reader(number));
            times.add(StreamState::Disk, Duration::from_millis(1));
            assert!(all(&states) > before, "a stream under way counts");
            before = all(&states);
            states.end(&times);
            assert_eq!(all(&states), before);
        }
        assert!(states.sums().len() <= PEERS_LIMIT + 1);
        let times = states.begin("data", true, reader(7));
        times.add(StreamState::Network, Duration::from_millis(8));
        assert_eq!(waits_of_each(&times, 4).get(Wait::Network), Duration::from_millis(2));
        assert_eq!(waits_of_each(&times, 0).get(Wait::Network), Duration::from_millis(8));
    }
}
