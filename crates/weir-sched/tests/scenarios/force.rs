//! Transfers that an administrator has started past limits and turns.

use crate::check;

#[test]
fn a_forced_transfer_starts_at_once_and_counts_for_all_others() {
    // The one file that an experiment waits for stands behind a hundred thousand.
    check(
        "
        limit links 1
            answer
        submit A→B 1..4
            answer
            start 1.1@1 A→B
        force 3
            forced: 3
            answer
            start 3.1@1 A→B
        why A→B
            link A→B at its limit 1 (2 still active)
        done 1
            1.1@1 done
            1 settled Finished
        why 2
            link A→B at its limit 1
        done 3
            3.1@1 done
            3 settled Finished
            start 2.1@1 A→B
        decisions A→B
            0 s: 1 starts as 1 of 1, by Share
            0 s: 3 starts as 2 of 1, by Force
            0 s: 2 starts as 1 of 1, by Share
        ",
    );
}

#[test]
fn storage_elements_vos_and_groups_are_no_obstacle_and_count_it() {
    check(
        "
        limit in M 1
            answer
        limit vo cms out B 1
            answer
        group wan in M
            answer
        limit group wan 1
            answer
        submit A→M 1..2
            answer
            start 1.1@1 A→M
        submit B→C 11 vo=cms
            answer
            start 11.1@1 B→C
        submit B→M 12..13 vo=cms
            answer
        force 12
            forced: 12
            answer
            start 12.1@1 B→M
        done 1
            1.1@1 done
            1 settled Finished
        why 2
            shared wan at its limit 1, 1 of them held by B→M; destination M at its inbound limit 1, 1 of them held by B→M
        done 12 11
            12.1@1 done
            11.1@1 done
            12 settled Finished
            11 settled Finished
            start 2.1@1 A→M
        ",
    );
}

#[test]
fn only_a_waiting_file_is_forced_and_only_once() {
    check(
        "
        hold true
            answer
        submit A→B 1..2
            answer
        submit A→B stage=first 3
            answer
        hops 11 A→B B→C
            answer
        force 1 1 3 12 99
            forced: 1
            answer
        force 1
            forced:
            answer
        cancel 2
            answer
            2 settled Cancelled
        force 2
            forced:
            answer
        why 1
            an administrator has forced its start; an operator holds everything, nothing starts
        hold false
            answer
            stage 3.1@1 A→B
            start 1.1@1 A→B
            start 11.1@1 A→B
        force 1 3 11
            forced:
            answer
        cancel 1
            answer
            stop 1.1@1
        force 1
            forced:
            answer
        ",
    );
}

#[test]
fn a_held_transfer_waits_even_if_it_is_forced() {
    // A ban is a limit of 0: a forced file would spoil a storage that is being repaired.
    check(
        "
        limit in B 0
            answer
        submit A→B 1..3
            answer
        submit A→C 11
            answer
            start 11.1@1 A→C
        force 2
            forced: 2
            answer
        why 2
            an administrator has forced its start; destination B at its inbound limit 0
        why 3
            one of 3 equally urgent transfers of its link; destination B at its inbound limit 0
        priority 5 2
            answer
        limit in B 1
            answer
            start 2.1@1 A→B
        limit link A→B 0
            answer
        force 3
            forced: 3
            answer
        cancel 3
            answer
            3 settled Cancelled
        limit link A→B 4
            answer
        done 2
            2.1@1 done
            2 settled Finished
            start 1.1@1 A→B
        ",
    );
}

#[test]
fn a_retry_that_is_forced_does_not_wait_and_the_next_one_does() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..2
            answer
            start 1.1@1 A→B
        fails network later 1
            1.1@1 failed (network), next attempt in 120 s
            wake in 120 s
            start 2.1@1 A→B
        force 1
            forced: 1
            answer
            start 1.2@1 A→B, failed 1 times
        fails network later 1
            1.2@1 failed (network), next attempt in 240 s
        why 1
            next attempt at 1970-01-01T00:04:00.000Z, after 2 failures
        wait 240
        why 1
            link A→B at its limit 1
        ",
    );
}

#[test]
fn a_forced_file_that_has_not_started_is_forced_after_a_crash() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..4
            answer
            start 1.1@1 A→B
        hold true
            answer
        force 3
            forced: 3
            answer
        crash
        why 3
            an administrator has forced its start; an operator holds everything, nothing starts
        force 4
            forced: 4
            answer
        store stops
        hold false
        crash
        hold false
        store goes on
            answer
            start 1.2@3 A→B, looking at the destination first
            start 3.1@3 A→B
            start 4.1@3 A→B
        ",
    );
}
