//! The states in which a transfer waits, from its request to its end.
//!
//! A transfer is in exactly one state at a time, as a connection is in the TCP chronograph of Linux (`tcpi_busy_time`
//! and its parts). So the times in all states add up to the life of the transfer. The real world and the simulator
//! measure the same states.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::BitRate;

use crate::cause::{CauseClass, Place};
use crate::words::words;

words!(Wait {
    /// Its request waits in the catalogue.
    Catalogue = "catalogue",
    /// Its turn: nothing on its way is full, and the transfer service has not decided yet.
    Turn = "turn",
    /// A slot: an operator's limit on concurrency is reached.
    Slots = "slots",
    /// A slot: the optimiser allows no more.
    Optimiser = "optimiser",
    /// A slot: the transfer service keeps to a limit on bandwidth.
    BandwidthLimit = "bandwidth-limit",
    /// The end of a pause that the transfer service makes after failures.
    Pause = "pause",
    /// The end of a halt: an operator lets nothing start.
    Halt = "halt",
    /// The time of its next attempt after one that failed.
    Retry = "retry",
    /// Another transfer: the hop before it, or another source of its file.
    Other = "other-transfer",
    /// The record of its start in the store of the transfer service.
    Store = "store",
    /// The restoring of the queue after a restart.
    Restoring = "restoring",
    /// The file, from tape.
    Staging = "staging",
    /// The copy on tape.
    Archiving = "archiving",
    /// A free place in the executor.
    Executor = "executor",
    /// Its tokens, from the issuer.
    Token = "token",
    /// The address of a host name.
    Resolve = "resolve",
    /// A TCP connection.
    Connect = "connect",
    /// A TLS handshake.
    Tls = "tls",
    /// The answers about source and destination before the copy, and the directories of the destination.
    Look = "look",
    /// The removal of an old file at the destination.
    Delete = "delete",
    /// A place at a storage that serves as many copies as it may.
    Place = "place",
    /// The first byte of data, from the order of the copy.
    FirstByte = "first-byte",
    /// Data, of which nobody says why it comes no faster.
    Data = "data",
    /// Data from the network, or room in it.
    Network = "network",
    /// Acknowledgements: one connection's window is smaller than its path needs.
    Window = "window",
    /// A disk.
    Disk = "disk",
    /// A processor: TLS, checksums, copies of memory.
    Processor = "processor",
    /// Memory of the storage, or its turn for it.
    Permit = "permit",
    /// A limit on bandwidth that the storage is configured with.
    Limiter = "limiter",
    /// A checksum that is computed after the data have come.
    Checksum = "checksum",
    /// The storage's answer after the last byte: flush, rename, commit.
    Close = "close",
    /// The comparison of size and checksum at the end.
    Verify = "verify",
});

words!(WaitPhase {
    /// Before the transfer service knows of it.
    Catalogue = "catalogue",
    /// Before an attempt starts.
    Queue = "queue",
    /// In an attempt, before data move.
    Begin = "begin",
    /// While data move.
    Data = "data",
    /// In an attempt, after data have moved.
    End = "end",
});

impl Wait {
    /// Number of states.
    pub const COUNT: usize = Self::ALL.len();

    /// Its place in [`Wait::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The part of a transfer's life that it belongs to.
    pub fn phase(self) -> WaitPhase {
        match self {
            Self::Catalogue => WaitPhase::Catalogue,
            Self::Turn
            | Self::Slots
            | Self::Optimiser
            | Self::BandwidthLimit
            | Self::Pause
            | Self::Halt
            | Self::Retry
            | Self::Other
            | Self::Store
            | Self::Restoring
            | Self::Staging
            | Self::Archiving => WaitPhase::Queue,
            Self::Executor
            | Self::Token
            | Self::Resolve
            | Self::Connect
            | Self::Tls
            | Self::Look
            | Self::Delete
            | Self::Place
            | Self::FirstByte => WaitPhase::Begin,
            Self::Data | Self::Network | Self::Window | Self::Disk | Self::Processor | Self::Permit | Self::Limiter => {
                WaitPhase::Data
            }
            Self::Checksum | Self::Close | Self::Verify => WaitPhase::End,
        }
    }

    /// The class that this state alone speaks for. Other evidence may contradict it.
    pub fn class(self) -> CauseClass {
        match self {
            Self::Catalogue | Self::Turn | Self::Store | Self::Restoring | Self::Executor => CauseClass::ControlPlane,
            Self::Slots | Self::Optimiser | Self::BandwidthLimit | Self::Halt => CauseClass::SchedulerPolicy,
            Self::Pause => CauseClass::Outage,
            Self::Staging | Self::Archiving => CauseClass::Tape,
            Self::Token => CauseClass::Authorisation,
            Self::Resolve | Self::Connect | Self::Tls | Self::Window => CauseClass::PathQuality,
            Self::Delete => CauseClass::Space,
            Self::Place | Self::Permit | Self::Limiter => CauseClass::Admission,
            Self::Network => CauseClass::SharedCapacity,
            Self::Look
            | Self::FirstByte
            | Self::Disk
            | Self::Processor
            | Self::Checksum
            | Self::Close
            | Self::Verify => CauseClass::StorageDataPath,
            Self::Retry | Self::Other | Self::Data => CauseClass::Other,
        }
    }
}

/// The time that a transfer spent in each state, in microseconds. A state that was not seen has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits([u64; Wait::COUNT]);

