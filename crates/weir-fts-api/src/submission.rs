//! The content of `POST /jobs`.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;
use weir_auth::Secret;

/// A job: files to copy, and how. Keys without a value are not sent: the service has its defaults.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(title = "Transfer submission")]
pub struct Submission {
    /// The files.
    #[schemars(length(min = 1))]
    pub files: Vec<NewTransfer>,
    /// Parameters of the whole job.
    #[schemars(with = "Option<Params>")]
    #[serde(default)]
    pub params: Params,
}

/// A file to copy.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct NewTransfer {
    /// URLs of the file, any of which may be read.
    #[schemars(length(min = 1), inner(url))]
    pub sources: Vec<String>,
    /// URL to write; one.
    #[schemars(length(min = 1, max = 1), inner(url))]
    pub destinations: Vec<String>,
    /// A token for each source.
    #[serde(serialize_with = "exposed", skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub source_tokens: Vec<Secret>,
    /// A token for each destination.
    #[serde(serialize_with = "exposed", skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub destination_tokens: Vec<Secret>,
    /// ALGORITHM or ALGORITHM:VALUE
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checksum: Option<String>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub filesize: Option<u64>,
    /// The activity that it is for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub activity: Option<String>,
    /// SciTag.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(range(min = 65, max = 65535))]
    pub scitag: Option<u16>,
    /// Returned in answers about the file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(schema_with = "object_or_text")]
    pub metadata: Option<Value>,
    /// Sent with the recall from tape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(schema_with = "object_or_text")]
    pub staging_metadata: Option<Value>,
    /// Sent with the copy to tape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(schema_with = "object_or_text")]
    pub archive_metadata: Option<Value>,
    /// which of several sources is first
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub selection_strategy: Option<String>,
}

/// Parameters of a job.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(default)]
pub struct Params {
    /// none, source, target or both
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text_or_flag")]
    pub verify_checksum: Option<&'static str>,
    /// Whether an existing destination file is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Whether it is replaced in attempts after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite_on_retry: Option<bool>,
    /// Whether it is replaced at hops before the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite_hop: Option<bool>,
    /// Whether it is replaced unless it is on tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite_when_only_on_disk: Option<bool>,
    /// the files are hops of one, in order
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multihop: Option<bool>,
    /// Whether a report about an existing destination file is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_file_report: Option<bool>,
    /// Ignored: connections are always reused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text_or_flag")]
    pub reuse: Option<bool>,
    /// Returned in answers about the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object_or_text")]
    pub job_metadata: Option<Value>,
    /// 0: the service's default; below 0: none
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<i32>,
    /// seconds
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_delay: Option<u32>,
    /// Urgency: 5 is the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub priority: Option<u32>,
    /// seconds for one attempt
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// hours, or a number followed by s, m, h or d
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "whole_or_text")]
    pub max_time_in_queue: Option<u32>,
    /// Seconds for a recall from tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bring_online: Option<u32>,
    /// Seconds that a recalled file stays on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_pin_lifetime: Option<u32>,
    /// Seconds for the migration to tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_timeout: Option<u32>,
    /// `deterministic`: the id of the job is derived from VO and `sid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["standard", "deterministic", null]))]
    pub id_generator: Option<&'static str>,
    /// The client's name of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// Space token of the sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_spacetoken: Option<String>,
    /// Space token of the destinations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_spacetoken: Option<String>,
    /// TCP connections of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nostreams: Option<u32>,
    /// Bytes of a socket's buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_size: Option<u64>,
    /// Whether nothing but the copy is done: neither parents nor checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_copy: Option<bool>,
    /// Whether a failed copy leaves its rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_cleanup: Option<bool>,
    /// Whether tokens are used as they are, without renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmanaged_tokens: Option<bool>,
    /// The account of the catalogue, for its operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// the only way to copy; absent: the service finds one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["pull", "push", "streamed", null]))]
    pub copy_mode: Option<&'static str>,
}

fn exposed<S: Serializer>(tokens: &[Secret], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tokens.iter().map(Secret::expose))
}

macro_rules! union {
    ($($name:ident: $kinds:tt)*) => { $(
        fn $name(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({ "type": $kinds })
        }
    )* };
}

union! {
    object_or_text: ["object", "string", "null"]
    text_or_flag: ["string", "boolean", "null"]
    whole_or_text: ["integer", "string", "null"]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_without_a_value_are_not_sent_and_tokens_are_not_shown() {
        let job = Submission {
            files: vec![NewTransfer {
                sources: vec!["https://a/f".to_owned()],
                destinations: vec!["https://b/f".to_owned()],
                source_tokens: vec![Secret::new("from-issuer")],
                ..NewTransfer::default()
            }],
            params: Params {
                retry: Some(-1),
                ..Params::default()
            },
        };
        let expected = json!({
            "files": [{ "sources": ["https://a/f"], "destinations": ["https://b/f"], "source_tokens": ["from-issuer"] }],
            "params": { "retry": -1 },
        });
        assert_eq!(serde_json::to_value(&job).unwrap(), expected);
        assert!(!format!("{job:?}").contains("from-issuer"));
    }
}
