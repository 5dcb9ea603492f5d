//! Third-party copies (HTTP-TPC): this endpoint as the active party, pulling from or pushing to another one.

mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod job;
mod pull;
mod push;
mod remote;
mod request;

pub use failure::CopyFailure;
pub(crate) use job::{Job, start};
pub(crate) use pull::Pull;
pub(crate) use push::Push;
pub(crate) use remote::Remote;
pub use request::{Asked, CopyRequest, Streams, parse};
