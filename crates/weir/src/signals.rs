//! The two ways in which a person or a supervisor ends a long command.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGINT and SIGTERM, from now on.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens; from now on neither signal ends the process by itself.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for either; gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Waits for the end of some work; false if a signal came first, and the work was dropped.
    pub(crate) async fn unless(&mut self, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = work => true,
            _ = self.next() => false,
        }
    }
}
