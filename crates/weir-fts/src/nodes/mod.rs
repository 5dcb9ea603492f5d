//! Requests that one node of the service passes on to another.

pub(crate) mod relay;
pub(crate) mod relayed;
