//! Before a run: checks of the machine, numbers for all that the plan names, and source files.

pub(crate) mod content;
pub(crate) mod host;
pub(crate) mod layout;
pub(crate) mod leftovers;
pub(crate) mod preflight;
pub(crate) mod seed;
