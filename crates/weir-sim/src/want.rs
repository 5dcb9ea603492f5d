//! A file that is to be moved.

use weir_units::Timestamp;
use weir_world::CopyMode;

/// A file that is to be moved.
#[derive(Debug, Clone, Copy)]
pub struct Want {
    /// Its size in bytes.
    pub size: u64,
    /// When it was wanted.
    pub wanted: Timestamp,
    /// How its bytes are to move.
    pub mode: CopyMode,
}
