//! Why something runs, waits or stands still: data first, sentences second.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Timestamp};
use weir_world::{OpId, TransferId};

use crate::{Link, Names, SeId};

/// One reason for the state of a transfer or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The service restores its state and starts nothing yet.
    Restoring,
    /// Nothing holds it back: it starts in the next step.
    Next,
    /// The link has nothing to do.
    Idle,
    /// Others of the same link come first.
    Behind {
        /// Those that are more urgent, or are resumed after a restart.
        more_urgent: u64,
        /// Those as urgent as this one, before and behind it.
        as_urgent: u64,
    },
    /// The link runs as many transfers as it may.
    LinkLimit {
        /// The link.
        link: Link,
        /// What is allowed.
        limit: u32,
        /// What is active.
        active: u32,
    },
    /// The source sends as many files as it may.
    SourceLimit {
        /// The source.
        se: SeId,
        /// What is allowed.
        limit: u32,
        /// What is active.
        active: u32,
        /// Who holds the slots, largest share first.
        holders: Vec<Holder>,
    },
    /// The destination receives as many files as it may.
    DestinationLimit {
        /// The destination.
        se: SeId,
        /// What is allowed.
        limit: u32,
        /// What is active.
        active: u32,
        /// Who holds the slots, largest share first.
        holders: Vec<Holder>,
    },
    /// An attempt failed, and it is too early for the next.
    Retry {
        /// When it may start again.
        at: Timestamp,
        /// Failures so far.
        failures: u8,
    },
    /// Its start waits for the store.
    Store,
    /// It runs.
    Running {
        /// The operation.
        op: OpId,
        /// Since when.
        since: Timestamp,
        /// Bytes moved so far.
        moved: Bytes,
    },
    /// It is cancelled, and its operation is being stopped.
    Stopping,
}

/// A link's share of the slots of a storage element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The link.
    pub link: Link,
    /// Slots it holds.
    pub active: u32,
}

/// The state of a transfer, and why it is so. Reasons come in the order in which they would have to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The transfer.
    pub transfer: TransferId,
    /// Its link.
    pub link: Link,
    /// At least one.
    pub reasons: Vec<Reason>,
}

/// One decision of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// The transfer that was first in its link's queue.
    pub transfer: TransferId,
    /// What was decided.
    pub verdict: Verdict,
}

/// To start, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It starts: link, source and destination had room.
    Start {
        /// Active transfers of the link, this one included.
        active: u32,
        /// The link's limit.
        limit: u32,
    },
    /// Not yet.
    Wait(Blocker),
}

/// What holds a link back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocker {
    /// Its own limit.
    Link,
    /// The limit of its source.
    Source,
    /// The limit of its destination.
    Destination,
}

impl Reason {
    /// The reason as a sentence without a full stop.
    pub fn with<'a>(&'a self, names: &'a Names) -> impl fmt::Display + 'a {
        Sentence { reason: self, names }
    }
}

impl Why {
    /// All reasons as one sentence, joined by semicolons.
    pub fn with(&self, names: &Names) -> String {
        let sentences: Vec<String> = self
            .reasons
            .iter()
            .map(|reason| reason.with(names).to_string())
            .collect();
        sentences.join("; ")
    }
}

struct Sentence<'a> {
    reason: &'a Reason,
    names: &'a Names,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names;
        match self.reason {
            Reason::Restoring => f.write_str("the service is restoring its state"),
            Reason::Next => f.write_str("nothing holds it back, it starts in the next step"),
            Reason::Idle => f.write_str("nothing is queued"),
            Reason::Behind {
                more_urgent: 0,
                as_urgent,
            } => {
                write!(f, "one of {as_urgent} equally urgent transfers of its link")
            }
            Reason::Behind { more_urgent, .. } => write!(f, "behind {more_urgent} more urgent transfers of its link"),
            Reason::LinkLimit { link, limit, active } => {
                write!(f, "link {} at its limit {limit}", names.link_name(*link))?;
                surplus(f, *limit, *active)
            }
            Reason::SourceLimit {
                se,
                limit,
                active,
                holders,
            } => {
                write!(f, "source {} at its outbound limit {limit}", names.se_name(*se))?;
                surplus(f, *limit, *active)?;
                held(f, names, holders)
            }
            Reason::DestinationLimit {
                se,
                limit,
                active,
                holders,
            } => {
                write!(f, "destination {} at its inbound limit {limit}", names.se_name(*se))?;
                surplus(f, *limit, *active)?;
                held(f, names, holders)
            }
            Reason::Retry { at, failures } => {
                let plural = if *failures == 1 { "" } else { "s" };
                write!(f, "next attempt at {}, after {failures} failure{plural}", at.rfc3339())
            }
            Reason::Store => f.write_str("its start waits for the store"),
            Reason::Running { since, moved, .. } => write!(f, "running since {}, {moved} moved", since.rfc3339()),
            Reason::Stopping => f.write_str("cancelled, its operation is being stopped"),
        }
    }
}

/// A limit that was lowered leaves more active than allowed.
fn surplus(f: &mut fmt::Formatter<'_>, limit: u32, active: u32) -> fmt::Result {
    if active > limit {
        write!(f, " ({active} still active)")
    } else {
        Ok(())
    }
}

/// Names the largest holder.
fn held(f: &mut fmt::Formatter<'_>, names: &Names, holders: &[Holder]) -> fmt::Result {
    match holders.first() {
        Some(first) => write!(f, ", {} of them held by {}", first.active, names.link_name(first.link)),
        None => Ok(()),
    }
}
