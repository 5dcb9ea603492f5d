//! Scenarios in text, with the decisions that are expected of them.
//!
//! A scenario is a list of lines; the transcript repeats each line, followed by what the core did, indented. The store is
//! quick unless the scenario says `store stops`; then records pile up until `store goes on`.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod cleanups;
#[path = "../common/mod.rs"]
mod common;
mod force;
mod order;
mod pauses;
mod routes;
mod stage;
mod tape;
mod waits;

use stage::Stage;

/// Plays the lines of `expected` that are not indented, and compares.
fn check(expected: &str) {
    let lines: Vec<&str> = expected
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect();
    let expected = format!("{}\n", lines.join("\n").trim());
    let mut stage = Stage::new();
    for line in expected.lines().filter(|line| !line.starts_with(' ')) {
        stage.play(line);
    }
    assert_eq!(
        stage.transcript, expected,
        "\n--- is:\n{}\n--- expected:\n{expected}",
        stage.transcript
    );
}

#[test]
fn first_come_first_served_up_to_the_limit() {
    // A link that passes its limit breaks the storage behind it; one that stays below wastes it.
    check(
        "
        submit A→B 1..4
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        done 2
            2.1@1 done
            2 settled Finished
            start 3.1@1 A→B
        why 4
            link A→B at its limit 2
        why A→B
            link A→B at its limit 2
        done 1 3
            1.1@1 done
            3.1@1 done
            1 settled Finished
            3 settled Finished
            start 4.1@1 A→B
        ",
    );
}

#[test]
fn urgent_jobs_go_first() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..2
            answer
            start 1.1@1 A→B
        submit A→B 3 priority=1
            answer
        submit A→B 4 priority=5
            answer
        why 3
            behind 2 more urgent transfers of its link; link A→B at its limit 1
        done 1
            1.1@1 done
            1 settled Finished
            start 4.1@1 A→B
        priority 5 3
            answer
        done 4
            4.1@1 done
            4 settled Finished
            start 3.1@1 A→B
        done 3
            3.1@1 done
            3 settled Finished
            start 2.1@1 A→B
        ",
    );
}

#[test]
fn a_blocked_link_holds_nobody_back() {
    // Thousands of files to a full destination wait in front of one that could start.
    check(
        "
        limit in B 1
            answer
        submit A→B 1..1000
            answer
            start 1.1@1 A→B
        submit A→C 1001
            answer
            start 1001.1@1 A→C
        why A→B
            destination B at its inbound limit 1, 1 of them held by A→B
        why 1000
            one of 999 equally urgent transfers of its link; destination B at its inbound limit 1, 1 of them held by A→B
        ",
    );
}

#[test]
fn links_take_turns_at_a_destination() {
    check(
        "
        limit in M 2
            answer
        submit A→M 1..3
            answer
            start 1.1@1 A→M
            start 2.1@1 A→M
        submit B→M 11..13
            answer
        submit C→M 21..23
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 11.1@1 B→M
        done 2
            2.1@1 done
            2 settled Finished
            start 21.1@1 C→M
        done 11
            11.1@1 done
            11 settled Finished
            start 3.1@1 A→M
        done 21
            21.1@1 done
            21 settled Finished
            start 12.1@1 B→M
        why M→A
        why A→M
            destination M at its inbound limit 2, 1 of them held by A→M
        why 23
            one of 2 equally urgent transfers of its link; destination M at its inbound limit 2, 1 of them held by A→M
        ",
    );
}

#[test]
fn urgency_counts_across_links() {
    check(
        "
        limit in M 1
            answer
        submit A→M 1..2
            answer
            start 1.1@1 A→M
        submit B→M 11 priority=2
            answer
        submit C→M 21 priority=5
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 21.1@1 C→M
        done 21
            21.1@1 done
            21 settled Finished
            start 2.1@1 A→M
        done 2
            2.1@1 done
            2 settled Finished
            start 11.1@1 B→M
        ",
    );
}

#[test]
fn lowered_limits_let_go_slowly_and_raised_ones_start_at_once() {
    check(
        "
        submit A→B 1..9
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        limit link A→B 1
            answer
        done 1
            1.1@1 done
            1 settled Finished
        why A→B
            link A→B at its limit 1
        done 2
            2.1@1 done
            2 settled Finished
            start 3.1@1 A→B
        limit link A→B 0
            answer
        done 3
            3.1@1 done
            3 settled Finished
        why A→B
            link A→B at its limit 0
        limit links 1
            answer
        limit link A→B 4
            answer
            start 4.1@1 A→B
            start 5.1@1 A→B
            start 6.1@1 A→B
            start 7.1@1 A→B
        ",
    );
}

#[test]
fn nothing_starts_or_is_answered_before_the_store_has_it() {
    check(
        "
        store stops
        submit A→B 1
        why 1
            its start waits for the store
        cancel 1
        why 1
            cancelled, its operation is being stopped; its start waits for the store
        store goes on
            answer
            1.1@1 stopped
            answer
            1 settled Cancelled
        ",
    );
}

#[test]
fn failures_back_off_and_end() {
    check(
        "
        submit A→B 1 retries=2 delay=10
            answer
            start 1.1@1 A→B
        fails timeout later 1
            1.1@1 failed (timeout), next attempt in 10 s
            wake in 10 s
        why 1
            next attempt at 1970-01-01T00:00:10.000Z, after 1 failure
        wait 9
        wait 1
            start 1.2@1 A→B, failed 1 times
        fails timeout later 1
            1.2@1 failed (timeout), next attempt in 20 s
            wake in 20 s
        wait 20
            start 1.3@1 A→B, failed 2 times
        fails timeout later 1
            1.3@1 failed (timeout)
            1 settled Failed
        why 1
            not known
        ",
    );
}

