//! Comparison of counters that were kept independently of each other.
//!
//! A disagreement is shown and fails the check; nothing is averaged. Fewer than two counters cannot be compared, which
//! is no agreement. Repeated, withdrawn or failed attempts and broken streams are in one party's counter and not in
//! another's: their possible bytes explain a difference in that direction, and leave it undecided. They never explain
//! the opposite one: bytes that a transfer service saw and a storage did not count are lost, however many attempts were
//! repeated.

use serde::{Deserialize, Serialize};

/// Largest relative difference that passes: one part in a thousand. Counters of the same bytes over the same time are
/// equal; the rest are bytes under way when a counter was read.
pub const TOLERANCE: f64 = 0.001;

/// A comparison of independent counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrossCheck {
    /// RSE, or `all`.
    pub subject: String,
    /// The counted quantity, e.g. `bytes received`.
    pub quantity: String,
    /// Bytes that the transfer service saw moving, transfer by transfer, where it saw a final count; no size that was
    /// looked up.
    pub transfer_service: Option<u64>,
    /// As the receiving storage counts it.
    pub receiving_storage: Option<u64>,
    /// As the sending storage counts it.
    pub sending_storage: Option<u64>,
    /// Bytes of the replicas in the catalogue.
    #[serde(default)]
    pub catalogue: Option<u64>,
    /// (largest − smallest) ÷ largest of the counters present; `null` with fewer than two.
    pub difference_ratio: Option<f64>,
    /// At most so many bytes are in one counter alone: the largest of [`Apart`].
    #[serde(default)]
    pub explained_bytes: u64,
    /// (largest difference between two counters − bytes that explain one in that direction) ÷ largest counter. Thresholds judge this.
    #[serde(default)]
    pub unexplained_ratio: Option<f64>,
    /// Bytes that TCP carried on the sockets of the storage's end (`TCP_INFO`), less an estimate of TLS records.
    #[serde(default)]
    pub sockets: Option<u64>,
    /// |sockets − storage's counter| ÷ that counter.
    #[serde(default)]
    pub sockets_difference_ratio: Option<f64>,
    /// Largest such difference that passes: it grows with the share of heads and handshakes, which are not counted.
    #[serde(default)]
    pub sockets_tolerance_ratio: Option<f64>,
    /// Whether the differences are within their tolerances; `null` when there is nothing to compare, or when the bytes
    /// that may explain a difference are too many to decide. Neither is agreement.
    pub pass: Option<bool>,
    /// Whether a storage has a counter, and says that it did not count all of the time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lapsed: bool,
    /// The reason of a missing counter, or remarks on its scope.
    pub note: Option<String>,
}

/// The counters of all parties for one subject.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// RSE, or `all`.
    pub subject: String,
    /// The counted quantity, e.g. `bytes received`.
    pub quantity: String,
    /// Bytes that the transfer service saw moving.
    pub transfer_service: Option<u64>,
    /// As the receiving storage counts it.
    pub receiving_storage: Option<u64>,
    /// As the sending storage counts it.
    pub sending_storage: Option<u64>,
    /// Bytes of the replicas in the catalogue.
    pub catalogue: Option<u64>,
    /// Bytes that may be in one counter alone.
    pub apart: Apart,
    /// Bytes that TCP carried on the storage's end.
    pub sockets: Option<Sockets>,
    /// See [`CrossCheck::lapsed`].
    pub lapsed: bool,
    /// The reason of a missing counter, or remarks on its scope.
    pub note: Option<String>,
}

/// Bytes that may be in one counter and not in another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Apart {
    /// Bytes of attempts that were repeated, withdrawn or failed, and of transfers without a final count: not in the transfer service's
    /// counter, perhaps in a storage's.
    pub unseen: u64,
    /// Bytes that broken transfers had written at the receiving storage: not in its counter.
    pub broken_received: u64,
    /// Bytes that broken transfers had read at the sending storage: not in its counter. A pull that resumes a broken stream leaves the stream's
    /// first part here, and has a final count of both parts.
    pub broken_sent: u64,
}

