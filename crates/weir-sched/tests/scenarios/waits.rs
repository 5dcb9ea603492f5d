//! The account of waits: the resource that transfers wait for, and the links that hold its slots.

use std::time::Duration;

use weir_sched::{Link, LinkWaits, Resource, SeId};
use weir_units::Timestamp;
use weir_world::Wait;

use super::stage::Stage;

/// Storage elements in the order in which scenarios name them.
const A: SeId = SeId(0);
const M: SeId = SeId(1);

fn waits_of(stage: &Stage, source: SeId, destination: SeId) -> LinkWaits {
    let link = Link { source, destination };
    stage.core.waits(stage.now).find(|waits| waits.link == link).unwrap()
}

fn seconds(waits: &LinkWaits) -> Vec<(Wait, Option<Resource>, u64)> {
    let mut all: Vec<_> = waits
        .waits
        .iter()
        .map(|wait| (wait.wait, wait.resource, wait.time.as_secs()))
        .collect();
    all.retain(|(_, _, seconds)| *seconds > 0);
    all.sort_by_key(|(_, _, seconds)| std::cmp::Reverse(*seconds));
    all
}

#[test]
fn a_link_waits_for_the_slots_of_its_destination() {
    let mut stage = Stage::new();
    for line in [
        "limit out A 100",
        "limit in M 2",
        "submit A→M 1..2",
        "submit B→M 11..13",
        "wait 10",
    ] {
        stage.play(line);
    }
    let b = SeId(2);
    // Three files for ten seconds, while A held both slots.
    assert_eq!(
        seconds(&waits_of(&stage, b, M)),
        [(Wait::Slots, Some(Resource::Inbound(M)), 30)]
    );
    let holder = waits_of(&stage, A, M);
    assert_eq!(holder.slots, Duration::from_secs(20));
    assert!(holder.way.contains(&Resource::Inbound(M)), "{:?}", holder.way);
    stage.play("done 1");
    stage.play("wait 5");
    let waiting = waits_of(&stage, b, M);
    assert_eq!(seconds(&waiting), [(Wait::Slots, Some(Resource::Inbound(M)), 40)]);
    assert_eq!(waiting.slots, Duration::from_secs(5));
}

#[test]
fn pauses_halts_and_a_slow_store_are_waits_of_their_own() {
    let mut stage = Stage::new();
    for line in ["submit A→M 1..3 delay=8", "fails network later 1", "wait 8"] {
        stage.play(line);
    }
    assert!(seconds(&waits_of(&stage, A, M)).contains(&(Wait::Retry, None, 8)));
    stage.play("hold true");
    stage.play("wait 7");
    assert!(
        seconds(&waits_of(&stage, A, M))
            .iter()
            .any(|(wait, ..)| *wait == Wait::Halt)
    );
    let mut stage = Stage::new();
    for line in ["store stops", "submit A→M 1", "wait 6"] {
        stage.play(line);
    }
    assert_eq!(seconds(&waits_of(&stage, A, M)), [(Wait::Store, None, 6)]);
}

#[test]
fn a_clock_that_is_set_back_adds_nothing() {
    let mut stage = Stage::new();
    for line in ["limit links 1", "submit A→M 1..2", "wait 10"] {
        stage.play(line);
    }
    let before = waits_of(&stage, A, M);
    stage.now = Timestamp(0);
    stage.play("submit A→M 3");
    assert_eq!(waits_of(&stage, A, M).slots, before.slots);
    stage.play("wait 10");
    assert_eq!(
        waits_of(&stage, A, M).slots,
        before.slots,
        "ten seconds were counted twice"
    );
}
