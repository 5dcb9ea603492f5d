//! Several sources of one file, and hops.

use super::check;

#[test]
fn the_next_source_is_tried_when_one_has_failed_for_good() {
    // A file with three replicas that fails with its first one makes the other two useless.
    check(
        "
        replicas orderly 0 1 A→D B→D C→D
            answer
            start 1.1@1 A→D
        why 2
            another source of the file is tried first
        fails network later 1
            1.1@1 failed (network), then 2
            1 settled Failed
            start 2.1@1 B→D, looking at the destination first
        why 3
            another source of the file is tried first
        fails not-found never 2
            2.1@1 failed (not-found), then 3
            2 settled Failed
            start 3.1@1 C→D, looking at the destination first
        fails network later 3
            3.1@1 failed (network), next attempt in 120 s
            wake in 120 s
        wait 120
            start 3.2@1 C→D, failed 1 times, looking at the destination first
        done 3
            3.2@1 done
            3 settled Finished
        why 2
            not known
        ",
    );
}

#[test]
fn a_source_is_tried_as_often_as_the_client_asks() {
    // FTS gives each source one try. A retry that was asked for comes before the next source.
    check(
        "
        replicas orderly 1 1 A→D B→D
            answer
            start 1.1@1 A→D
        fails network later 1
            1.1@1 failed (network), next attempt in 120 s
            wake in 120 s
        wait 120
            start 1.2@1 A→D, failed 1 times
        fails network later 1
            1.2@1 failed (network), then 2
            1 settled Failed
            start 2.1@1 B→D, looking at the destination first
        ",
    );
}

#[test]
fn after_success_the_other_sources_are_not_used() {
    // Clients read from the sources that were not used which one was.
    check(
        "
        replicas orderly 0 1 A→D B→D
            answer
            start 1.1@1 A→D
        done 1
            1.1@1 done
            1 settled Finished
        crash
        why 2
            not known
        cancel 2
            answer
        ",
    );
}

#[test]
fn the_shortest_queue_begins_and_is_found_again_at_each_release() {
    // A choice made once, at submission, sends files to a queue that has grown since.
    check(
        "
        limit links 1
            answer
        submit A→D 10..13
            answer
            start 10.1@1 A→D
        replicas queue 0 1 A→D B→D C→D
            answer
            start 2.1@1 B→D
        submit C→D 20..23
            answer
            start 20.1@1 C→D
        done 10
            10.1@1 done
            10 settled Finished
            start 11.1@1 A→D
        done 11
            11.1@1 done
            11 settled Finished
            start 12.1@1 A→D
        fails not-found never 2
            2.1@1 failed (not-found), then 1
            2 settled Failed
        ",
    );
}

#[test]
fn a_hop_begins_when_the_one_before_it_has_arrived() {
    // A hop that begins too early finds no file; one that begins after a failure brings nothing to where it should go.
    check(
        "
        hops 1 A→B B→C C→D
            answer
            start 1.1@1 A→B
        why 2
            the hop before it has not arrived
        done 1
            1.1@1 done, then 2
            1 settled Finished
            start 2.1@1 B→C
        crash
            start 2.2@2 B→C, looking at the destination first
        done 2
            2.2@2 done, then 3
            2 settled Finished
            start 3.1@2 C→D
        fails not-found never 3
            3.1@2 failed (not-found)
            3 settled Failed
        hops 11 A→B B→C C→D
            answer
            start 11.1@2 A→B
        fails not-found never 11
            11.1@2 failed (not-found)
            11 settled Failed
        why 12
            not known
        ",
    );
}

#[test]
fn a_crash_falls_before_an_end_and_its_release_or_after_both() {
    // Between them, a file would have no source left that anybody tries.
    check(
        "
        replicas orderly 0 1 A→D B→D
            answer
            start 1.1@1 A→D
        store stops
        fails network later 1
            1.1@1 failed (network), then 2
        crash
        store goes on
            start 1.2@2 A→D, looking at the destination first
        fails network later 1
            1.2@2 failed (network), then 2
            1 settled Failed
            start 2.1@2 B→D, looking at the destination first
        crash
            start 2.2@3 B→D, looking at the destination first
        done 2
            2.2@3 done
            2 settled Finished
        ",
    );
}

#[test]
fn cancelling_one_source_goes_on_with_the_next_and_cancelling_all_ends_it() {
    // A storage that is taken out of service cancels what it holds, and not the file.
    check(
        "
        limit links 0
            answer
        replicas orderly 0 1 A→D B→D C→D
            answer
        cancel 2
            answer
            2 settled Cancelled
        cancel 1
            then 3
            answer
            1 settled Cancelled
        cancel 3
            answer
            3 settled Cancelled
        replicas orderly 0 11 A→D B→D C→D
            answer
        cancel 11 12 13
            answer
            11 settled Cancelled
            12 settled Cancelled
            13 settled Cancelled
        limit links 1
            answer
        replicas orderly 0 21 A→D B→D
            answer
            start 21.1@1 A→D
        cancel 21
            answer
            stop 21.1@1
        stopped 21
            21.1@1 stopped, then 22
            21 settled Cancelled
            start 22.1@1 B→D, looking at the destination first
        replicas orderly 0 31 A→E B→E
            answer
            start 31.1@1 A→E
        cancel 31 32
            answer
            stop 31.1@1
            32 settled Cancelled
        stopped 31
            31.1@1 stopped
            31 settled Cancelled
        ",
    );
}

#[test]
fn cancelling_a_hop_cancels_those_after_it() {
    // A hop without the one before it has nothing to read.
    check(
        "
        hops 1 A→B B→C C→D
            answer
            start 1.1@1 A→B
        cancel 2
            answer
            2 settled Cancelled
            3 settled Cancelled
        done 1
            1.1@1 done
            1 settled Finished
        hops 11 A→B B→C C→D
            answer
            start 11.1@1 A→B
        cancel 11
            answer
            stop 11.1@1
        stopped 11
            11.1@1 stopped
            11 settled Cancelled
        ",
    );
}