impl Apart {
    /// The largest of them.
    fn most(&self) -> u64 {
        self.unseen.max(self.broken_received).max(self.broken_sent)
    }
}

/// The bytes that TCP carried on one end, over all connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sockets {
    /// Bytes, less an estimate of TLS's overhead.
    pub bytes: u64,
    /// Bytes of heads, handshakes and other requests that may be among them.
    pub overhead: u64,
}

/// Share of the bytes by which sockets and storage may differ beside [`Sockets::overhead`]: TLS records that were not full.
pub const SOCKETS_TOLERANCE: f64 = 0.01;

/// Compares the counters that are there.
pub fn check(counted: Counted, tolerance: f64) -> CrossCheck {
    let (difference, unexplained) = match spread(&counted) {
        Some((apart, largest)) => (Some(ratio(apart, largest)), Some(ratio(unexplained(&counted), largest))),
        None => (None, None),
    };
    let storage = counted.receiving_storage.or(counted.sending_storage);
    let sockets = counted
        .sockets
        .zip(storage)
        .map(|(sockets, storage)| carried(sockets, storage));
    let by_sockets = sockets.map(|(difference, tolerance)| {
        // Sockets carry counted and uncounted bytes, so a receiving socket never carries less. A sender counts the
        // bytes that it gives to the system; if the other side ends an attempt, some of them are never sent.
        let more = counted.sockets.map(|sockets| sockets.bytes) > storage;
        let explained = match (more, counted.receiving_storage) {
            (true, _) => counted.apart.most(),
            (false, None) => counted.apart.unseen,
            (false, Some(_)) => 0,
        };
        let explained = ratio(explained, storage.unwrap_or_default());
        outcome(difference, (difference - explained).max(0.0), tolerance)
    });
    let by_counters = difference
        .zip(unexplained)
        .map(|(all, rest)| outcome(all, rest, tolerance));
    let outcomes: Vec<_> = by_counters.into_iter().chain(by_sockets).collect();
    CrossCheck {
        pass: both(&outcomes),
        subject: counted.subject,
        quantity: counted.quantity,
        transfer_service: counted.transfer_service,
        receiving_storage: counted.receiving_storage,
        sending_storage: counted.sending_storage,
        catalogue: counted.catalogue,
        difference_ratio: difference,
        explained_bytes: counted.apart.most(),
        unexplained_ratio: unexplained,
        sockets: counted.sockets.map(|sockets| sockets.bytes),
        sockets_difference_ratio: sockets.map(|(difference, _)| difference),
        sockets_tolerance_ratio: sockets.map(|(_, tolerance)| tolerance),
        lapsed: counted.lapsed,
        note: counted.note,
    }
}

/// Relative difference of sockets and storage, and the largest that passes.
fn carried(sockets: Sockets, storage: u64) -> (f64, f64) {
    let tolerance = SOCKETS_TOLERANCE + ratio(sockets.overhead, storage);
    (ratio(sockets.bytes.abs_diff(storage), storage), tolerance)
}

/// Whether a difference passes; `None` if the bytes that may explain it leave no more than the tolerance.
fn outcome(difference: f64, unexplained: f64, tolerance: f64) -> Option<bool> {
    if difference <= tolerance {
        Some(true)
    } else if unexplained > tolerance {
        Some(false)
    } else {
        None
    }
}

/// One disagreement fails, one doubt leaves it open; where nothing was compared there is nothing to say.
fn both(outcomes: &[Option<bool>]) -> Option<bool> {
    if outcomes.contains(&Some(false)) {
        Some(false)
    } else if outcomes.is_empty() || outcomes.contains(&None) {
        None
    } else {
        Some(true)
    }
}

