//! Requests of operators: settings, bans, the optimiser, and the reasons why transfers wait.

pub(crate) mod ban;
pub(crate) mod config;
pub(crate) mod force;
pub(crate) mod optimizer;
pub(crate) mod queue;
pub(crate) mod status;
pub(crate) mod waits;
pub(crate) mod why;
