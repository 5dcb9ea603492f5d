//! Pieces of the network that several links share.

use std::time::Duration;

use weir_units::BitRate;

/// A piece of the network that several links share, in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Its unique name.
    pub name: String,
    /// Its capacity; above zero.
    pub capacity: BitRate,
    /// Traffic that is not ours.
    pub background: BitRate,
    /// How far that traffic moves about its mean, from 0 to 1.
    pub background_variation: f64,
    /// Later capacities, in the order of time.
    pub changes: Vec<(Duration, BitRate)>,
}
