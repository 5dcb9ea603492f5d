//! How many streams a file gets, and which part of it each of them.

use std::{fs, ops::Range, sync::OnceLock, time::Duration};

/// Parts begin at multiples of this: writes of different streams then share no page and no block.
const ALIGNMENT: u64 = 1 << 20;

/// A file below this comes by one stream: over the longest ways it takes a few seconds.
const WORTH_IT: u64 = 64 << 20;

/// A way below this needs one stream: at 5 ms, a window of 3 MiB moves 600 MB/s.
const NEAR: Duration = Duration::from_millis(5);

/// Measurements of the path to a source.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourcePath {
    /// The shortest that the kernel has seen; zero if it has seen none.
    pub(super) round_trip: Duration,
    /// Bytes that one stream may have on its way.
    pub(super) window: u64,
    /// Bytes a second that all streams together should move.
    pub(super) target: u64,
}

/// The streams that a way needs: each of them moves at most a window in a round trip.
pub(super) fn choose(size: u64, way: SourcePath, ceiling: u32) -> u32 {
    if size < WORTH_IT || way.round_trip < NEAR {
        return 1;
    }
    let on_its_way = way.round_trip.as_secs_f64() * way.target as f64;
    let needed = (on_its_way / way.window.max(1) as f64).ceil();
    (needed as u32).clamp(1, ceiling.max(1))
}

/// Cuts a file into at most so many parts of about the same size.
pub(super) fn parts(size: u64, streams: u32) -> Vec<Range<u64>> {
    let each = size.div_ceil(u64::from(streams.max(1))).max(1);
    let each = each.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
    (0..size.div_ceil(each))
        .map(|number| number * each..(number + 1).saturating_mul(each).min(size))
        .collect()
}

/// The window that the kernel lets one stream have. It keeps half of a receive buffer for its own bookkeeping.
pub(super) fn window() -> u64 {
    static WINDOW: OnceLock<u64> = OnceLock::new();
    /// Of a buffer of 6 MiB, which is Linux's own default.
    const USUAL: u64 = 3 << 20;
    *WINDOW.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap_or_default();
        let largest = text.split_whitespace().nth(2).and_then(|text| text.parse::<u64>().ok());
        largest.map_or(USUAL, |largest| largest / 2)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn way(milliseconds: u64) -> SourcePath {
        SourcePath {
            round_trip: Duration::from_millis(milliseconds),
            window: 3 << 20,
            target: 1_250_000_000,
        }
    }

    /// One stream to the other end of the world would take ten times as long as the link needs; sixteen in the same room
    /// would only take places.
    #[test]
    fn far_sources_get_more_streams() {
        let large = 10_000_000_000;
        assert_eq!(choose(large, way(0), 16), 1);
        assert_eq!(choose(large, way(4), 16), 1);
        assert_eq!(choose(large, way(5), 16), 2);
        assert_eq!(choose(large, way(20), 16), 8);
        assert_eq!(choose(large, way(160), 16), 16);
        assert_eq!(choose(large, way(160), 100), 64);
        assert_eq!(choose(50_000_000, way(160), 16), 1);
    }

    proptest! {
        /// A byte that is in no part is missing from the file; one in two is written twice.
        #[test]
        fn parts_are_the_file(size in prop_oneof![0u64..100 << 20, any::<u64>()], streams in 0u32..101) {
            let parts = parts(size, streams);
            prop_assert!(parts.len() <= streams.max(1) as usize);
            let mut end = 0;
            for part in &parts {
                prop_assert!(part.start == end && part.end > part.start && part.start % ALIGNMENT == 0);
                end = part.end;
            }
            prop_assert_eq!(end, size);
        }

        /// A longer way never gets fewer streams, and none more than it may.
        #[test]
        fn more_way_more_streams(size: u64, near in 0u64..1000, more in 0u64..1000, ceiling in 1u32..100) {
            let (few, many) = (choose(size, way(near), ceiling), choose(size, way(near + more), ceiling));
            prop_assert!(1 <= few && few <= many && many <= ceiling);
        }
    }
}
