//! Why something runs, waits or stands still: data first, sentences second.

use std::fmt;

use serde::Serialize;
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::{ErrorClass, OpId, TransferId};

use crate::{Link, Names, Resource};

/// One reason for the state of a transfer or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The service restores its state and starts nothing yet.
    Restoring,
    /// An operator holds everything: nothing starts.
    Held,
    /// An administrator wants it started past limits and turns.
    Forced,
    /// Nothing holds it back: it starts in the next step.
    Next,
    /// The link has nothing to do.
    Idle,
    /// Others of the same link come first.
    Behind {
        /// Transfers that are more urgent, or are resumed after a restart.
        more_urgent: u64,
        /// Transfers as urgent as this one, before and behind it.
        as_urgent: u64,
    },
    /// Something on the way has no room.
    Full {
        /// The full resource.
        resource: Resource,
        /// How many may be active.
        allowed: u32,
        /// How many are.
        active: u32,
        /// The limit that sets the number.
        cause: Cause,
        /// The holders of the slots, largest share first; empty for a link.
        holders: Vec<Holder>,
    },
    /// An attempt failed, and it is too early for the next.
    Retry {
        /// When it may start again.
        at: Timestamp,
        /// Failures so far.
        failures: u8,
    },
    /// Another source of its file is tried first.
    Alternative,
    /// The hop before it has not arrived.
    Hop,
    /// The issuer of its tokens did not answer, and it is too early to ask again.
    Issuer {
        /// When it may start again.
        at: Timestamp,
    },
    /// Its start waits for the store.
    Store,
    /// It waits for tape: the file is being brought online at the source.
    Staging {
        /// The operation.
        op: OpId,
        /// Since when.
        since: Timestamp,
    },
    /// It waits for tape: the copy is being written to tape at the destination.
    Archiving {
        /// The operation.
        op: OpId,
        /// Since when.
        since: Timestamp,
    },
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

/// The limit that keeps a resource from running more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The operator's limit on concurrency.
    Limit,
    /// More would bring no more, as far as the optimiser has learned; or the operator fixed the number.
    Optimiser,
    /// The operator's limit on bandwidth.
    Bandwidth {
        /// The limit on its bandwidth.
        limit: BitRate,
    },
    /// Nothing but failures came from it: it is tried once in a while.
    Faults {
        /// The class of the last failure.
        class: Option<ErrorClass>,
        /// When it is tried again.
        until: Timestamp,
    },
}

/// A link's share of the slots of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The link.
    pub link: Link,
    /// Slots it holds.
    pub active: u32,
    /// Throughput of each of them, if known.
    pub each: Option<BitRate>,
}

/// The state of a transfer, and why it is so. Reasons come in the order in which they would have to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The transfer.
    pub transfer: TransferId,
    /// Its link.
    pub link: Link,
    /// At least one.
    pub reasons: Vec<Reason>,
}

/// One decision of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// The transfer that was first in its link's queue.
    pub transfer: TransferId,
    /// The decision.
    pub verdict: Verdict,
}

/// To start, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It starts: there was room everywhere.
    Start {
        /// Active transfers of the link, this one included.
        active: u32,
        /// How many of the link may be.
        allowed: u32,
        /// Why it was this link's turn.
        order: Order,
    },
    /// Not yet.
    Wait {
        /// The full resource.
        resource: Resource,
        /// The limit that keeps it from having more.
        cause: Cause,
    },
}

