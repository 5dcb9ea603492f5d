//! A rate that no world reaches.

use weir_units::BitRate;

/// Value of "no limit" where a number is needed: 1 Eb/s.
pub const UNLIMITED: BitRate = BitRate(1_000_000_000_000_000_000);
