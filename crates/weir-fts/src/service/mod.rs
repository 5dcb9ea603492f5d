//! Requests about the service itself: its description, its health, its figures, and features that it lacks.

pub(crate) mod about;
pub(crate) mod absent;
pub(crate) mod metrics;
pub(crate) mod openapi;
