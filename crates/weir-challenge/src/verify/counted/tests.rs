#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
use super::*;
use crate::execute::engine::tests::door;
use crate::services::storage::Carried;

const ENDS: LinkEnds = LinkEnds {
    source: 0,
    destination: 1,
};

/// A finished transfer of a million bytes.
fn transfer() -> Transfer {
    Transfer {
        workload: 0,
        link: 0,
        cell: None,
        size: 1_000_000,
        state: State::Finished,
        mode: None,
        injected: std::time::Duration::ZERO,
        late: std::time::Duration::ZERO,
        started: None,
        ended: std::time::Duration::ZERO,
        bytes_moved: 1_000_000,
        counted: Some(1_000_000),
        first_byte: None,
        waits: None,
        retries: 0,
        stages: None,
        failure: None,
    }
}

/// A transfer that failed after some bytes.
fn failed(size: u64, bytes_moved: u64, class: ErrorClass) -> Transfer {
    Transfer {
        size,
        state: State::Failed,
        bytes_moved,
        counted: None,
        first_byte: None,
        failure: Some(weir_measure::Failure {
            class,
            message: String::new(),
            party: None,
            phase: None,
            remedy: None,
        }),
        ..transfer()
    }
}

/// A transfer from the first door to the second, and others.
fn moved(others: &[Transfer]) -> Moved {
    let mut moved = Moved::new(2);
    moved.add(ENDS, &transfer());
    others.iter().for_each(|other| moved.add(ENDS, other));
    moved
}

fn readings(received: u64, sent: u64) -> [Reading; 2] {
    carried_readings(received, sent, None)
}

/// With the bytes that TCP carried into the second door and out of the first.
fn carried_readings(received: u64, sent: u64, carried: Option<u64>) -> [Reading; 2] {
    let counters = |door: usize, received: u64, sent: u64, carried: Option<u64>| {
        let carried = carried.map(|bytes| Carried {
            received: bytes,
            acknowledged: bytes,
        });
        (
            door,
            Ok(Counters {
                received,
                sent,
                carried,
                ..Counters::default()
            }),
        )
    };
    let nothing = carried.map(|_| 77);
    let carried = carried.map(|bytes| bytes + 77);
    [
        [counters(0, 0, 500, nothing), counters(1, 300, 0, nothing)].into(),
        [
            counters(0, 0, 500 + sent, carried),
            counters(1, 300 + received, 0, carried),
        ]
        .into(),
    ]
}

type Told = Vec<(String, Option<bool>)>;

fn compared(doors: &[StorageDoor], moved: &Moved, [before, after]: &[Reading; 2]) -> Told {
    let checks = compare(doors, moved, before, after);
    let told = |check: CrossCheck| (format!("{} {}", check.subject, check.quantity), check.pass);
    checks.into_iter().map(told).collect()
}

fn with(told: &Told, pass: Option<bool>) -> Vec<&str> {
    let of = told.iter().filter(|(_, found)| *found == pass);
    of.map(|(of, _)| of.as_str()).collect()
}

const ALL: &str = "all bytes delivered";

#[test]
fn a_counter_that_is_off_by_a_five_hundredth_fails() {
    // Wrong: bytes that one party lost, or made up, go unnoticed.
    let (doors, moved) = ([door("a"), door("b")], moved(&[]));
    let good = compared(&doors, &moved, &readings(1_000_000, 1_000_000));
    assert_eq!(with(&good, Some(true)), [ALL, "a bytes sent", "b bytes received"]);
    let off = compared(&doors, &moved, &readings(998_000, 1_000_000));
    assert_eq!(with(&off, Some(false)), [ALL, "b bytes received"]);
    let off = compared(&doors, &moved, &readings(1_000_000, 1_002_000));
    assert_eq!(with(&off, Some(false)), [ALL, "a bytes sent"]);
}

#[test]
fn repeated_and_withdrawn_transfers_raise_no_alarm() {
    // Wrong: a run with a repeated, failed or withdrawn transfer fails though nothing was lost, or such a one hides any loss.
    let doors = [door("a"), door("b")];
    let full = [failed(50_000, 7_000, ErrorClass::NoSpace)];
    let out_of_sight = [failed(50_000, 0, ErrorClass::Timeout)];
    let repeated = [Transfer {
        size: 50_000,
        counted: Some(50_000),
        first_byte: None,
        retries: 1,
        ..transfer()
    }];
    let withdrawn = [Transfer {
        size: 50_000,
        bytes_moved: 9,
        state: State::Cancelled,
        ..transfer()
    }];
    // Never observed: the run ended before the service said anything.
    let unanswered = [Transfer {
        size: 50_000,
        bytes_moved: 0,
        counted: None,
        started: None,
        state: State::Unanswered,
        ..transfer()
    }];
    for (others, finished) in [
        (&unanswered, 1_000_000),
        (&full, 1_000_000),
        (&out_of_sight, 1_000_000),
        (&repeated, 1_050_000),
        (&withdrawn, 1_000_000),
    ] {
        let (moved, more, too_many) = (moved(others), finished + 50_000, finished + 60_000);
        let told = compared(&doors, &moved, &readings(finished, finished));
        assert_eq!(with(&told, Some(true)).len(), 3, "{others:?} {told:?}");
        let told = compared(&doors, &moved, &readings(finished, more));
        assert_eq!(with(&told, None), [ALL, "a bytes sent"], "{others:?} {told:?}");
        let told = compared(&doors, &moved, &readings(finished, too_many));
        assert_eq!(with(&told, Some(false)), [ALL, "a bytes sent"], "{others:?} {told:?}");
        let told = compared(&doors, &moved, &readings(finished - 50_000, finished));
        assert!(
            with(&told, Some(false)).contains(&"b bytes received"),
            "bytes that the service saw and a storage did not count are lost: {told:?}"
        );
    }
    // A transfer refused before its first byte explains nothing.
    let refused = moved(&[failed(50_000, 0, ErrorClass::NotFound)]);
    let told = compared(&doors, &refused, &readings(1_000_000, 1_050_000));
    assert_eq!(with(&told, Some(false)), [ALL, "a bytes sent"]);
}

