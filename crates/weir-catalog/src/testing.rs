//! Helpers for tests of several modules.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_service::time::Millis;

use crate::{
    database::{Database, Work},
    refusal::{Class, Refusal},
};

pub(crate) const NOW: Millis = 1_800_000_000_000;

/// Does it, and gives the class of the refusal, if it was refused.
pub(crate) async fn attempt(database: &Database, work: impl Work<()>) -> Option<Class> {
    let done = database.write(work).await;
    done.err().map(|error| match error.refusal::<Refusal>() {
        Some(refusal) => refusal.class,
        None => panic!("{}", weir_auth::error_chain(&error)),
    })
}

/// Does what is not refused.
pub(crate) async fn done<T: Send + 'static>(database: &Database, work: impl Work<T>) -> T {
    database.write(work).await.unwrap()
}
