//! Requests to storages: clients, time limits, redirects, and the failures that come of them.

pub(crate) mod client_pool;
pub(crate) mod failure;
pub(crate) mod hide;
pub(crate) mod wire;
