//! `GET /api-docs/schema/submit`: the content of a submission, as JSON schema. Published, not enforced: the reader is
//! more lenient.

use serde_json::{Value, json};

/// The schema.
pub(crate) fn submit_schema() -> Value {
    let nullable = |kind: &str| json!({ "type": [kind, "null"] });
    let flag = || nullable("boolean");
    let integer = || nullable("integer");
    let text = || nullable("string");
    json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": "Transfer submission",
        "description": "A job: files to copy, and how",
        "type": "object",
        "required": ["files"],
        "properties": {
            "files": { "type": "array", "minItems": 1, "items": file_schema() },
            "params": {
                "type": ["object", "null"],
                "properties": {
                    "verify_checksum": { "type": ["string", "boolean", "null"], "description": "none, source, target or both" },
                    "overwrite": flag(),
                    "overwrite_on_retry": flag(),
                    "overwrite_hop": flag(),
                    "overwrite_when_only_on_disk": flag(),
                    "multihop": { "type": ["boolean", "null"], "description": "the files are hops of one, in order" },
                    "dst_file_report": flag(),
                    "reuse": { "type": ["boolean", "string", "null"] },
                    "job_metadata": { "type": ["object", "string", "null"] },
                    "retry": { "type": ["integer", "null"], "description": "0: the service's default; below 0: none" },
                    "retry_delay": { "type": ["integer", "null"], "description": "seconds" },
                    "priority": { "type": ["integer", "null"], "minimum": 1, "maximum": 5 },
                    "timeout": { "type": ["integer", "null"], "description": "seconds for one attempt" },
                    "max_time_in_queue": {
                        "type": ["integer", "string", "null"],
                        "description": "hours, or a number followed by s, m, h or d"
                    },
                    "id_generator": { "enum": ["standard", "deterministic", null] },
                    "sid": text(),
                    "source_spacetoken": text(),
                    "destination_spacetoken": text(),
                    "nostreams": integer(),
                    "buffer_size": integer(),
                    "strict_copy": flag(),
                    "disable_cleanup": flag(),
                    "unmanaged_tokens": flag(),
                    "copy_mode": {
                        "enum": ["pull", "push", "streamed", null],
                        "description": "the only way to copy; absent: the service finds one"
                    }
                }
            }
        }
    })
}

fn file_schema() -> Value {
    let urls = || json!({ "type": "array", "minItems": 1, "items": { "type": "string", "format": "uri" } });
    let one_url =
        json!({ "type": "array", "minItems": 1, "maxItems": 1, "items": { "type": "string", "format": "uri" } });
    let tokens = || json!({ "type": ["array", "null"], "items": { "type": "string" } });
    json!({
        "type": "object",
        "required": ["sources", "destinations"],
        "properties": {
            "sources": urls(),
            "destinations": one_url,
            "source_tokens": tokens(),
            "destination_tokens": tokens(),
            "checksum": { "type": ["string", "null"], "description": "ALGORITHM or ALGORITHM:VALUE" },
            "filesize": { "type": ["integer", "null"], "minimum": 0 },
            "activity": { "type": ["string", "null"] },
            "scitag": { "type": ["integer", "null"], "minimum": 65, "maximum": 65535 },
            "metadata": { "type": ["object", "string", "null"] },
            "staging_metadata": { "type": ["object", "string", "null"] },
            "archive_metadata": { "type": ["object", "string", "null"] },
            "selection_strategy": { "type": ["string", "null"], "description": "which of several sources is first" }
        }
    })
}
