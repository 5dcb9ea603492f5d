//! Clients of the services of a grid: storages and the catalogue, with their credentials.

pub(crate) mod doors;
pub mod listing;
pub(crate) mod rest;
pub(crate) mod storage;