#[test]
fn a_stream_that_broke_and_was_resumed_raises_no_alarm() {
    // Wrong: a pull that survived a broken connection fails the run, or it excuses a storage that lost bytes.
    let (doors, moved) = ([door("a"), door("b")], moved(&[]));
    let broken = |received, sent| {
        let [before, mut after] = readings(received, sent);
        let sender = after.get_mut(&0).and_then(|read| read.as_mut().ok()).unwrap();
        sender.broken_sent = 400_000;
        [before, after]
    };
    let told = compared(&doors, &moved, &broken(1_000_000, 600_000));
    assert_eq!(with(&told, None), [ALL, "a bytes sent"], "{told:?}");
    assert_eq!(with(&told, Some(true)), ["b bytes received"]);
    let told = compared(&doors, &moved, &broken(1_000_000, 590_000));
    assert_eq!(with(&told, Some(false)), [ALL, "a bytes sent"], "{told:?}");
    let told = compared(&doors, &moved, &broken(600_000, 1_000_000));
    assert_eq!(with(&told, Some(false)), [ALL, "b bytes received"], "{told:?}");
    let [before, after] = broken(1_000_000, 600_000);
    let checks = compare(&doors, &moved, &before, &after);
    let note = checks[1].note.as_deref().unwrap();
    assert_eq!(note, "400000 bytes of broken streams are not in this storage's counter");
}

#[test]
fn a_service_that_saw_nothing_has_no_counter() {
    // Wrong: planned or looked-up sizes appear in the report as counters of a transfer service.
    let doors = [door("a"), door("b")];
    let mut unseen = Moved::new(2);
    let unseen_one = Transfer {
        counted: None,
        first_byte: None,
        ..transfer()
    };
    unseen.add(ENDS, &unseen_one);
    let [before, after] = readings(1_000_000, 1_000_000);
    let checks = compare(&doors, &unseen, &before, &after);
    assert!(
        checks.iter().all(|check| check.transfer_service.is_none()),
        "{checks:?}"
    );
    let passes: Vec<_> = checks.iter().map(|check| check.pass).collect();
    assert_eq!(
        passes,
        [Some(true), None, None],
        "two storages can be compared, one cannot"
    );
    let note = checks[1].note.as_deref().unwrap();
    assert!(
        note.contains("of 1 of 1 finished transfers the transfer service saw no final count"),
        "{note}"
    );
    let note = checks[0].note.as_deref().unwrap();
    assert!(note.contains("one program in one process"), "{note}");
}

#[test]
fn bytes_that_no_socket_carried_are_found() {
    // Wrong: three counters of one program agree on bytes that never crossed a connection.
    let size = 1_000_000_000;
    let large = Transfer {
        size,
        counted: Some(size),
        first_byte: None,
        ..transfer()
    };
    let (doors, mut moved) = ([door("a"), door("b")], Moved::new(2));
    moved.add(ENDS, &large);
    let in_records = size + size / 16_384 * 22;
    let [before, after] = carried_readings(size, size, Some(in_records));
    let checks = compare(&doors, &moved, &before, &after);
    let near = |check: &CrossCheck| check.sockets.unwrap().abs_diff(size) < 1_000;
    assert!(
        checks.iter().all(|check| near(check) && check.pass == Some(true)),
        "{checks:?}"
    );
    let [before, after] = carried_readings(size, size, Some(in_records / 10 * 9));
    let checks = compare(&doors, &moved, &before, &after);
    assert!(checks.iter().all(|check| check.pass == Some(false)), "{checks:?}");
}

/// The bytes before the restart would count as missing.
#[test]
fn a_storage_that_was_started_anew_has_no_counter() {
    let doors = [door("RAL"), door("QMUL")];
    let mut moved = Moved::new(2);
    moved.add(ENDS, &transfer());
    let [before, mut after] = readings(400_000, 1_000_000);
    if let Some(Ok(counters)) = after.get_mut(&1) {
        counters.started_ms += 5_000;
    }
    let checks = compare(&doors, &moved, &before, &after);
    let received = checks.iter().find(|check| check.subject == "QMUL").unwrap();
    assert_eq!(
        (received.pass, received.receiving_storage),
        (None, None),
        "{received:?}"
    );
    assert!(received.note.as_ref().unwrap().contains("started anew"), "{received:?}");
    let sent = checks.iter().find(|check| check.subject == "RAL").unwrap();
    assert_eq!(sent.pass, Some(true), "{sent:?}");
}

#[test]
fn a_storage_without_counters_agrees_with_nobody() {
    // Wrong: a grid without any readable counter is reported as one whose counters agree.
    let mut doors = [door("a"), door("b")];
    doors.iter_mut().for_each(|door| door.embedded = false);
    let none = compared(&doors, &moved(&[]), &[Reading::new(), Reading::new()]);
    assert!(
        none.iter().all(|(_, pass)| pass.is_none()) && none.len() == 3,
        "{none:?}"
    );
    let unread: [Reading; 2] = std::array::from_fn(|_| [(1, Err("no answer".to_owned()))].into());
    assert!(
        compared(&doors, &moved(&[]), &unread)
            .iter()
            .all(|(_, pass)| pass.is_none())
    );
}
