//! Answers about the service and its caller.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{lenient::lenient, time::FtsTime};

/// A version, by its numbers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// Incompatible changes.
    pub major: u32,
    /// Additions.
    pub minor: u32,
    /// Corrections.
    pub patch: u32,
}

/// Version of the schema of a database.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SchemaVersion {
    /// Its numbers.
    #[serde(flatten)]
    pub version: Version,
    /// A remark for people.
    pub message: Cow<'static, str>,
}

/// `GET /`: every client asks this first, and reads `api` as numbers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ServiceDocument {
    /// Version of the delegation.
    pub delegation: Version,
    /// Version of the API.
    pub api: Version,
    /// Null: FTS3's own library.
    pub core: Option<Version>,
    /// Version of the database's schema.
    pub schema: SchemaVersion,
    /// Version of Weir.
    pub weir: Value,
    /// Paths, as HAL links.
    #[serde(rename = "_links")]
    pub links: Value,
}

/// `GET /whoami`: the caller. Keys that other services leave out have their defaults.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WhoAmI<'a> {
    /// Subject of the certificate, or of the token.
    pub user_dn: Cow<'a, str>,
    /// The same as a list.
    pub dn: Vec<Cow<'a, str>>,
    /// Namespace of the ids of VOs.
    #[serde(deserialize_with = "lenient")]
    pub base_id: Option<Uuid>,
    /// VOMS attributes.
    pub voms_cred: Vec<Cow<'a, str>>,
    /// VOs of the caller.
    pub vos: Vec<Cow<'a, str>>,
    /// Namespaces of deterministic job ids, one for each VO.
    pub vos_id: Vec<Uuid>,
    /// Roles in the VOs.
    pub roles: Vec<Cow<'a, str>>,
    /// Levels by operation.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub level: Value,
    /// Id of the caller's delegated proxy.
    pub delegation_id: Cow<'a, str>,
    /// `oauth2` or `certificate`.
    pub method: Cow<'a, str>,
    /// Whether the caller administers the service.
    pub is_root: bool,
}

/// `GET /delegation/{id}`: a delegated proxy.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Delegated {
    /// Its end.
    pub termination_time: FtsTime,
    /// VOMS attributes in it.
    pub voms_attrs: Vec<String>,
}

/// The answer about a delegation: null or an empty list, by the age of the client, where nothing is delegated.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Delegation {
    /// A proxy.
    Proxy(Delegated),
    /// No proxy.
    Nothing(Option<[u8; 0]>),
}

/// The body of an answer other than success.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorAnswer<'a> {
    /// `404 Not Found` and the like.
    #[serde(default)]
    pub status: Cow<'a, str>,
    /// The reason, for people.
    #[serde(alias = "http_message")]
    pub message: Cow<'a, str>,
}

/// `GET /.well-known/weir/health`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Health<'a> {
    /// `ok` or `trouble`.
    pub status: Cow<'a, str>,
    /// The trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// Its remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Cow<'a, str>>,
    /// Rows of the store that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// Changes that the store did not accept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_aside: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// `GET /config`: a host of the service.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Host<'a> {
    /// Its name.
    pub hostname: Cow<'a, str>,
    /// `weir_transfer`.
    pub service_name: Cow<'a, str>,
    /// When it was seen last.
    pub beat: FtsTime,
    /// Whether it starts nothing any more.
    pub drain: bool,
}

/// Transfers of a host: clients add up these two keys.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct HostActivity {
    /// Copies.
    pub active: u64,
    /// Recalls from tape.
    pub staging: u64,
}

/// The length of a queue, and its limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Queue<'a> {
    /// Owner of the queue: a VO, a client by its delegation id, or a link.
    #[schemars(extend("enum" = ["vo", "client", "link"]))]
    pub kind: Cow<'a, str>,
    /// Name of the owner.
    pub name: Cow<'a, str>,
    /// Waiting transfers.
    pub depth: u64,
    /// Largest number of them.
    pub depth_limit: Option<u64>,
    /// Seconds since the submission of the oldest.
    pub oldest_s: Option<i64>,
    /// Largest age in seconds.
    pub oldest_limit_s: Option<u64>,
}
