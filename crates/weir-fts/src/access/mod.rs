//! Authentication of callers, their rights, and the proxies that they delegate.

pub(crate) mod attributes;
pub(crate) mod caller;
pub(crate) mod callers;
pub(crate) mod certificates;
pub(crate) mod delegation;
pub(crate) mod visible_links;
