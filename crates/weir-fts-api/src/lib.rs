//! The FTS3 REST API: the objects of its requests and answers, their JSON schemas, and a client.
//!
//! The door of the transfer service serialises these types and publishes their schemas. The catalogue, challenges and the
//! command line speak to a transfer service, Weir's or an FTS3, by [`FtsClient`].
//!
//! Sources: answers of FTS3 3.14 to its own command line and to Rucio 41, and the clients `fts3` 3.14 and `rucio` 41.
//!
//! Invariants:
//! - A key that FTS3 has, has FTS3's name, type and form of time. Weir's own keys are in the object `weir`.
//! - A client reads answers of services that leave out keys, add some, or give others another type: it needs few of them.
//! - Tokens are [`weir_auth::Secret`]: they are serialised into a request and nowhere else.
//!
//! Deliberately absent: the reading of submissions, which is as lenient as FTS3's and belongs to the door; retries.

mod client;
mod job;
mod keyed;
pub mod lenient;
mod schemas;
mod service;
mod settings;
mod storage;
mod submission;
mod time;
mod why;

pub use client::{Bearer, Cause, FtsClient, FtsCredential, FtsError};
pub use job::{Affected, File, FileExtension, Job, NotShown, Retry, Submitted};
pub use keyed::Keyed;
pub use schemas::{schemas, submission as submission_schema};
pub use service::{
    Delegated, Delegation, ErrorAnswer, Health, Host, HostActivity, Queue, SchemaVersion, ServiceDocument, Version,
    WhoAmI,
};
pub use settings::{AuditEntry, Group, GroupMember, Link, Share};
pub use storage::{ListedFile, Stat};
pub use submission::{NewTransfer, Params, Submission};
pub use time::FtsTime;
pub use why::{
    Decision, FailedAttempts, GivenUpMode, LinkState, LinkWait, LinkWaits, NotForced, Reason, TransferState,
};
