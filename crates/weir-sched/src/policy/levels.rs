//! Levels of urgency.

use crate::Priority;

/// Levels of urgency, the most urgent first: lanes that starve, transfers resumed after a restart, priorities 5 to 1.
pub(crate) const LEVELS: usize = 7;

/// A set of levels, one bit each.
pub(super) type Levels = u8;

/// Level of lanes that starve.
pub(super) const STARVING: usize = 0;

/// Level of transfers that were active when the service stopped: their slots were theirs before.
pub(crate) const RESUMED: usize = 1;

/// The level of priority 5.
pub(super) const HIGHEST: usize = 2;

/// The level of a priority.
pub(crate) fn level_of(priority: Priority) -> usize {
    usize::from(7 - priority.get())
}
