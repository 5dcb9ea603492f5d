//! Removal of all that a run created, at its end or later.

pub mod clean;
pub(crate) mod cleanup;
pub(crate) mod made;