/// Returns largest − smallest, and the largest; `None` with fewer than two counters.
fn spread(counted: &Counted) -> Option<(u64, u64)> {
    let counters = [
        counted.transfer_service,
        counted.receiving_storage,
        counted.sending_storage,
        counted.catalogue,
    ];
    let present: Vec<u64> = counters.iter().flatten().copied().collect();
    if present.len() < 2 {
        return None;
    }
    let (smallest, largest) = (present.iter().min()?, present.iter().max()?);
    Some((largest - smallest, *largest))
}

/// The largest difference between two counters that their [`Apart`] does not explain.
fn unexplained(counted: &Counted) -> u64 {
    let (service, receiving, sending) = (
        counted.transfer_service,
        counted.receiving_storage,
        counted.sending_storage,
    );
    let Apart {
        unseen,
        broken_received,
        broken_sent,
    } = counted.apart;
    let more_than = |more: Option<u64>, less: Option<u64>, explained: u64| {
        let pair = more.zip(less);
        pair.map_or(0, |(more, less)| more.saturating_sub(less).saturating_sub(explained))
    };
    [
        more_than(receiving, service, unseen),
        more_than(sending, service, unseen),
        more_than(service, receiving, broken_received),
        more_than(service, sending, broken_sent),
        more_than(receiving, sending, broken_sent),
        // A file that is being deleted is gone here before it is gone there.
        more_than(receiving, counted.catalogue, unseen),
        more_than(counted.catalogue, receiving, unseen),
        // Part of the bytes that a sender had sent when the receiver broke off was in no file yet.
        more_than(sending, receiving, unseen.max(broken_received)),
    ]
    .into_iter()
    .max()
    .unwrap_or_default()
}

