//! The order of transfers, and limits of links: settings in text scenarios.

use crate::check;

#[test]
fn a_vo_at_its_limit_does_not_stop_others_on_its_link() {
    check(
        "
        limit vo atlas in B 1
            answer
        submit A→B 1..3 vo=atlas
            answer
            start 1.1@1 A→B
        submit A→B 11..12 vo=cms
            answer
            start 11.1@1 A→B
        why 2
            link A→B at its limit 2; atlas at destination B at its inbound limit 1, 1 of them held by A→B
        done 1
            1.1@1 done
            1 settled Finished
            start 12.1@1 A→B
        why A→B
            link A→B at its limit 2
        ",
    );
}

#[test]
fn a_shared_resource_holds_all_its_members() {
    check(
        "
        group wan in B
            answer
        group wan in C
            answer
        limit group wan 2
            answer
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        submit A→C 11..12
            answer
        why 11
            shared wan at its limit 2, 2 of them held by A→B
        done 1
            1.1@1 done
            1 settled Finished
            start 11.1@1 A→C
        why 2
            running since 1970-01-01T00:00:00.000Z, 0 B moved
        ",
    );
}

#[test]
fn a_group_that_is_formed_later_counts_what_runs_already() {
    check(
        "
        submit A→B 1..3
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        submit A→C 11..13
            answer
            start 11.1@1 A→C
            start 12.1@1 A→C
        limit group wan 3
            answer
        group wan in B
            answer
        group wan in C
            answer
        done 1
            1.1@1 done
            1 settled Finished
        done 2
            2.1@1 done
            2 settled Finished
            start 3.1@1 A→B
        done 11
            11.1@1 done
            11 settled Finished
            start 13.1@1 A→C
        why A→B
            shared wan at its limit 3, 2 of them held by A→C
        ",
    );
}

#[test]
fn a_link_behind_its_target_goes_first() {
    check(
        "
        limit in M 1
            answer
        target B→M 10 Gb/s
            answer
        submit A→M 1..3
            answer
            start 1.1@1 A→M
        submit B→M 11..13
            answer
        done 1
            1.1@1 done
            wake in 0 s
            1 settled Finished
            start 11.1@1 B→M
        done 11
            11.1@1 done
            11 settled Finished
            start 2.1@1 A→M
        done 2
            2.1@1 done
            2 settled Finished
            start 12.1@1 B→M
        wait 2
        done 12
            12.1@1 done
            12 settled Finished
            start 13.1@1 B→M
        decisions B→M
            0 s: 11 starts as 1 of 2, by Target
            0 s: 12 starts as 1 of 2, by Share
            2 s: 13 starts as 1 of 2, by Target
        ",
    );
}

#[test]
fn a_queue_that_waited_long_rises_until_it_is_served() {
    check(
        "
        limit in M 1
            answer
        ageing 600
            answer
        submit A→M 1..9 priority=5
            answer
            start 1.1@1 A→M
        submit B→M 11..13 priority=4
            wake in 600 s
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 2.1@1 A→M
        wait 601
        done 2
            2.1@1 done
            wake in 600 s
            2 settled Finished
            start 11.1@1 B→M
        done 11
            11.1@1 done
            11 settled Finished
            start 3.1@1 A→M
        wait 599
        done 3
            3.1@1 done
            3 settled Finished
            start 4.1@1 A→M
        decisions B→M
            601 s: 11 starts as 1 of 2, by Aged
        ",
    );
}

#[test]
fn a_deadline_presses_when_it_is_near() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..5
            answer
            start 1.1@1 A→B
        submit A→B 11..12 deadline=180
            wake in 100 s
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 11.1@1 A→B
        done 11
            11.1@1 done
            11 settled Finished
            start 2.1@1 A→B
        wait 165
        done 2
            2.1@1 done
            2 settled Finished
            start 12.1@1 A→B
        decisions A→B
            0 s: 1 starts as 1 of 1, by Share
            0 s: 11 starts as 1 of 1, by Share
            0 s: 2 starts as 1 of 1, by Share
            165 s: 12 starts as 1 of 1, by Deadline
        ",
    );
}