impl Default for Waits {
    fn default() -> Self {
        Self([0; Wait::COUNT])
    }
}

impl Waits {
    /// Time in a state.
    pub fn get(&self, wait: Wait) -> Duration {
        Duration::from_micros(self.0[wait.index()])
    }

    /// Adds time in a state; sums saturate.
    pub fn add(&mut self, wait: Wait, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let sum = &mut self.0[wait.index()];
        *sum = sum.saturating_add(micros);
    }

    /// Adds the times of another life, such as an earlier attempt.
    pub fn merge(&mut self, other: &Self) {
        for (wait, time) in other.iter() {
            self.add(wait, time);
        }
    }

    /// States with time in them, in the order of [`Wait::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Wait, Duration)> {
        let times = Wait::ALL.iter().zip(self.0);
        times
            .filter(|(_, micros)| *micros > 0)
            .map(|(wait, micros)| (*wait, Duration::from_micros(micros)))
    }

    /// Whether no state has any time.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|micros| *micros == 0)
    }

    /// The time in all states.
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.0.iter().fold(0, |sum, micros| sum.saturating_add(*micros)))
    }

    /// The time in the states of one phase.
    pub fn of_phase(&self, phase: WaitPhase) -> Duration {
        self.iter()
            .filter(|(wait, _)| wait.phase() == phase)
            .map(|(_, time)| time)
            .sum()
    }

    /// The longest state; of equal ones the first.
    pub fn longest(&self) -> Option<(Wait, Duration)> {
        let longer = |one: (Wait, Duration), other: (Wait, Duration)| if other.1 > one.1 { other } else { one };
        self.iter().reduce(longer)
    }

    /// Reads what [`Waits`]' `Display` writes. Unknown states are passed over, so that a newer writer is understood.
    pub fn parse(text: &str) -> Option<Self> {
        let mut waits = Self::default();
        for part in text.split(' ').filter(|part| !part.is_empty()) {
            let (wait, micros) = part.split_once('=')?;
            let micros = Duration::from_micros(micros.parse().ok()?);
            if let Some(wait) = Wait::parse(wait) {
                waits.add(wait, micros);
            }
        }
        Some(waits)
    }
}

impl std::fmt::Display for Waits {
    /// Writes states and their microseconds: `token=1200 disk=77000`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (wait, time)) in self.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{wait}={}", time.as_micros())?;
        }
        Ok(())
    }
}

impl Serialize for Waits {
    /// Writes a map of states to seconds.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(wait, time)| (wait, time.as_secs_f64())))
    }
}

impl<'de> Deserialize<'de> for Waits {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = std::collections::BTreeMap::<String, f64>::deserialize(deserializer)?;
        let mut waits = Self::default();
        for (wait, seconds) in map {
            // A time that is negative or no number tells nothing.
            let time = Duration::try_from_secs_f64(seconds).ok();
            if let Some((wait, time)) = Wait::parse(&wait).zip(time) {
                waits.add(wait, time);
            }
        }
        Ok(waits)
    }
}

/// A cause with the place that held a transfer or a link back, the state in which that showed, and the rate that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The class.
    pub class: CauseClass,
    /// The place.
    pub place: Place,
    /// The state in which it showed.
    pub wait: Wait,
    /// The rate at which the place held it, in bit/s; `None` if it moved nothing, or nobody knows.
    #[serde(with = "weir_units::bps::option", default)]
    pub rate_bps: Option<BitRate>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn states_parse_back_and_stand_in_the_order_of_life() {
        for wait in Wait::ALL {
            assert_eq!(Wait::parse(wait.as_str()), Some(*wait));
            assert_eq!(Wait::ALL[wait.index()], *wait);
        }
        // The bars of a report stack the states in this order.
        assert!(Wait::ALL.windows(2).all(|pair| pair[0].phase() <= pair[1].phase()));
    }

    #[test]
    fn states_of_a_newer_writer_are_passed_over() {
        let waits = Waits::parse("token=1200 levitation=7 disk=77").unwrap();
        assert_eq!(waits.to_string(), "token=1200 disk=77");
        assert_eq!(Waits::parse("token=-1"), None);
        assert_eq!(Waits::parse("token"), None);
        let read: Waits = serde_json::from_str(r#"{"disk": 0.5, "levitation": 1, "tls": -2, "data": 1e300}"#).unwrap();
        assert_eq!(read.to_string(), "disk=500000");
    }

    #[test]
    fn the_longest_state_is_found() {
        let waits = Waits::parse("slots=30 network=70 verify=70").unwrap();
        assert_eq!(waits.longest(), Some((Wait::Network, Duration::from_micros(70))));
        assert_eq!(waits.total(), Duration::from_micros(170));
        assert_eq!(waits.of_phase(WaitPhase::Data), Duration::from_micros(70));
        assert_eq!(Waits::default().longest(), None);
    }

    proptest! {
        #[test]
        fn waits_are_read_as_they_are_written(parts in proptest::collection::vec((0..Wait::COUNT, any::<u64>()), 0..40)) {
            let mut waits = Waits::default();
            for (at, micros) in parts {
                waits.add(Wait::ALL[at], Duration::from_micros(micros));
            }
            prop_assert_eq!(Waits::parse(&waits.to_string()), Some(waits));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = Waits::parse(&text);
        }
    }
}
