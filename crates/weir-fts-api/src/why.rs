//! `/why` and `/admin/force-start`: the state of links and files, with the reasons that hold them back. Weir's own.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::BitRate;
use weir_world::{ErrorClass, Party, Place, Wait};

use crate::time::FtsTime;

/// A reason that holds a link or a file back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reason<'a> {
    /// Kind of the reason, such as `full` or `behind`.
    pub reason: Cow<'a, str>,
    /// The same for people, with names and figures.
    pub text: String,
    /// Whether a limit stays low because of failures.
    #[serde(skip_serializing_if = "is_false")]
    pub faults: bool,
    /// The party whose failures they are, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub party: Option<Cow<'a, str>>,
    /// Class of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A decision of the scheduler about a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Decision<'a> {
    /// Its time, as RFC 3339.
    pub at: String,
    /// The file.
    pub file_id: u64,
    /// `start` or `wait`.
    pub verdict: Cow<'a, str>,
    /// The same for people.
    pub text: String,
}

/// A copy mode that a node has given up between two storage elements.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GivenUpMode<'a> {
    /// `pull`, `push` or `streamed`.
    pub mode: Cow<'a, str>,
    /// Source to which it applies.
    pub source: Cow<'a, str>,
    /// Destination to which it applies.
    pub destination: Cow<'a, str>,
    /// Kind of credential to which it applies, or `any`.
    pub credential: Cow<'a, str>,
    /// When it was given up.
    pub given_up_at: FtsTime,
    /// The answer of the storage.
    pub reason: Cow<'a, str>,
    /// Seconds until it is tried again.
    pub tried_again_in_secs: u64,
}

/// The state of a link. A key that a service leaves out has its default.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkState<'a> {
    /// Storage element of the source.
    pub source_se: Cow<'a, str>,
    /// Storage element of the destination.
    pub dest_se: Cow<'a, str>,
    /// Largest number of transfers.
    pub limit: u32,
    /// Transfers that the optimiser allows now.
    pub allowed: u32,
    /// Transfers that run.
    pub active: u64,
    /// Transfers that wait.
    pub queued: u64,
    /// Transfers that wait for their next attempt.
    pub delayed: u64,
    /// Mean rate of one transfer.
    #[serde(with = "weir_units::bps::option", default)]
    #[schemars(with = "Option<u64>")]
    pub each_bps: Option<BitRate>,
    /// Share of the latest attempts that failed.
    pub failing: f64,
    /// The reasons why no more transfers run.
    pub reasons: Vec<Reason<'a>>,
    /// The last decisions.
    pub decisions: Vec<Decision<'a>>,
    /// Copy modes that are not tried for a while.
    pub modes_given_up: Vec<GivenUpMode<'a>>,
    /// The time that its transfers waited for since the service's start.
    pub waits: Vec<LinkWait>,
}

/// The time that transfers of a link waited for something, since the service's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkWait {
    /// The state in which they waited.
    #[schemars(with = "String")]
    pub wait: Wait,
    /// The place that they waited for, if it is known; by the names that the service has for storage elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Place>,
    /// Sum over the transfers: two that wait for a minute each have waited for two.
    pub seconds: f64,
}

/// The waits of a link, for a reader who takes the difference of two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkWaits<'a> {
    /// Storage element of the source.
    pub source_se: Cow<'a, str>,
    /// Storage element of the destination.
    pub dest_se: Cow<'a, str>,
    /// Waits by state and place, in the order of a transfer's life.
    pub waits: Vec<LinkWait>,
    /// Seconds for which transfers held slots, as a sum over them.
    pub slot_seconds: f64,
    /// Places at which these slots are held.
    #[schemars(with = "Vec<String>")]
    pub way: Vec<Place>,
    /// Attempts that failed since the service's start, whatever became of their transfers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedAttempts>,
}

/// The attempts of a link that failed in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedAttempts {
    /// Class of the error.
    #[schemars(with = "String")]
    pub class: ErrorClass,
    /// The party at fault.
    #[schemars(with = "String")]
    pub party: Party,
    /// Their number.
    pub attempts: u64,
}

/// The reasons why a file waits, runs or has ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TransferState<'a> {
    /// The file.
    pub file_id: u64,
    /// Storage element of the source, of a file that has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_se: Option<Cow<'a, str>>,
    /// Storage element of the destination, of a file that has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_se: Option<Cow<'a, str>>,
    /// All reasons in one text.
    pub text: String,
    /// The reasons one by one.
    pub reasons: Vec<Reason<'a>>,
}

/// A file that could not be started past the limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NotForced<'a> {
    /// The file as given.
    pub file_id: i64,
    /// The reason.
    pub error: Cow<'a, str>,
}
