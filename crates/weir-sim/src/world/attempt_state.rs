//! The state of an attempt.

use weir_units::Timestamp;
use weir_world::{ErrorClass, OpId, Party};

use crate::network::FlowId;
use crate::slab::Key;

/// One attempt at one transfer.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(super) op: OpId,
    pub(super) file: Key,
    pub(super) core: u32,
    pub(super) link: u32,
    pub(super) started: Timestamp,
    pub(super) fate: Fate,
    /// How many of the places on its way it holds: connection and server at the source, then at the destination.
    pub(super) held: u8,
    /// It waits for the next of them.
    pub(super) waits: bool,
    pub(super) servers: [Option<u8>; 2],
    pub(super) flow: Option<FlowId>,
    /// When that began.
    pub(super) flows_since: Timestamp,
    pub(super) reads_back: bool,
    /// Bytes that arrived by flows that have ended.
    pub(super) moved: u64,
}

/// How an attempt will end, drawn when it starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Well,
    /// Fails before bytes move.
    Refused(ErrorClass, Party),
    /// Fails after so many bytes.
    Breaks(ErrorClass, Party, u64),
    /// Stalls after so many bytes, until a timeout ends it.
    Stalls(u64),
    /// Fails after all bytes.
    Corrupt(ErrorClass, Party),
}