/// Why it was a link's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By its share.
    Share,
    /// It was behind its target rate.
    Target,
    /// A deadline is near.
    Deadline,
    /// It was not served for long.
    Aged,
    /// It lost too many turns in a row to other full resources.
    Starved,
    /// It was running when the service stopped.
    Resumed,
    /// An administrator forced it, past all limits.
    Force,
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
            Reason::Held => f.write_str("an operator holds everything, nothing starts"),
            Reason::Forced => f.write_str("an administrator has forced its start"),
            Reason::Next => f.write_str("nothing holds it back, it starts in the next step"),
            Reason::Idle => f.write_str("nothing is queued"),
            Reason::Behind {
                more_urgent: 0,
                as_urgent,
            } => {
                write!(f, "one of {as_urgent} equally urgent transfers of its link")
            }
            Reason::Behind { more_urgent, .. } => write!(f, "behind {more_urgent} more urgent transfers of its link"),
            Reason::Full {
                resource,
                allowed,
                active,
                cause,
                holders,
            } => {
                full(f, names, *resource, *allowed, *cause)?;
                surplus(f, *allowed, *active)?;
                held(f, names, holders)
            }
            Reason::Retry { at, failures } => {
                let plural = if *failures == 1 { "" } else { "s" };
                write!(f, "next attempt at {}, after {failures} failure{plural}", at.rfc3339())
            }
            Reason::Alternative => f.write_str("another source of the file is tried first"),
            Reason::Hop => f.write_str("the hop before it has not arrived"),
            Reason::Issuer { at } => {
                write!(
                    f,
                    "waits for the token issuer, which did not answer; next attempt at {}",
                    at.rfc3339()
                )
            }
            Reason::Staging { since, .. } => {
                write!(
                    f,
                    "waits for tape, which brings the file online at the source since {}",
                    since.rfc3339()
                )
            }
            Reason::Archiving { since, .. } => {
                write!(
                    f,
                    "waits for tape at the destination, copied, archiving since {}",
                    since.rfc3339()
                )
            }
            Reason::Store => f.write_str("its start waits for the store"),
            Reason::Running { since, moved, .. } => write!(f, "running since {}, {moved} moved", since.rfc3339()),
            Reason::Stopping => f.write_str("cancelled, its operation is being stopped"),
        }
    }
}

/// Writes the full resource and the cause of its limit.
fn full(f: &mut fmt::Formatter<'_>, names: &Names, resource: Resource, allowed: u32, cause: Cause) -> fmt::Result {
    let at = |se| names.se_name(se);
    let which = match resource {
        Resource::Link(link) => {
            write!(f, "link {}", names.link_name(link))?;
            "limit"
        }
        Resource::Inbound(se) => {
            write!(f, "destination {}", at(se))?;
            "inbound limit"
        }
        Resource::Outbound(se) => {
            write!(f, "source {}", at(se))?;
            "outbound limit"
        }
        Resource::VoInbound(se, vo) => {
            write!(f, "{} at destination {}", names.vo_name(vo), at(se))?;
            "inbound limit"
        }
        Resource::VoOutbound(se, vo) => {
            write!(f, "{} at source {}", names.vo_name(vo), at(se))?;
            "outbound limit"
        }
        Resource::Group(group) => {
            write!(f, "shared {}", names.group_name(group))?;
            "limit"
        }
        Resource::Staging(se) => {
            write!(f, "tape of {}", at(se))?;
            "staging limit"
        }
        Resource::VoStaging(se, vo) => {
            write!(f, "{} at the tape of {}", names.vo_name(vo), at(se))?;
            "staging limit"
        }
    };
    match cause {
        Cause::Limit => write!(f, " at its {which} {allowed}"),
        Cause::Optimiser => write!(f, " at the {allowed} transfers that are worth running"),
        Cause::Bandwidth { limit } => write!(f, " at its bandwidth limit {limit}, which is {allowed} transfers now"),
        Cause::Faults { class, until } => {
            let class = class.map_or("failures", ErrorClass::as_str);
            write!(f, " paused by {class} until {}", until.rfc3339())
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
    let Some(first) = holders.first() else { return Ok(()) };
    write!(f, ", {} of them held by {}", first.active, names.link_name(first.link))?;
    match first.each {
        Some(each) => write!(f, " at {each:.0} each"),
        None => Ok(()),
    }
}
