//! The storage endpoint: WebDAV, HTTP third-party copy, checksums on the way in.

pub mod dav;
pub mod marker;
pub mod range;
