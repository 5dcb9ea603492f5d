//! Sharing of the transfer service's request slots among streams.
//!
//! Requests that share a destination and an activity are one stream. A slow stream must not fill the service, or all others wait for it.
//! The bound follows the free slots. A stream may have four times as many requests as there are free slots (dynamic thresholds: Choudhury
//! and Hahne, IEEE/ACM Transactions on Networking 6 (1998) 130). One stream alone gets four fifths; the rest stays free for streams that
//! come later.

/// A stream may have so many times the room that is left.
const TIMES: u64 = 4;

/// The number of requests that a stream may add, when it has `own` of the `all` requests that are out; at most `most` are out.
pub fn room(own: u64, all: u64, most: u64) -> u64 {
    let free = most.saturating_sub(all);
    let more = (TIMES * free).saturating_sub(own) / (TIMES + 1);
    if own == 0 { more.max(free.min(1)) } else { more }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_stream_leaves_a_fifth_to_others() {
        // Wrong: a large dataset fills the service, and every other rule waits until it has come.
        assert_eq!(room(0, 0, 20_000), 16_000);
        assert_eq!(room(16_000, 16_000, 20_000), 0);
        assert_eq!(room(0, 16_000, 20_000), 3_200);
        assert_eq!(room(0, 19_999, 20_000), 1);
        assert_eq!(room(0, 20_000, 20_000), 0);
        assert_eq!(room(0, 0, 1), 1);
    }

    proptest! {
        #[test]
        fn no_more_are_out_than_allowed(wishes in prop::collection::vec((0..6_usize, 1..500_u64), 1..60), most in 1..1_000_u64) {
            let mut own = [0_u64; 6];
            for (stream, wish) in wishes {
                own[stream] += room(own[stream], own.iter().sum(), most).min(wish);
                prop_assert!(own.iter().sum::<u64>() <= most);
            }
            // A stream that has nothing gets something unless all is taken.
            let all: u64 = own.iter().sum();
            prop_assert!(room(0, all, most) > 0 || all == most);
        }
    }
}
