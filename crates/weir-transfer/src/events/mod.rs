//! Messages about transfers, in FTS3's format, for monitoring, Rucio's receiver and accounting.
//!
//! A message is written to the spool, a folder of lines, once its event is durable. Each sink (a file, a webhook, a
//! STOMP broker) reads the spool at its own pace and remembers its position. A sink that is down delays no other, and
//! misses nothing until the spool is full. After a crash a sink may receive its last messages again.
//!
//! This module decides nothing and has no access to the queue: the driver passes records to [`Events`], the executor
//! passes times.

mod message;
mod notice;
mod writer;

pub(crate) use notice::Notice;
pub use writer::Events;
