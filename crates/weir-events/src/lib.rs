//! Events: messages that are kept on disk until everybody who is to be told has taken them.
//!
//! A service appends [`Lines`] to a [`Spool`], a folder of segments, once what they tell is durable. Each sink (a file, a webhook, a STOMP
//! broker) reads the spool at its own pace and remembers how far it is once the other side has taken it: nothing is lost while a sink is
//! down, until the spool is full. After a crash a sink may be told again what it was told in the last moments.
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
