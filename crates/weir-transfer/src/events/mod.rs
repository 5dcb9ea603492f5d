//! Messages about transfers, as FTS3 publishes them, for whoever watches: monitoring, Rucio's receiver, accounting.
//!
//! A message is written to the spool, a folder of lines, once what it tells is durable; each sink (a file, a webhook, a
//! STOMP broker) reads the spool at its own pace and remembers how far it is. So a sink that is down delays nobody, and misses
//! nothing until the spool is full. After a crash a sink may be told again what it was told in the last moments.
//!
//! Nothing here decides or knows anything of the queue: [`Events`] is told of records by the driver, of times by the executor.

mod message;
mod notice;
mod writer;

pub(crate) use notice::Notice;
pub use writer::Events;
