//! Collects the counters of transfer service, receiving and sending storage, for the cross-checks.
//!
//! The comparison covers bytes of completed transfers: for failed attempts each party stops counting at another point.

use std::collections::{BTreeMap, BTreeSet};

use weir_measure::crosscheck::{Apart, Counted, Sockets, TOLERANCE, check};
use weir_measure::report::CrossCheck;
use weir_measure::{State, Transfer};
use weir_world::ErrorClass;

use crate::execute::engine::LinkEnds;
use crate::services::storage::{Counters, StorageDoor};

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
            (index, counters.map_err(|error| weir_auth::error_chain(&error)))
        });
    futures_util::future::join_all(reads).await.into_iter().collect()
}

/// The transfer service's account of the transfers, by door.
#[derive(Debug, Clone)]
pub(crate) struct Moved {
    /// Into and out of it.
    received: Vec<Way>,
    sent: Vec<Way>,
}

/// Transfers into a door, or out of it.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// Whether there was any.
    used: bool,
    /// Finished transfers, and the bytes that the service saw moving in them.
    finished: u64,
    counted: u64,
    /// Finished ones of which it saw no final count.
    uncounted: u64,
    /// Attempts, as far as known.
    attempts: u64,
    /// Attempts beside the one that finished a transfer.
    spare: u64,
    /// Transfers of which the run ended before the service said how they ended; part of `spare`.
    unanswered: u64,
    /// Bytes that these, and finished ones without a count, may have moved.
    explained: u64,
}

impl Way {
    fn add(&mut self, transfer: &Transfer) {
        self.used = true;
        let spare = spare(transfer);
        self.spare += spare;
        self.attempts += spare;
        self.unanswered += u64::from(transfer.state == State::Unanswered);
        let mut unseen = spare;
        if transfer.state == State::Finished {
            self.finished += 1;
            self.attempts += 1;
            if let Some(bytes) = transfer.counted {
                self.counted += bytes;
            } else {
                self.uncounted += 1;
                unseen += 1;
            }
        }
        self.explained = self.explained.saturating_add(transfer.size.saturating_mul(unseen));
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            used: self.used || other.used,
            finished: self.finished + other.finished,
            counted: self.counted + other.counted,
            uncounted: self.uncounted + other.uncounted,
            attempts: self.attempts + other.attempts,
            spare: self.spare + other.spare,
            unanswered: self.unanswered + other.unanswered,
            explained: self.explained.saturating_add(other.explained),
        }
    }

    /// The service's counter; none where it saw no final count of anything that finished.
    fn counter(&self) -> Option<u64> {
        (self.finished == 0 || self.uncounted < self.finished).then_some(self.counted)
    }

    /// Describes attempts that only one counter may include, and finished transfers without a final count.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.uncounted > 0 {
            notes.push(format!(
                "of {} of {} finished transfers the transfer service saw no final count",
                self.uncounted, self.finished
            ));
        }
        if self.unanswered > 0 {
            notes.push(format!(
                "the run ended before the transfer service reported the ends of {} transfers; their bytes may be in a storage's counter alone",
                self.unanswered
            ));
        }
        let others = self.spare.saturating_sub(self.unanswered);
        if others > 0 {
            notes.push(format!(
                "{others} attempts were repeated, cancelled or failed; their bytes may be in one counter alone"
            ));
        }
        notes
    }
}

/// Attempts at a transfer that may have moved bytes and did not finish it.
fn spare(transfer: &Transfer) -> u64 {
    let retries = u64::from(transfer.retries);
    let class = transfer.failure.as_ref().map(|failure| failure.class);
    let out_of_sight = matches!(
        class,
        Some(
            ErrorClass::Unfinished
                | ErrorClass::Forgotten
                | ErrorClass::Cancelled
                | ErrorClass::Network
                | ErrorClass::Timeout
                | ErrorClass::Stall
        )
    );
    match transfer.state {
        State::Finished => retries,
        // The last markers come with the verdict: an attempt that had moved no byte by then is in no counter.
        State::Failed if transfer.bytes_moved == 0 && !out_of_sight => 0,
        State::Cancelled if transfer.bytes_moved == 0 && transfer.started.is_none() => 0,
        // It may have moved nothing or the whole file, whatever the service last reported.
        State::Failed | State::Cancelled | State::Unanswered => retries + 1,
    }
}

impl Moved {
    pub(crate) fn new(doors: usize) -> Self {
        Self {
            received: vec![Way::default(); doors],
            sent: vec![Way::default(); doors],
        }
    }

    pub(crate) fn add(&mut self, ends: LinkEnds, transfer: &Transfer) {
        self.received[ends.destination].add(transfer);
        self.sent[ends.source].add(transfer);
    }
}

