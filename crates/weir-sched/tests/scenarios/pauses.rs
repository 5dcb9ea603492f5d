//! Pauses that end, and slots that are kept for a lane: neither may hold anything back for ever.

use weir_sched::SeStats;
use weir_world::TransferId;

use super::check;
use super::stage::Stage;

#[test]
fn a_pause_ends_though_nothing_waited_behind_it_when_it_began() {
    // All transfers of the link waited for their retries, so that no alarm was set: the link stayed paused for ever.
    check(
        "
        limit links 10
            answer
        submit A→B 1..10 delay=8
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
            start 3.1@1 A→B
            start 4.1@1 A→B
            start 5.1@1 A→B
            start 6.1@1 A→B
            start 7.1@1 A→B
            start 8.1@1 A→B
            start 9.1@1 A→B
            start 10.1@1 A→B
        fails network later 1 2 3 4 5 6 7 8 9 10
            1.1@1 failed (network), next attempt in 8 s
            2.1@1 failed (network), next attempt in 8 s
            3.1@1 failed (network), next attempt in 8 s
            4.1@1 failed (network), next attempt in 8 s
            5.1@1 failed (network), next attempt in 8 s
            6.1@1 failed (network), next attempt in 8 s
            7.1@1 failed (network), next attempt in 8 s
            8.1@1 failed (network), next attempt in 8 s
            9.1@1 failed (network), next attempt in 8 s
            10.1@1 failed (network), next attempt in 8 s
            wake in 5 s
        why A→B
            link A→B paused by network until 1970-01-01T00:00:05.000Z
        wait 5
            wake in 3 s
        why A→B
            nothing is queued
        wait 3
            start 10.2@1 A→B, failed 1 times
        ",
    );
}

/// Lets `transfers` of a link fail by the fault of one end, then has that end work again: all of them have to finish.
fn an_end_that_was_broken_comes_back(end: &str) {
    let mut stage = Stage::new();
    stage.play("limit links 30");
    stage.play("optimiser A→B 30");
    stage.play("submit A→B 1..30 delay=8");
    let ids: Vec<String> = (1..=30).map(|id| id.to_string()).collect();
    stage.play(&format!("fails read-only@{end} later {}", ids.join(" ")));
    for _ in 0..20 {
        let running: Vec<String> = stage.core.operations().map(|op| op.transfer.to_string()).collect();
        match running.is_empty() {
            true if stage.core.is_empty() => return,
            true => stage.wait_for_alarm(),
            false => stage.play(&format!("done {}", running.join(" "))),
        }
    }
    panic!("some of them wait for ever: {}", stage.transcript);
}

#[test]
fn the_pause_of_a_storage_ends_as_well() {
    an_end_that_was_broken_comes_back("source");
    an_end_that_was_broken_comes_back("destination");
}

/// Source S, of so many slots, is busy with S→X, destination D with Y→D, and S→D needs a slot of both in the same moment:
/// copies of the two ends end in turn until D keeps a slot for S→D, which waits for S.
fn until_a_slot_is_kept(slots: usize) -> Stage {
    let mut stage = Stage::new();
    stage.play("limit links 100");
    stage.play("optimiser S→X 100");
    stage.play(&format!("limit out S {slots}"));
    for line in [
        "limit in D 1",
        "submit S→X 1..100 delay=600",
        "submit Y→D 101..200",
        "submit S→D 900",
    ] {
        stage.play(line);
    }
    for round in 0..100 {
        let ends = running(&stage, round % 2 == 0)[0];
        stage.play(&format!("done {ends}"));
        if taken_at_destination(&stage) == (0, 1) {
            return stage;
        }
    }
    panic!("no slot is kept: {}", stage.transcript);
}

/// Transfers that run: those out of S, or those from Y.
fn running(stage: &Stage, out_of_s: bool) -> Vec<u64> {
    let all = stage.core.operations().map(|op| op.transfer.0);
    all.filter(|id| (101..=200).contains(id) != out_of_s).collect()
}

/// Active and kept slots of the one destination that has a limit.
fn taken_at_destination(stage: &Stage) -> (u32, u32) {
    let limited = |se: &SeStats| se.inbound.limit == 1;
    let destination = stage.core.ses().find(limited).unwrap();
    (destination.inbound.active, destination.inbound.kept)
}

