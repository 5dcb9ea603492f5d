//! The ways in which a person or a supervisor ends a long command, or has it read its files again.

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

/// SIGHUP, from now on: it no longer ends the process.
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// Listens.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listened = signal(SignalKind::hangup()).context("could not listen for signals")?;
        Ok(Self(listened))
    }

    /// Waits for one. Several that come before it is asked again are one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // The runtime is going down.
            std::future::pending::<()>().await;
        }
    }
}
