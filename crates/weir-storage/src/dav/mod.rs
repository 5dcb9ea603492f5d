//! The XML of WebDAV (RFC 4918): what a PROPFIND asks, and the multistatus that answers it.

mod multistatus;
mod propfind;

pub(crate) use multistatus::rfc3339;
pub use multistatus::{CLOSE, OPEN, Resource, href, write_resource};
pub use propfind::{Malformed, Property, Wanted, parse};
