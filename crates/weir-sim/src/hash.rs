//! A hash table over numbers that is the same on every machine. Only looked into, never gone through.

use std::hash::{BuildHasherDefault, Hasher};

/// Spreads one number over the table (SplitMix64: Steele, Lea, Flood, OOPSLA 2014). The simulator assigns the numbers,
/// so clients cannot choose them to collide.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mut word = (self.0 ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.0 = word ^ word >> 31;
    }
}

/// A table from a number to something.
pub(crate) type NumberMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<Spread>>;
