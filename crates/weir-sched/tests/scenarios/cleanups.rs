//! Leftovers of a cancelled transfer at a destination that could not be looked at.

use crate::check;

#[test]
fn a_clean_up_that_cannot_begin_is_tried_again() {
    // The issuer of its tokens, or the database, is away for a moment: the part that was copied would stay for ever.
    check(
        "
        submit A→B 1
            answer
            start 1.1@1 A→B
        cancel 1
            answer
            stop 1.1@1
        lost 1
            1.1@1 lost, clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 1.2@1 A→B
        fails token later 1
            1.2@1 failed (token), clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 1.3@1 A→B
        fails internal now 1
            1.3@1 failed (internal), clean-up in 20 s
            wake in 20 s
        crash
            wake in 20 s
        wait 20
            clean up 1.4@2 A→B
        fails internal later 1
            1.4@2 failed (internal), clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 1.5@2 A→B
        stopped 1
            1.5@2 stopped
            1 settled Cancelled
        ",
    );
}

#[test]
fn a_clean_up_that_never_works_has_an_end() {
    // A transfer to a storage that is gone would be cancelled for ever, and a drain never end.
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        cancel 1 2
            answer
            stop 1.1@1
            stop 2.1@1
        lost 1 2
            1.1@1 lost, clean-up in 10 s
            2.1@1 lost, clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 2.2@1 A→B
            clean up 1.2@1 A→B
        fails permission never 1
            1.2@1 failed (permission)
            1 settled Cancelled
        fails network later 2
            2.2@1 failed (network), clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 2.3@1 A→B
        fails network later 2
            2.3@1 failed (network), clean-up in 20 s
            wake in 20 s
        wait 20
            clean up 2.4@1 A→B
        fails network later 2
            2.4@1 failed (network), clean-up in 40 s
            wake in 40 s
        wait 40
            clean up 2.5@1 A→B
        fails network later 2
            2.5@1 failed (network), clean-up in 80 s
            wake in 80 s
        wait 80
            clean up 2.6@1 A→B
        fails network later 2
            2.6@1 failed (network), clean-up in 160 s
            wake in 160 s
        wait 160
            clean up 2.7@1 A→B
        fails network later 2
            2.7@1 failed (network), clean-up in 320 s
            wake in 320 s
        wait 320
            clean up 2.8@1 A→B
        fails network later 2
            2.8@1 failed (network), clean-up in 640 s
            wake in 640 s
        wait 640
            clean up 2.9@1 A→B
        fails network later 2
            2.9@1 failed (network), clean-up in 1280 s
            wake in 1280 s
        wait 1280
            clean up 2.10@1 A→B
        fails network later 2
            2.10@1 failed (network)
            2 settled Cancelled
        ",
    );
}
