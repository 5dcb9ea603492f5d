//! The core, its inputs and its effects.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Timestamp};

use crate::{OpId, Outcome, Seq};

/// A state machine that decides and does nothing else.
///
/// Same inputs at the same times: same effects, byte for byte.
pub trait Core {
    /// What clients and operators ask of it.
    type Command;
    /// What must outlive the process.
    type Record: Clone;
    /// What it orders from the world.
    type Op;
    /// What it tells those who watch. Lost events harm nobody.
    type Event;

    /// Takes inputs in their order, and appends what is to be done, in the order in which it is to be done.
    ///
    /// The cost follows what changed, not what is queued. An empty slice of inputs is allowed, and is a look at the clock.
    fn step(
        &mut self,
        now: Timestamp,
        inputs: &[Input<Self::Command, Self::Record>],
        effects: &mut Vec<Effect<Self::Record, Self::Op, Self::Event>>,
    );
}

/// What a world tells its core.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<C, R> {
    /// A client or an operator asks for something.
    Command(C),
    /// A record of an earlier life, given back after a restart.
    Restored(R),
    /// This record, and all that were issued before it, are durable.
    Persisted(Seq),
    /// This record will never be durable: it contradicts what the store holds (a job of that name exists). Whatever the
    /// core has made of it must be undone. Comes before any [`Input::Persisted`] of this number or a later one.
    Refused(Seq),
    /// Something happened to an operation.
    World(OpId, WorldEvent),
    /// Time has passed. Carries nothing: `now` says it.
    Timer,
}

/// What a core wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<R, O, E> {
    /// Make this record durable, after all earlier ones.
    Persist(Seq, R),
    /// The record is durable: whoever waits for it may be answered.
    Ack(Seq),
    /// Begin an operation.
    Start(OpId, O),
    /// End an operation early.
    Stop(OpId),
    /// Tell those who watch.
    Emit(E),
    /// Step again at this time, or later.
    WakeAt(Timestamp),
}

/// What happens to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldEvent {
    /// It left the executor's own queue and works.
    Started,
    /// Bytes moved so far, in all. Never final, may be skipped.
    Progress(Bytes),
    /// It came to its end, and this is how.
    Ended(Outcome),
    /// Nobody can say what became of it: its executor vanished.
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
