//! One attempt at a transfer, step by step: checks, the copy, the comparison, and the removal of partial files.

pub(crate) mod attempt;
pub(crate) mod leftover;
pub(crate) mod parents;
pub(crate) mod report;
pub(crate) mod sequence;
pub(crate) mod stat;
pub(crate) mod trace;
pub(crate) mod verify;
