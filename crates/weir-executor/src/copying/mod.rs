//! The copy itself: third-party copies in two directions, and bytes through this service.

pub(crate) mod endpoints;
pub(crate) mod markers;
pub(crate) mod modes;
pub(crate) mod streamed;
pub(crate) mod thirdparty;
