//! Network: what the people who run networks are told of our flows.
//!
//! [`firefly`] marks flows: who owns them and what they are for, in small datagrams to the other end and to collectors, so that
//! a network shared by many experiments can be accounted and planned.
//!
//! Deliberately absent: transfers, queues, storage. Who moves bytes brings the flow, its tag and its figures.

pub mod firefly;
