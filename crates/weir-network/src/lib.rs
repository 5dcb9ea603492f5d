//! Flow marking for the operators of networks.
//!
//! [`firefly`] sends small datagrams that name the owner and purpose of a flow, to the other end and to collectors. With them a network
//! shared by many experiments can be accounted and planned.
//!
//! Deliberately absent: transfers, queues, storage. The rooms that move bytes bring the flow, its tag and its figures.

pub mod firefly;
