//! Gathers what transfer service, receiving and sending storage counted, for the cross-checks.
//!
//! Compared are bytes of transfers that completed: what failed attempts moved is counted by each party up to another point.

use std::collections::BTreeMap;

use weir_measure::crosscheck::{Counted, TOLERANCE, check};
use weir_measure::report::CrossCheck;
use weir_measure::{State, Transfer};

use crate::engine::LinkEnds;
use crate::error::chain;
use crate::storage::{Counters, StorageDoor};

/// Counters of every embedded storage at one moment, by door; a text where they could not be read.
pub(crate) type Reading = BTreeMap<usize, Result<Counters, String>>;

/// Reads the counters of every embedded storage.
pub(crate) async fn read(doors: &[StorageDoor]) -> Reading {
    let reads = doors
        .iter()
        .enumerate()
        .filter(|(_, door)| door.embedded)
        .map(|(index, door)| async move {
            let counters = door.counters().await;
            (index, counters.map_err(|error| chain(&error)))
        });
    futures_util::future::join_all(reads).await.into_iter().collect()
}

/// Bytes that transfers moved by the transfer service's account, by door.
#[derive(Debug, Clone)]
pub(crate) struct Moved {
    /// Bytes of those that finished, into and out of it.
    received: Vec<u64>,
    sent: Vec<u64>,
    /// Whether any transfer went there, or came from there.
    used_in: Vec<bool>,
    used_out: Vec<bool>,
    retries: u64,
}

impl Moved {
    pub(crate) fn new(doors: usize) -> Self {
        Self {
            received: vec![0; doors],
            sent: vec![0; doors],
            used_in: vec![false; doors],
            used_out: vec![false; doors],
            retries: 0,
        }
    }

    pub(crate) fn add(&mut self, ends: LinkEnds, transfer: &Transfer) {
        let LinkEnds { source, destination } = ends;
        if transfer.state == State::Finished {
            self.received[destination] += transfer.bytes_moved;
            self.sent[source] += transfer.bytes_moved;
        }
        self.used_in[destination] = true;
        self.used_out[source] = true;
        self.retries += u64::from(transfer.retries);
    }
}

/// Compares, RSE by RSE and in all, the counters' growth between two readings with the transfer service's account of the transfers in
/// between.
pub(crate) fn compare(doors: &[StorageDoor], moved: &Moved, before: &Reading, after: &Reading) -> Vec<CrossCheck> {
    let Moved {
        received,
        sent,
        used_in,
        used_out,
        retries,
    } = moved;
    let note = |door: &StorageDoor, reading: &Result<Counters, String>| match reading {
        _ if !door.embedded => Some("external storage has no counter that this run can read".to_owned()),
        Err(error) => Some(error.clone()),
        Ok(_) if *retries > 0 => Some(format!(
            "{retries} attempts were repeated; one that moved everything and failed afterwards is in the storage's counter alone"
        )),
        Ok(_) => None,
    };
    let mut checks = Vec::new();
    let mut sums = (Some(0u64), Some(0u64));
    for (index, door) in doors.iter().enumerate() {
        let reading = difference(before.get(&index), after.get(&index));
        let counted = reading.as_ref().ok();
        if used_in[index] {
            let receiving = counted.map(|counters| counters.received);
            sums.0 = sums.0.zip(receiving).map(|(sum, bytes)| sum + bytes);
            checks.push(check(
                Counted {
                    subject: door.name.clone(),
                    quantity: "bytes received".to_owned(),
                    transfer_service: Some(received[index]),
                    receiving_storage: receiving,
                    sending_storage: None,
                    note: note(door, &reading),
                },
                TOLERANCE,
            ));
        }
        if used_out[index] {
            let sending = counted.map(|counters| counters.sent);
            sums.1 = sums.1.zip(sending).map(|(sum, bytes)| sum + bytes);
            checks.push(check(
                Counted {
                    subject: door.name.clone(),
                    quantity: "bytes sent".to_owned(),
                    transfer_service: Some(sent[index]),
                    receiving_storage: None,
                    sending_storage: sending,
                    note: note(door, &reading),
                },
                TOLERANCE,
            ));
        }
    }
    let all = Counted {
        subject: "all".to_owned(),
        quantity: "bytes delivered".to_owned(),
        transfer_service: Some(received.iter().sum()),
        receiving_storage: sums.0,
        sending_storage: sums.1,
        note: (sums.0.is_none() || sums.1.is_none()).then(|| "not every storage has a counter".to_owned()),
    };
    checks.insert(0, check(all, TOLERANCE));
    checks
}

