//! The XML of WebDAV (RFC 4918): PROPFIND requests, and their multistatus answers.

mod dead;
mod multistatus;
mod propfind;
mod proppatch;
mod xml;

pub use dead::{Dead, TooMany, from_text, may_be_set, to_text, updated};
pub use multistatus::{CLOSE, OPEN, Resource, Unchanged, href, write_changed, write_refused, write_resource};
pub use propfind::{Property, Wanted, parse};
pub use proppatch::{Update, named, parse_update};
pub use xml::Malformed;