/// Compares, RSE by RSE and in all, the counters' growth between two readings with the transfer service's account of the transfers in
/// between.
pub(crate) fn compare(doors: &[StorageDoor], moved: &Moved, before: &Reading, after: &Reading) -> Vec<CrossCheck> {
    let mut checks = Vec::new();
    let mut sums = [Some(0u64), Some(0u64), Some(0u64)];
    let mut broken = Apart::default();
    let add = |sum: &mut Option<u64>, more: Option<u64>| *sum = sum.zip(more).map(|(sum, more)| sum + more);
    for (index, door) in doors.iter().enumerate() {
        let (into, out) = (&moved.received[index], &moved.sent[index]);
        let reading = difference(before.get(&index), after.get(&index));
        let counters = reading.as_ref().ok();
        let carried = counters.and_then(|counters| counters.carried);
        let attempts = into.attempts + out.attempts;
        let parts = counters.map_or_else(Apart::default, |counters| Apart {
            unseen: 0,
            broken_received: counters.broken_received,
            broken_sent: counters.broken_sent,
        });
        broken.broken_received += parts.broken_received;
        broken.broken_sent += parts.broken_sent;
        let row = |quantity: &str, way: &Way, bytes: Option<u64>, broken: u64| Counted {
            subject: door.name.clone(),
            quantity: quantity.to_owned(),
            transfer_service: way.counter(),
            apart: Apart {
                unseen: way.explained,
                ..parts
            },
            sockets: bytes.map(|bytes| on_sockets(door, bytes, attempts)),
            note: note(door, &reading, way, broken),
            ..Counted::default()
        };
        if into.used {
            add(&mut sums[0], counters.map(|counters| counters.received));
            add(
                &mut sums[2],
                carried.map(|carried| on_sockets(door, carried.received, 0).bytes),
            );
            let counted = Counted {
                receiving_storage: counters.map(|counters| counters.received),
                ..row(
                    "bytes received",
                    into,
                    carried.map(|carried| carried.received),
                    parts.broken_received,
                )
            };
            checks.push(check(counted, TOLERANCE));
        }
        if out.used {
            add(&mut sums[1], counters.map(|counters| counters.sent));
            let counted = Counted {
                sending_storage: counters.map(|counters| counters.sent),
                ..row(
                    "bytes sent",
                    out,
                    carried.map(|carried| carried.acknowledged),
                    parts.broken_sent,
                )
            };
            checks.push(check(counted, TOLERANCE));
        }
    }
    checks.insert(0, check(all(doors, (moved, after), (sums, broken)), TOLERANCE));
    checks
}

/// The comparison over all doors, of received and sent bytes, and of those on the receiving sockets.
fn all(
    doors: &[StorageDoor],
    (moved, after): (&Moved, &Reading),
    ([received, sent, carried], broken): ([Option<u64>; 3], Apart),
) -> Counted {
    let starts = after.values().flatten().map(|counters| counters.started_ms);
    let (n_embedded, n_processes) = (after.len(), starts.collect::<BTreeSet<u64>>().len());
    let way = moved.received.iter().fold(Way::default(), Way::plus);
    let mut notes = way.notes();
    if received.is_none() || sent.is_none() {
        notes.push("not every storage has a counter".to_owned());
    }
    if n_embedded > 1 {
        let place = if n_processes > 1 { "" } else { " in one process" };
        notes.push(format!("the storages are one program{place} on this machine"));
    }
    let overhead = OVERHEAD_OF_DOOR * doors.len() as u64 + OVERHEAD_OF_ATTEMPT * 2 * way.attempts;
    Counted {
        subject: "all".to_owned(),
        quantity: "bytes delivered".to_owned(),
        transfer_service: way.counter(),
        receiving_storage: received,
        sending_storage: sent,
        catalogue: None,
        apart: Apart {
            unseen: way.explained,
            ..broken
        },
        sockets: carried.map(|bytes| Sockets { bytes, overhead }),
        lapsed: false,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

fn note(door: &StorageDoor, reading: &Result<Counters, String>, way: &Way, broken: u64) -> Option<String> {
    let mut notes = way.notes();
    if broken > 0 {
        notes.push(format!(
            "{broken} bytes of broken streams are not in this storage's counter"
        ));
    }
    match reading {
        _ if !door.embedded => notes.push("external storage has no counter that this run can read".to_owned()),
        Err(error) => notes.push(error.clone()),
        Ok(_) => {}
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Most bytes of requests, answers and markers of one attempt, at one end and in one direction. 3 to 5 kB were measured with 1,206 transfers
/// between six sites; tokens with many groups and new connections make it more.
const OVERHEAD_OF_ATTEMPT: u64 = 16 * 1024;

/// Most bytes of a door's own requests and handshakes in one direction: readings of its counters, dashboards, probes.
const OVERHEAD_OF_DOOR: u64 = 1024 * 1024;

/// Bytes that a full TLS 1.3 record has beside its 16,384 bytes of data (RFC 8446, section 5.2: header, content type, tag of an AEAD).
const RECORD: u64 = 16_384;
const RECORD_EXTRA: u64 = 5 + 1 + 16;

/// Bytes that the sockets of a door carried, less its TLS records, and the overhead that may be among them.
fn on_sockets(door: &StorageDoor, bytes: u64, attempts: u64) -> Sockets {
    let records = if door.url.starts_with("http://") || door.url.starts_with("dav://") {
        0
    } else {
        bytes / (RECORD + RECORD_EXTRA)
    };
    Sockets {
        bytes: bytes - records * RECORD_EXTRA,
        overhead: OVERHEAD_OF_DOOR + OVERHEAD_OF_ATTEMPT * attempts,
    }
}

fn difference(
    before: Option<&Result<Counters, String>>,
    after: Option<&Result<Counters, String>>,
) -> Result<Counters, String> {
    match (before, after) {
        (Some(Ok(before)), Some(Ok(after))) if before.started_ms != after.started_ms => {
            Err("the storage was started anew during the run: its counters began at zero".to_owned())
        }
        (Some(Ok(before)), Some(Ok(after))) => Ok(after.since(before)),
        (Some(Err(error)), _) | (_, Some(Err(error))) => Err(error.clone()),
        _ => Err("no counter".to_owned()),
    }
}

#[cfg(test)]
mod tests;
