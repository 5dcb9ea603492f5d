//! Memory that is used over and over: neither zeroed nor mapped again, and still in the core's own cache.

use std::cell::RefCell;

use super::layout::{BEYOND, PLAIN};
use crate::tls::SEALED_AHEAD;

/// Size of a read while bulk data arrive. One read of 128 KiB instead of 32 saves 31 system calls, some 8 µs. Beyond
/// this size nothing more is saved, and the data no longer fit in the cache.
pub(super) const AHEAD: usize = 128 << 10;

/// Sizes of reused buffers: the write-ahead of connections, from the smallest limit to the largest useful one.
pub(super) const SIZES: [usize; 4] = {
    assert!(SEALED_AHEAD == PLAIN << 4);
    [
        sealed(PLAIN << 1),
        sealed(PLAIN << 2),
        sealed(PLAIN << 3),
        sealed(PLAIN << 4),
    ]
};

/// The sizes of kept buffers: write-ahead, and reads of bodies.
const KEPT: [usize; 5] = {
    let [a, b, c, d] = SIZES;
    [a, b, c, d, AHEAD]
};

/// Buffers of each size that each thread keeps for reuse: 2.5 MiB. A buffer is usually filled and emptied in one go, so
/// that a thread needs one at a time; a few connections wait for their sockets meanwhile.
const SPARES: usize = 4;

thread_local! {
    static SPARE: RefCell<[Vec<Vec<u8>>; KEPT.len()]> = const { RefCell::new([const { Vec::new() }; KEPT.len()]) };
}

fn class(size: usize) -> Option<usize> {
    KEPT.iter().position(|kept| size == *kept)
}

/// So much memory, with undefined content, possibly of another connection.
pub(super) fn take(size: usize) -> Vec<u8> {
    let buffer_cache = class(size).and_then(|class| {
        SPARE
            .try_with(|buffer_cache| buffer_cache.borrow_mut()[class].pop())
            .ok()?
    });
    buffer_cache.unwrap_or_else(|| vec![0; size])
}

/// Keeps memory of a size that is asked for often.
pub(super) fn give_back(memory: Vec<u8>) {
    let Some(class) = class(memory.len()) else { return };
    // Where the thread ends nothing is kept.
    let _ = SPARE.try_with(|buffer_cache| {
        let buffer_cache = &mut buffer_cache.borrow_mut()[class];
        if buffer_cache.len() < SPARES {
            buffer_cache.push(memory);
        }
    });
}

/// The records of so many bytes, and one for a new key.
pub(super) const fn sealed(bytes: usize) -> usize {
    bytes + BEYOND * (bytes / PLAIN + 2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// A thread of its own keeps nothing that another test left.
    fn alone(test: fn()) {
        std::thread::spawn(test).join().unwrap();
    }

    /// It would be zeroed for each small body: 128 KiB for 10.
    #[test]
    fn the_last_memory_is_the_next() {
        alone(|| {
            for size in KEPT {
                let mut memory = take(size);
                assert_eq!(memory.len(), size);
                memory[0] = 7;
                give_back(memory);
                let memory = take(size);
                assert_eq!((memory[0], memory.len()), (7, size));
                assert_eq!(take(size)[0], 0, "there was one");
            }
            give_back(vec![1; 10]);
            assert_eq!(take(10), [0; 10]);
        });
    }

    /// A thread that needed many at once would hold their memory for ever.
    #[test]
    fn few_are_kept() {
        alone(|| {
            let many: Vec<_> = (0..2 * SPARES).map(|_| take(AHEAD)).collect();
            many.into_iter().for_each(give_back);
            let kept = SPARE.with(|buffer_cache| buffer_cache.borrow().iter().map(Vec::len).sum::<usize>());
            assert_eq!(kept, SPARES);
        });
    }
}