/// A part of a whole; nothing of nothing is zero.
#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with a few digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    match (part, whole) {
        (0, _) => 0.0,
        (part, whole) => part as f64 / whole.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference_of(
        transfer: Option<u64>,
        receiving: Option<u64>,
        sending: Option<u64>,
    ) -> (Option<f64>, Option<bool>) {
        let counted = Counted {
            transfer_service: transfer,
            receiving_storage: receiving,
            sending_storage: sending,
            ..Counted::default()
        };
        let check = check(counted, TOLERANCE);
        (check.difference_ratio, check.pass)
    }

    #[test]
    fn compares_only_what_is_there() {
        // Wrong: a missing counter counts as zero, a disagreement passes, or one counter agrees with itself.
        assert_eq!(difference_of(Some(100), Some(100), Some(100)), (Some(0.0), Some(true)));
        assert_eq!(difference_of(Some(100), Some(90), None), (Some(0.1), Some(false)));
        assert_eq!(difference_of(Some(1_000), Some(998), None).1, Some(false));
        assert_eq!(difference_of(Some(100), None, None), (None, None));
        assert_eq!(difference_of(None, None, None), (None, None));
        assert_eq!(difference_of(Some(0), Some(0), None), (Some(0.0), Some(true)));
        assert_eq!(
            difference_of(None, Some(10_000), Some(9_999)),
            (Some(0.0001), Some(true))
        );
    }

    fn pass_of(explained: u64, sockets: Option<Sockets>, transfer: u64, receiving: u64) -> Option<bool> {
        let counted = Counted {
            transfer_service: Some(transfer),
            receiving_storage: Some(receiving),
            apart: Apart {
                unseen: explained,
                ..Apart::default()
            },
            sockets,
            ..Counted::default()
        };
        check(counted, TOLERANCE).pass
    }

    #[test]
    fn repeated_attempts_explain_a_difference_and_prove_nothing() {
        // Wrong: a withdrawn or repeated transfer is a false alarm, or it hides a difference that is larger.
        assert_eq!(pass_of(0, None, 1_000_000, 1_000_000), Some(true));
        assert_eq!(pass_of(50_000, None, 1_000_000, 1_000_000), Some(true));
        assert_eq!(pass_of(50_000, None, 1_000_000, 1_050_000), None);
        assert_eq!(pass_of(50_000, None, 1_000_000, 1_060_000), Some(false));
        assert_eq!(pass_of(0, None, 1_000_000, 1_050_000), Some(false));
    }

    #[test]
    fn an_explanation_of_one_direction_does_not_explain_the_other() {
        // Wrong: a storage that lost bytes is excused by attempts that were repeated, or a pull that resumed is a false alarm.
        let pass = |[service, receiving, sending]: [u64; 3], apart| {
            let counted = Counted {
                transfer_service: Some(service),
                receiving_storage: Some(receiving),
                sending_storage: Some(sending),
                apart,
                ..Counted::default()
            };
            check(counted, TOLERANCE).pass
        };
        let unseen = |bytes| Apart {
            unseen: bytes,
            ..Apart::default()
        };
        let whole = 1_000_000;
        assert_eq!(pass([whole, 950_000, whole], unseen(50_000)), Some(false));
        assert_eq!(pass([whole, whole, 950_000], unseen(50_000)), Some(false));
        assert_eq!(pass([whole, whole, 1_050_000], unseen(50_000)), None);
        // A stream that broke after 50,000 bytes and was resumed.
        let resumed = |bytes| Apart {
            broken_sent: bytes,
            ..Apart::default()
        };
        assert_eq!(pass([whole, whole, 950_000], resumed(50_000)), None);
        assert_eq!(pass([whole, whole, 940_000], resumed(50_000)), Some(false));
        assert_eq!(pass([whole, 950_000, whole], resumed(50_000)), Some(false));
        let refused = Apart {
            broken_received: 50_000,
            ..Apart::default()
        };
        assert_eq!(pass([whole, 950_000, whole], refused), None);
        assert_eq!(pass([whole, whole, 950_000], refused), Some(false));
    }

    #[test]
    fn sockets_have_a_tolerance_of_their_own() {
        // Wrong: bytes that a storage counts and no socket carried go unnoticed, or heads and handshakes are a false alarm.
        let sockets = |bytes, overhead| Some(Sockets { bytes, overhead });
        assert_eq!(pass_of(0, sockets(1_009_000, 0), 1_000_000, 1_000_000), Some(true));
        assert_eq!(pass_of(0, sockets(1_020_000, 0), 1_000_000, 1_000_000), Some(false));
        assert_eq!(pass_of(0, sockets(1_020_000, 15_000), 1_000_000, 1_000_000), Some(true));
        assert_eq!(pass_of(0, sockets(980_000, 0), 1_000_000, 1_000_000), Some(false));
        assert_eq!(pass_of(50_000, sockets(1_040_000, 0), 1_000_000, 1_000_000), None);
        assert_eq!(
            pass_of(50_000, sockets(960_000, 0), 1_000_000, 1_000_000),
            Some(false),
            "sockets carry no less than what was counted"
        );
        // 16 pulls of 500 kB from a sender that had handed over all, ended by their receivers in the middle.
        let sent = |bytes, unseen| {
            let counted = Counted {
                transfer_service: Some(18_000_000),
                sending_storage: Some(26_000_000),
                apart: Apart {
                    unseen,
                    ..Apart::default()
                },
                sockets: sockets(bytes, 0),
                ..Counted::default()
            };
            check(counted, TOLERANCE).pass
        };
        assert_eq!(sent(23_000_000, 8_000_000), None);
        assert_eq!(sent(17_000_000, 8_000_000), Some(false));
        assert_eq!(sent(23_000_000, 2_000_000), Some(false));
        let alone = Counted {
            receiving_storage: Some(1_000_000),
            sockets: sockets(1_000_000, 0),
            ..Counted::default()
        };
        let alone = check(alone, TOLERANCE);
        assert_eq!((alone.difference_ratio, alone.pass), (None, Some(true)));
        assert_eq!(alone.sockets_tolerance_ratio, Some(0.01));
    }
}
