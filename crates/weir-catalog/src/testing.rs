//! Helpers for tests of several modules.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_database::{Database, Work};
use weir_service::time::Millis;

use crate::{
    refusal::{Class, Refusal},
    rses::protocols::{Endpoint, Priorities, Protocol},
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

/// Runs work that must succeed.
pub(crate) async fn done<T: Send + 'static>(database: &Database, work: impl Work<T>) -> T {
    database.write(work).await.unwrap()
}

/// A protocol for everything, with this priority for third-party copies.
pub(crate) fn protocol(scheme: &str, host: &str, priority: u32) -> Protocol {
    let all = Some(priority);
    Protocol {
        endpoint: Endpoint {
            scheme: scheme.into(),
            hostname: host.into(),
            port: 8443,
        },
        prefix: "/data".into(),
        implementation: "rucio.rse.protocols.gfal.Default".into(),
        extended: None,
        priorities: Priorities {
            lan_read: all,
            lan_write: all,
            lan_delete: all,
            wan_read: all,
            wan_write: all,
            wan_delete: all,
            tpc_read: all,
            tpc_write: all,
        },
    }
}
