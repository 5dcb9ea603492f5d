//! Fireflies: datagrams that name a flow's owner and purpose at its start, while it runs, and at its end.
//!
//! Source: the Scitags technical specification, and what flowd and XRootD send. One datagram per event, UDP port 10514, an RFC 5424 header
//! and a JSON object of at most 1500 bytes together.

mod datagram;
mod sender;
mod tag;

pub use datagram::{Event, Flow, Usage};
pub use sender::{Beacon, FireflyConfig, Marked, Sent, Snapshot};
pub use tag::Tag;

/// Where fireflies are awaited.
pub const PORT: u16 = 10_514;
