//! The state of an attempt.

use std::time::Duration;

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
    /// The steps before its first place, with their lengths, until they are over.
    pub(super) preparation: Option<Preparation>,
    /// Whether its bytes count towards an asked rate.
    pub(super) is_rated: bool,
    /// The step that it waits in; none while bytes flow.
    pub(super) step: Option<Step>,
    /// Until when that step is accounted for.
    pub(super) step_since: Timestamp,
    /// When its data began to flow.
    pub(super) data_since: Timestamp,
    /// Bytes among those that it moved that are accounted for.
    pub(super) accounted: u64,
    /// Bytes that arrived by flows that have ended.
    pub(super) moved: u64,
    /// The part of the bytes of its flow that moved before it was led over to another class.
    pub(super) carried: u64,
    /// Bytes of room that it holds at a destination with a quota.
    pub(super) stored: u64,
}

impl Attempt {
    /// Bytes that its flow has to move, of a file of this size.
    pub(super) fn flow_bytes(&self, size: u64) -> u64 {
        match self.fate {
            Fate::Breaks(_, _, bytes) | Fate::Stalls(bytes) => bytes,
            _ => size,
        }
    }
}

/// A step of an attempt, other than the flow of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for its tokens.
    Token,
    /// It looks at source and destination.
    Look,
    /// It opens connections.
    Connect,
    /// It agrees on TLS.
    Tls,
    /// It has asked for data.
    FirstByte,
    /// An old file is deleted.
    Delete,
    /// It waits for a connection or a server at the source (0) or the destination (1).
    Place(usize),
    /// Its bytes have stopped.
    Stall,
    /// Its file is closed.
    Close,
}

/// The steps before the first place of an attempt, in their order.
pub(super) type Preparation = [(Step, Duration); 6];

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