#[test]
fn a_link_between_two_busy_ends_gets_its_turn() {
    let mut stage = until_a_slot_is_kept(1);
    stage.play(&format!("done {}", running(&stage, true)[0]));
    assert!(
        running(&stage, true).contains(&900),
        "S→D starved: {}",
        stage.transcript
    );
}

#[test]
fn slots_that_others_keep_are_what_a_forced_start_takes() {
    // Else the lane that keeps one for later would start beyond the limit too.
    let mut stage = until_a_slot_is_kept(1);
    stage.play("force 200");
    assert_eq!(taken_at_destination(&stage), (1, 0), "{}", stage.transcript);
}

#[test]
fn no_slot_is_kept_for_a_lane_that_a_ban_holds_back() {
    // Nothing reached D for as long as S was banned, though neither D nor Y was.
    for ban in ["limit out S 0", "limit link S→D 0", "optimiser S→D 0"] {
        let mut stage = until_a_slot_is_kept(1);
        stage.play(ban);
        assert_eq!(taken_at_destination(&stage), (1, 0), "{ban}: {}", stage.transcript);
    }
}

#[test]
fn no_slot_is_kept_for_a_lane_that_a_pause_holds_back() {
    let mut stage = until_a_slot_is_kept(30);
    let all: Vec<String> = running(&stage, true).iter().map(ToString::to_string).collect();
    stage.play(&format!("fails read-only@source later {}", all.join(" ")));
    assert!(running(&stage, true).is_empty(), "S is paused: {}", stage.transcript);
    assert_eq!(taken_at_destination(&stage), (1, 0), "{}", stage.transcript);
}

#[test]
fn nothing_starts_at_a_destination_that_is_paused_because_a_slot_was_kept_there() {
    let mut stage = until_a_slot_is_kept(1);
    // Copies from Y that an administrator forced fail by the fault of D.
    let all: Vec<String> = (160..190).map(|id| id.to_string()).collect();
    stage.play(&format!("force {}", all.join(" ")));
    stage.play(&format!("fails read-only@destination later {}", all.join(" ")));
    stage.play(&format!("done {}", running(&stage, true)[0]));
    assert!(!running(&stage, true).contains(&900), "{}", stage.transcript);
}

#[test]
fn a_slot_is_kept_for_a_minute_at_most() {
    // One long copy out of S would leave D idle for as long as it lasts.
    let mut stage = until_a_slot_is_kept(1);
    let since = stage.now;
    stage.wait_for_alarm();
    assert_eq!(stage.now.since(since).as_secs(), 60);
    assert_eq!(taken_at_destination(&stage), (1, 0), "{}", stage.transcript);
    // The claim stands: when S offers a slot and D then one, D keeps it at once.
    stage.play(&format!("done {}", running(&stage, true)[0]));
    stage.play(&format!("done {}", running(&stage, false)[0]));
    assert_eq!(taken_at_destination(&stage), (0, 1), "{}", stage.transcript);
}

#[test]
fn an_overdue_wait_is_reported() {
    // Health would say that all is well while a transfer waits for an alarm that never comes.
    let mut stage = Stage::new();
    stage.play("limit links 10");
    stage.play("submit A→B 1..10 delay=8");
    assert_eq!(stage.core.stalled(stage.now), None);
    stage.play("fails network later 1 2 3 4 5 6 7 8 9 10");
    stage.play("submit A→B 11");
    let after = |seconds| stage.now + std::time::Duration::from_secs(seconds);
    // The link is paused for 5 s; the core is not stepped when that is over.
    assert_eq!(stage.core.stalled(after(4)), None);
    assert_eq!(stage.core.stalled(after(5)), Some(TransferId(11)));
    let stalled = stage.core.stalled(after(8)).unwrap();
    assert!(stalled <= TransferId(10), "{stalled} is the one whose delay is over");
    stage.play("wait 5");
    assert_eq!(stage.core.stalled(stage.now), None, "{}", stage.transcript);
    stage.play("hold true");
    let later = stage.now + std::time::Duration::from_secs(60);
    assert_eq!(stage.core.stalled(later), None);
}
