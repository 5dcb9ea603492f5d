//! Injection: transfers and rules of the plan become jobs and rules of services.

pub(crate) mod fts;
pub(crate) mod injection;
pub(crate) mod rules;
pub(crate) mod run_door;