#[test]
fn a_waiting_retry_holds_no_slot() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..3 delay=10
            answer
            start 1.1@1 A→B
        fails overload later 1
            1.1@1 failed (overload), next attempt in 20 s
            wake in 20 s
            start 2.1@1 A→B
        wait 20
        done 2
            2.1@1 done
            2 settled Finished
            start 1.2@1 A→B, failed 1 times
        done 1
            1.2@1 done
            1 settled Finished
            start 3.1@1 A→B
        ",
    );
}

#[test]
fn hopeless_and_hasty_failures() {
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        fails not-found never 1
            1.1@1 failed (not-found)
            1 settled Failed
        fails network now 2
            2.1@1 failed (network), next attempt in 0 s
            start 2.2@1 A→B
        fails network now 2
            2.2@1 failed (network), next attempt in 0 s
            start 2.3@1 A→B
        fails network now 2
            2.3@1 failed (network), next attempt in 120 s
            wake in 120 s
        ",
    );
}

#[test]
fn cancelling_in_every_state() {
    check(
        "
        submit A→B 1..4 delay=10
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        fails timeout later 1
            1.1@1 failed (timeout), next attempt in 10 s
            wake in 10 s
            start 3.1@1 A→B
        cancel 1 2 4 99
            answer
            stop 2.1@1
            1 settled Cancelled
            4 settled Cancelled
        cancel 2
            answer
        why 2
            cancelled, its operation is being stopped; running since 1970-01-01T00:00:00.000Z, 0 B moved
        stopped 2
            2.1@1 stopped
            2 settled Cancelled
        done 3
            3.1@1 done
            3 settled Finished
        cancel 3
            answer
        ",
    );
}

#[test]
fn a_copy_that_was_faster_than_its_cancellation_is_finished() {
    check(
        "
        submit A→B 1
            answer
            start 1.1@1 A→B
        store stops
        cancel 1
        done 1
            1.1@1 done
        store goes on
            answer
            1 settled Finished
        ",
    );
}

#[test]
fn a_lost_operation_is_looked_after() {
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        lost 1
            1.1@1 lost, next attempt in 1 s
            wake in 1 s
        cancel 2
            answer
            stop 2.1@1
        lost 2
            2.1@1 lost, clean-up in 10 s
        wait 1
            wake in 9 s
            start 1.2@1 A→B, looking at the destination first
        adopted 1
            1.2@1 adopted
            1 settled Finished
        wait 9
            clean up 2.2@1 A→B
        lost 2
            2.2@1 lost, clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 2.3@1 A→B
        stopped 2
            2.3@1 stopped
            2 settled Cancelled
        ",
    );
}

#[test]
fn after_a_crash_active_transfers_come_first_and_look_before_they_copy() {
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        submit A→B 3..4 priority=5
            answer
        cancel 2
            answer
            stop 2.1@1
        crash
            clean up 2.2@2 A→B
            start 1.2@2 A→B, looking at the destination first
            start 3.1@2 A→B
        done 1@1
        why 1
            running since 1970-01-01T00:00:00.000Z, 0 B moved
        adopted 1
            1.2@2 adopted
            1 settled Finished
            start 4.1@2 A→B
        stopped 2
            2.2@2 stopped
            2 settled Cancelled
        ",
    );
}

#[test]
fn a_cancelled_transfer_is_cleaned_up_where_nothing_may_start() {
    // A ban that cancels takes all slots away: a job that it stopped would stay as it is until somebody lifts the ban.
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        cancel 1
            answer
            stop 1.1@1
        limit links 0
            answer
        crash
            clean up 1.2@2 A→B
        stopped 1
            1.2@2 stopped
            1 settled Cancelled
        cancel 2
            answer
            clean up 2.2@2 A→B
        ",
    );
}

#[test]
fn an_unstored_change_did_not_happen() {
    check(
        "
        submit A→B 1..3
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        store stops
        done 1
            1.1@1 done
        submit A→B 4
        crash
        store goes on
            start 1.2@2 A→B, looking at the destination first
            start 2.2@2 A→B, looking at the destination first
        ",
    );
}

#[test]
fn a_retry_keeps_its_time_over_a_crash() {
    check(
        "
        submit A→B 1 delay=100
            answer
            start 1.1@1 A→B
        fails stall later 1
            1.1@1 failed (stall), next attempt in 100 s
            wake in 100 s
        wait 10
        crash
            wake in 90 s
        wait 90
            start 1.2@2 A→B, failed 1 times
        ",
    );
}

#[test]
fn a_clean_up_that_waits_has_no_claim_to_a_slot_after_a_crash() {
    // It held none before; if it took one, the running transfer would run beside it, beyond the limit.
    check(
        "
        limit links 1
            answer
        submit A→B 1..2
            answer
            start 1.1@1 A→B
        cancel 1
            answer
            stop 1.1@1
        lost 1
            1.1@1 lost, clean-up in 10 s
            wake in 10 s
            start 2.1@1 A→B
        crash
            wake in 10 s
            start 2.2@2 A→B, looking at the destination first
        done 2
            2.2@2 done
            2 settled Finished
        wait 10
            clean up 1.2@2 A→B
        ",
    );
}

#[test]
fn a_job_that_the_store_refuses_leaves_nothing_behind() {
    // A client repeats a job with an id of its own choice; the copy must neither run nor hold slots.
    check(
        "
        store stops
        submit A→B 1..3
        submit A→B 4
        store refuses 1
        why 1
            not known
        store goes on
            answer
            start 4.1@1 A→B
        ",
    );
}
