//! Events: messages that stay on disk until every sink has taken them.
//!
//! A service appends [`Lines`] to a [`Spool`], a folder of segments, once their events are durable. Each sink (a file,
//! a webhook, a STOMP broker) reads the spool at its own pace, and records its position once the receiver has taken a
//! message. Nothing is lost while a sink is down, until the spool is full. After a crash a sink may receive its last
//! messages again.
//!
//! Deliberately absent: the content of messages.

mod config;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod kind;
mod lines;
mod metrics;
mod sinks;
mod spool;
mod stomp;
mod subscription;

pub use config::{EventsConfig, FileSinkConfig, Messages, StompSinkConfig, WebhookSinkConfig};
pub use kind::MessageKind;
pub use lines::Lines;
pub use metrics::{Meters, SinkMeter};
pub use sinks::{SinkError, Sinks, start};
pub use spool::{Position, Spool, SpoolError};
pub use subscription::{Subscription, SubscriptionConfig};
