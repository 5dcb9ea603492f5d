//! The XML of WebDAV (RFC 4918): what a PROPFIND asks, and the multistatus that answers it.

mod multistatus;
mod propfind;
mod proppatch;
mod xml;

pub(crate) use multistatus::rfc3339;
pub use multistatus::{CLOSE, OPEN, Resource, href, write_refused, write_resource};
pub use propfind::{Property, Wanted, parse};
pub use proppatch::parse_update;
pub use xml::Malformed;
