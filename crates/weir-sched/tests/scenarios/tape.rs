//! Tape: files brought online before they are copied, and copies watched until they are on tape.

use crate::check;

#[test]
fn a_file_is_brought_online_then_copied_then_watched() {
    // Out of order: a copy of a file that is on tape blocks a mover for hours, or a FINISHED that no tape has seen.
    check(
        "
        submit A→B stage=first archive=yes 1
            answer
            stage 1.1@1 A→B
        why 1
            waits for tape, which brings the file online at the source since 1970-01-01T00:00:00.000Z
        ready 1
            1.1@1 ready
            start 1.2@1 A→B
        done 1
            1.2@1 done
            archive 1.3@1 A→B
        why 1
            waits for tape at the destination, copied, archiving since 1970-01-01T00:00:00.000Z
        ready 1
            1.3@1 ready
            1 settled Finished
        submit A→A stage=only 2
            answer
            stage 2.1@1 A→A
        ready 2
            2.1@1 ready
            2 settled Finished
        ",
    );
}

#[test]
fn staging_has_limits_of_its_own() {
    // Endpoints fall over some 100,000 requests; transfers that wait for tape must not hold slots of links either.
    check(
        "
        limit tape A 2
            answer
        limit vo atlas tape A 1
            answer
        submit A→B stage=first vo=atlas 1..3
            answer
            stage 1.1@1 A→B
        submit A→B stage=first vo=cms 4..6
            answer
            stage 4.1@1 A→B
        why 2
            tape of A at its staging limit 2
        submit A→B 7 8
            answer
            start 7.1@1 A→B
            start 8.1@1 A→B
        ready 4
            4.1@1 ready
            stage 5.1@1 A→B
        why 2
            tape of A at its staging limit 2
        why 4
            link A→B at its limit 2
        limit tape A 9
            answer
            stage 6.1@1 A→B
        why 2
            atlas at the tape of A at its staging limit 1
        ",
    );
}

#[test]
fn staging_is_tried_again() {
    check(
        "
        submit A→B stage=first retries=1 delay=60 1
            answer
            stage 1.1@1 A→B
        fails timeout later 1
            1.1@1 failed (timeout), next attempt in 60 s
            wake in 60 s
        wait 60
            stage 1.2@1 A→B
        fails timeout later 1
            1.2@1 failed (timeout)
            1 settled Failed
        ",
    );
}

#[test]
fn a_cancelled_staging_ends_at_once() {
    // Nothing of it is at the destination: there is nothing to look for there, not even after a crash.
    check(
        "
        submit A→B stage=first 1 2
            answer
            stage 1.1@1 A→B
            stage 2.1@1 A→B
        cancel 1
            answer
            stop 1.1@1
        stopped 1
            1.1@1 stopped
            1 settled Cancelled
        cancel 2
            answer
            stop 2.1@1
        crash
            2.2@2 stopped
            2 settled Cancelled
        ",
    );
}

#[test]
fn a_crash_goes_on_where_it_was() {
    // Asked for anew, a hundred thousand files would queue at the tape twice.
    check(
        "
        submit A→B stage=first archive=yes 1 2
            answer
            stage 1.1@1 A→B
            stage 2.1@1 A→B
        ready 1
            1.1@1 ready
            start 1.2@1 A→B
        done 1
            1.2@1 done
            archive 1.3@1 A→B
        crash
            stage 2.2@2 A→B
            archive 1.4@2 A→B
        cancel 1
            answer
            stop 1.4@2
        stopped 1
            1.4@2 stopped
            1 settled Cancelled
        ",
    );
}
