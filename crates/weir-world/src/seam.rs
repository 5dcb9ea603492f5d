//! The core, its inputs and its effects.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Timestamp};

use crate::{OpId, Outcome, Seq};

/// A state machine that decides and does nothing else.
///
/// Same inputs at the same times: same effects, byte for byte.
pub trait Core {
    /// A request of a client or an operator.
    type Command;
    /// State that must outlive the process.
    type Record: Clone;
    /// An order to the world.
    type Op;
    /// A notification for observers. Losing one does no harm.
    type Event;

    /// Takes inputs in their order, and appends the effects to carry out, in order.
    ///
    /// The cost follows the changes, not the queue. An empty slice of inputs is allowed: the core then only looks at the time.
    fn step(
        &mut self,
        now: Timestamp,
        inputs: &[Input<Self::Command, Self::Record>],
        effects: &mut Vec<Effect<Self::Record, Self::Op, Self::Event>>,
    );
}

/// An input that a world gives to its core.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<C, R> {
    /// A client or an operator asks for something.
    Command(C),
    /// A record of an earlier life, given back after a restart.
    Restored(R),
    /// This record, and all that were issued before it, are durable.
    Persisted(Seq),
    /// This record will never be durable: it contradicts the store (a job of that name exists). The core must undo all that it derived from
    /// the record. Comes before any [`Input::Persisted`] of this number or a later one.
    Refused(Seq),
    /// Something happened to an operation.
    World(OpId, WorldEvent),
    /// Time has passed. Carries nothing: `now` says it.
    Timer,
}

/// An effect that a core orders.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<R, O, E> {
    /// Make this record durable, after all earlier ones.
    Persist(Seq, R),
    /// The record is durable: its waiting client may be answered.
    Ack(Seq),
    /// Begin an operation.
    Start(OpId, O),
    /// End an operation early.
    Stop(OpId),
    /// Send this notification to observers.
    Emit(E),
    /// Step again at this time, or later.
    WakeAt(Timestamp),
}

/// An event of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldEvent {
    /// It left the executor's own queue and works.
    Started,
    /// Bytes moved so far, in all. Never final, may be skipped.
    Progress(Bytes),
    /// It came to its end, and this is how.
    Ended(Outcome),
    /// The end of the operation is unknown: its executor vanished.
    Lost,
    /// The destination already held the whole file, left by an earlier attempt of this transfer: size and checksum agree,
    /// nothing was copied. Carries the size.
    Adopted(Bytes),
}

impl WorldEvent {
    /// Tells whether nothing can follow: each operation has exactly one such event.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Lost | Self::Adopted(_))
    }
}
