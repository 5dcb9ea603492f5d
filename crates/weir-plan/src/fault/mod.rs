//! Faults that a challenge makes on purpose: their kinds, places, amounts and times.
//!
//! A [`Fault`] is data, the same in both worlds: the simulator changes the model of the thing at its [place](FaultPlace), a
//! real run acts on real processes. The [kind](FaultKind) says what breaks, the [amount](Amount) how hard, the
//! [course](Fault::course) when. A drawn course follows from the seed of the plan and the name of the fault.

mod course;
mod kind;
mod place;
mod read;
mod shape;
mod spec;
mod table;
mod workload;
mod write;

pub use course::{Course, Level, level_at};
pub use kind::{FaultKind, Gauge, KindRow, PlaceKey, WAITING, kinds_markdown};
pub use place::{FaultPlace, Service, Way};
pub(crate) use read::read;
pub use shape::Shape;
pub use spec::{Amount, Details, Fault, Origin};
pub(crate) use table::FAULT;
pub use workload::WorkloadCondition;
pub(crate) use write::write;