fn difference(
    before: Option<&Result<Counters, String>>,
    after: Option<&Result<Counters, String>>,
) -> Result<Counters, String> {
    match (before, after) {
        (Some(Ok(before)), Some(Ok(after))) => Ok(Counters {
            received: after.received.saturating_sub(before.received),
            sent: after.sent.saturating_sub(before.sent),
        }),
        (Some(Err(error)), _) | (_, Some(Err(error))) => Err(error.clone()),
        _ => Err("no counter".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;
    use crate::engine::tests::door;

    /// A finished transfer of a million bytes from the first door to the second.
    fn moved() -> Moved {
        let mut moved = Moved::new(2);
        let ends = LinkEnds {
            source: 0,
            destination: 1,
        };
        let transfer = Transfer {
            workload: 0,
            link: 0,
            cell: None,
            size: 1_000_000,
            state: State::Finished,
            mode: None,
            late: std::time::Duration::ZERO,
            started: None,
            ended: std::time::Duration::ZERO,
            bytes_moved: 1_000_000,
            retries: 0,
            failure: None,
        };
        moved.add(ends, &transfer);
        // A failed transfer moved bytes too, which each party counts up to another point.
        let failed = Transfer {
            state: State::Failed,
            bytes_moved: 7_000,
            ..transfer
        };
        moved.add(ends, &failed);
        moved
    }

    fn readings(received: u64, sent: u64) -> [Reading; 2] {
        let counters = |door: usize, received: u64, sent: u64| (door, Ok(Counters { received, sent }));
        [
            [counters(0, 0, 500), counters(1, 300, 0)].into(),
            [counters(0, 0, 500 + sent), counters(1, 300 + received, 0)].into(),
        ]
    }

    fn compared(doors: &[StorageDoor], [before, after]: &[Reading; 2]) -> Vec<(String, Option<bool>)> {
        let checks = compare(doors, &moved(), before, after);
        let told = |check: CrossCheck| (format!("{} {}", check.subject, check.quantity), check.pass);
        checks.into_iter().map(told).collect()
    }

    #[test]
    fn a_counter_that_is_off_by_a_five_hundredth_fails() {
        // Wrong: bytes that one party lost, or made up, go unnoticed.
        let doors = [door("a"), door("b")];
        let good = compared(&doors, &readings(1_000_000, 1_000_000));
        assert!(
            good.iter().all(|(_, pass)| *pass == Some(true)) && good.len() == 3,
            "{good:?}"
        );
        let off = compared(&doors, &readings(998_000, 1_000_000));
        let failed: Vec<&str> = off
            .iter()
            .filter(|(_, pass)| *pass == Some(false))
            .map(|(of, _)| of.as_str())
            .collect();
        assert_eq!(failed, ["all bytes delivered", "b bytes received"]);
        let off = compared(&doors, &readings(1_000_000, 1_002_000));
        let failed: Vec<&str> = off
            .iter()
            .filter(|(_, pass)| *pass == Some(false))
            .map(|(of, _)| of.as_str())
            .collect();
        assert_eq!(failed, ["all bytes delivered", "a bytes sent"]);
    }

    #[test]
    fn a_storage_without_counters_agrees_with_nobody() {
        // Wrong: a grid of which no counter can be read is reported as one whose counters agree.
        let mut doors = [door("a"), door("b")];
        doors.iter_mut().for_each(|door| door.embedded = false);
        let none = compared(&doors, &[Reading::new(), Reading::new()]);
        assert!(
            none.iter().all(|(_, pass)| pass.is_none()) && none.len() == 3,
            "{none:?}"
        );
        let unread: [Reading; 2] = std::array::from_fn(|_| [(1, Err("no answer".to_owned()))].into());
        assert!(compared(&doors, &unread).iter().all(|(_, pass)| pass.is_none()));
    }
}
