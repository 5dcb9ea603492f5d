//! The rows of a link: its waits, and the slots that it holds.

use weir_world::{ErrorClass, Party, Wait, WaitPhase};

use crate::spread::Bins;

/// A place by its number in one [`Signals`](super::Signals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub(super) u32);

/// The waits of one link. They are few, and found by a look at each.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkRows {
    pub(super) known: [bool; WaitPhase::ALL.len()],
    pub(super) rows: Vec<Row>,
    /// Time of its slots at each place of its way.
    pub(super) held: Vec<(PlaceId, Bins)>,
    /// Attempts that failed.
    pub(super) failed: Vec<((ErrorClass, Option<Party>), Bins)>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) wait: Wait,
    pub(super) place: Option<PlaceId>,
    pub(super) bins: Bins,
}
