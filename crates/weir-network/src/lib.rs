//! Flow marking for the operators of networks, and relays that make a network worse on purpose.
//!
//! [`firefly`] sends small datagrams that name the owner and purpose of a flow, to the other end and to collectors. With them a network
//! shared by many experiments can be accounted and planned.
//!
//! [`relay`] passes TCP connections on, slower, later or not at all: the faults of a real run. [`namespace`] gives a run a network
//! of its own, in which [`packets`] may be lost and queue.
//!
//! Deliberately absent: transfers, queues, storage. The rooms that move bytes bring the flow, its tag and its figures.

pub mod firefly;
pub mod namespace;
pub mod packets;
mod programs;
pub mod relay;
