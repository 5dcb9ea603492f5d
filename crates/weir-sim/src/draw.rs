//! Drawing from streams of randomness.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

/// Takes 64 random bits for a number from 0 to below 1, in steps of 2⁻⁵³.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws a number from 0 to below 1.
pub(crate) fn draw(stream: &mut ChaCha8Rng) -> f64 {
    unit(stream.next_u64())
}

/// Draws an index below `n`, which is above zero.
pub(crate) fn index(stream: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(stream.next_u64()) * n as u128) >> 64) as usize
}

/// Draws which of some shares comes about: its index, or `None` for the rest up to 1.
pub(crate) fn pick(drawn: f64, shares: impl IntoIterator<Item = f64>) -> Option<usize> {
    let mut sum = 0.0;
    shares.into_iter().position(|share| {
        sum += share;
        drawn < sum
    })
}
