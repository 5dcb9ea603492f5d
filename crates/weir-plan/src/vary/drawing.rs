//! Randomness, and the tables of a file.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use toml::{Table, Value};

use crate::seed::stream;

/// A stream of randomness.
pub(super) struct Drawing(ChaCha8Rng);

impl Drawing {
    /// The stream of an owner.
    pub(super) fn new(seed: u64, owner: &str) -> Self {
        Self(stream(seed, owner))
    }

    /// A whole number of 24 bits.
    pub(super) fn number(&mut self) -> i64 {
        (self.0.next_u64() >> 40) as i64
    }

    /// A number from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number between two.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// One of a list that is not empty.
    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[((self.unit() * of.len() as f64) as usize).min(of.len() - 1)]
    }

    /// Puts a list into another order.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = ((self.unit() * (at + 1) as f64) as usize).min(at);
            list.swap(at, other);
        }
    }
}

/// The tables of an array of tables; none if it is not there.
pub(super) fn tables<'t>(table: &'t mut Table, key: &str) -> Vec<&'t mut Table> {
    let array = table.get_mut(key).and_then(Value::as_array_mut);
    array.into_iter().flatten().filter_map(Value::as_table_mut).collect()
}

pub(super) fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key).and_then(Value::as_str)
}