#[test]
fn a_rate_of_nothing_holds_everything_back() {
    check(
        "
        rate in B 0 Gb/s
            answer
        submit A→B 1
            answer
        why 1
            destination B at its bandwidth limit 0 b/s, which is 0 transfers now
        rate in B 1 Gb/s
            answer
            start 1.1@1 A→B
        ",
    );
}

#[test]
fn a_broken_link_is_paused_and_tried_again() {
    // A full disk would eat the retries of thousands of files within minutes.
    check(
        "
        limit links 12
            answer
        optimiser A→B 12
            answer
        submit A→B 1..14
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
            start 11.1@1 A→B
            start 12.1@1 A→B
        fails no-space later 1 2 3 4 5 6 7 8 9 10
            1.1@1 failed (no-space), next attempt in 480 s
            2.1@1 failed (no-space), next attempt in 480 s
            3.1@1 failed (no-space), next attempt in 480 s
            4.1@1 failed (no-space), next attempt in 480 s
            5.1@1 failed (no-space), next attempt in 480 s
            6.1@1 failed (no-space), next attempt in 480 s
            7.1@1 failed (no-space), next attempt in 480 s
            8.1@1 failed (no-space), next attempt in 480 s
            9.1@1 failed (no-space), next attempt in 480 s
            10.1@1 failed (no-space), next attempt in 480 s
            wake in 5 s
        fails no-space later 11 12
            11.1@1 failed (no-space), next attempt in 480 s
            12.1@1 failed (no-space), next attempt in 480 s
        why A→B
            link A→B paused by no-space until 1970-01-01T00:00:05.000Z
        wait 5
            wake in 475 s
            start 13.1@1 A→B
        done 13
            13.1@1 done
            13 settled Finished
            start 14.1@1 A→B
        ",
    );
}

#[test]
fn a_token_that_expired_says_nothing_about_the_path() {
    check(
        "
        limit links 12
            answer
        optimiser A→B 12
            answer
        submit A→B 1..14 retries=-1
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
            start 11.1@1 A→B
            start 12.1@1 A→B
        fails token later 1 2 3 4 5 6 7 8 9 10 11 12
            1.1@1 failed (token)
            2.1@1 failed (token)
            3.1@1 failed (token)
            4.1@1 failed (token)
            5.1@1 failed (token)
            6.1@1 failed (token)
            7.1@1 failed (token)
            8.1@1 failed (token)
            9.1@1 failed (token)
            10.1@1 failed (token)
            11.1@1 failed (token)
            12.1@1 failed (token)
            1 settled Failed
            2 settled Failed
            3 settled Failed
            4 settled Failed
            5 settled Failed
            6 settled Failed
            7 settled Failed
            8 settled Failed
            9 settled Failed
            10 settled Failed
            11 settled Failed
            12 settled Failed
            start 13.1@1 A→B
            start 14.1@1 A→B
        why A→B
            nothing is queued
        ",
    );
}

#[test]
fn nothing_starts_while_an_operator_holds_everything() {
    check(
        "
        submit A→B 1
            answer
            start 1.1@1 A→B
        hold true
            answer
        submit A→B 2
            answer
        done 1
            1.1@1 done
            1 settled Finished
        why 2
            an operator holds everything, nothing starts
        why A→B
            an operator holds everything, nothing starts
        hold false
            answer
            start 2.1@1 A→B
        ",
    );
}

#[test]
fn a_link_that_fills_both_its_ends_leaves_others_their_turns() {
    // Each end of A→B gave it a slot at B, which nobody else waits for, and with it the slot at A for which A→C waits: A→C
    // started when A→B was through.
    check(
        "
        limit links 100
            answer
        limit out A 1
            answer
        limit in B 1
            answer
        submit A→B 1..9
            answer
            start 1.1@1 A→B
        submit A→C 11..19
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 11.1@1 A→C
        done 11
            11.1@1 done
            11 settled Finished
            start 2.1@1 A→B
        done 2
            2.1@1 done
            2 settled Finished
            start 12.1@1 A→C
        ",
    );
}
