//! Shapes of the door's answers, as JSON schemas by name.

use serde_json::{Map, Value, json};

fn object(required: &[&str], properties: &Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn list(of: &str) -> Value {
    json!({ "type": "array", "items": reference(of) })
}

fn reference(to: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{to}") })
}

/// All of them.
#[expect(clippy::too_many_lines, reason = "a table of schemas, written as JSON")]
pub(super) fn schemas() -> Map<String, Value> {
    let (text, number, whole, flag) = (
        json!({ "type": "string" }),
        json!({ "type": "number" }),
        json!({ "type": "integer" }),
        json!({ "type": "boolean" }),
    );
    let or_null = |kind: &str| json!({ "type": [kind, "null"] });
    let time =
        || json!({ "type": ["string", "null"], "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$" });
    let version = object(
        &["major", "minor", "patch"],
        &json!({ "major": whole, "minor": whole, "patch": whole }),
    );
    let mut all = Map::new();
    let mut add = |name: &str, schema: Value| drop(all.insert(name.to_owned(), schema));
    add("Any", json!({}));
    add("Object", json!({ "type": "object" }));
    add("Array", json!({ "type": "array" }));
    add("Boolean", flag.clone());
    add("Integer", whole.clone());
    add("Strings", json!({ "type": "array", "items": text }));
    add(
        "Error",
        object(&["status", "message"], &json!({ "status": text, "message": text })),
    );
    add(
        "ServiceDocument",
        object(
            &["api", "core", "delegation", "schema", "_links"],
            &json!({ "api": version, "delegation": version, "schema": version }),
        ),
    );
    add(
        "WhoAmI",
        object(
            &[
                "user_dn",
                "dn",
                "base_id",
                "voms_cred",
                "vos",
                "vos_id",
                "roles",
                "level",
                "delegation_id",
                "method",
                "is_root",
            ],
            &json!({ "user_dn": text, "delegation_id": text, "is_root": flag, "level": { "type": "object" }, "vos": { "type": "array", "items": text } }),
        ),
    );
    add(
        "Delegation",
        json!({ "oneOf": [
            object(&["termination_time", "voms_attrs"], &json!({ "termination_time": time(), "voms_attrs": { "type": "array", "items": text } })),
            { "type": ["array", "null"] },
        ] }),
    );
    add("Submitted", object(&["job_id"], &json!({ "job_id": text })));
    add(
        "Job",
        json!({
            "type": "object",
            "properties": {
                "job_id": text,
                "job_state": { "enum": ["SUBMITTED", "STAGING", "ACTIVE", "ARCHIVING", "FINISHED", "FINISHEDDIRTY", "FAILED", "CANCELED"] },
                "job_type": text, "user_dn": text, "cred_id": text, "vo_name": text, "reason": or_null("string"),
                "submit_time": time(), "job_finished": time(), "priority": whole, "retry": whole, "retry_delay": whole,
                "source_se": or_null("string"), "dest_se": or_null("string"), "overwrite_flag": or_null("string"),
                "max_time_in_queue": or_null("integer"), "job_metadata": or_null("object"), "cancel_job": flag,
                "files": list("File"), "http_status": text, "http_message": or_null("string")
            }
        }),
    );
    add("Jobs", list("Job"));
    add("JobOrJobs", json!({ "oneOf": [reference("Job"), list("Job")] }));
    add(
        "File",
        json!({
            "type": "object",
            "properties": {
                "file_id": whole, "file_index": whole,
                "file_state": { "enum": ["SUBMITTED", "FORCE_START", "ACTIVE", "STAGING", "STARTED", "ARCHIVING", "NOT_USED", "ON_HOLD", "FINISHED", "FAILED", "CANCELED"] },
                "job_id": text, "source_surl": text, "dest_surl": text, "activity": text, "checksum": or_null("string"),
                "filesize": or_null("integer"), "user_filesize": whole, "throughput": or_null("number"), "tx_duration": or_null("number"),
                "retry": whole, "recoverable": or_null("boolean"), "reason": or_null("string"), "start_time": time(), "finish_time": time(),
                "staging_start": time(), "staging_finished": time(), "file_metadata": or_null("object"), "scitag": or_null("integer"),
                "hashed_id": { "type": "integer", "minimum": 0, "maximum": 65535 }, "weir": { "type": "object" }
            }
        }),
    );
    add("Files", list("File"));
    add(
        "Retry",
        object(
            &["file_id", "attempt", "datetime", "reason", "transfer_host", "log_file"],
            &json!({ "file_id": whole, "attempt": whole, "datetime": time() }),
        ),
    );
    add("Retries", list("Retry"));
    add(
        "Affected",
        object(
            &["affected_files", "affected_dm", "affected_jobs"],
            &json!({ "affected_files": whole, "affected_dm": whole, "affected_jobs": whole }),
        ),
    );
    add(
        "Reason",
        object(&["reason", "text"], &json!({ "reason": text, "text": text })),
    );
    add(
        "WhyLink",
        object(
            &[
                "source_se",
                "dest_se",
                "limit",
                "allowed",
                "active",
                "queued",
                "delayed",
                "reasons",
                "decisions",
            ],
            &json!({ "limit": whole, "allowed": whole, "active": whole, "queued": whole, "delayed": whole, "failing": number, "each_bps": or_null("integer"), "reasons": list("Reason") }),
        ),
    );
    add(
        "WhyFile",
        object(
            &["file_id", "text", "reasons"],
            &json!({ "file_id": whole, "text": text, "reasons": list("Reason") }),
        ),
    );
    add("WhyFiles", list("WhyFile"));
    add(
        "HostActivity",
        object(&["active", "staging"], &json!({ "active": whole, "staging": whole })),
    );
    add(
        "Hosts",
        json!({ "type": "array", "items": object(&["hostname", "service_name", "beat", "drain"], &json!({ "hostname": text, "drain": flag, "beat": time() })) }),
    );
    add(
        "AuditEntries",
        json!({ "type": "array", "items": object(&["datetime", "dn", "config", "action"], &json!({ "datetime": time(), "dn": text, "config": text, "action": text })) }),
    );
    add(
        "Link",
        object(
            &[
                "symbolicname",
                "source",
                "destination",
                "min_active",
                "max_active",
                "optimizer_mode",
                "tcp_buffer_size",
                "nostreams",
                "no_delegation",
                "weir",
            ],
            &json!({
                "symbolicname": text, "source": text, "destination": text, "min_active": or_null("integer"), "max_active": or_null("integer"),
                "optimizer_mode": or_null("integer"), "nostreams": or_null("integer"), "no_delegation": flag, "weir": { "type": "object" }
            }),
        ),
    );
    add("Links", list("Link"));
    add(
        "Share",
        object(
            &["source", "destination", "vo", "share"],
            &json!({ "source": text, "destination": text, "vo": text, "share": whole }),
        ),
    );
    add("Shares", list("Share"));
    add(
        "Group",
        object(
            &["name", "max_active", "max_rate", "members"],
            &json!({ "name": text, "max_active": or_null("integer"), "members": { "type": "array" } }),
        ),
    );
    add("Groups", list("Group"));
    add(
        "Listing",
        json!({ "type": "object", "additionalProperties": object(&["size", "mode", "mtime"], &json!({ "size": whole, "mode": whole, "mtime": whole })) }),
    );
    add(
        "Stat",
        object(
            &["mode", "nlink", "size", "atime", "mtime", "ctime"],
            &json!({ "mode": whole, "nlink": whole, "size": whole, "atime": whole, "mtime": whole, "ctime": whole }),
        ),
    );
    let not_forced = object(&["file_id", "error"], &json!({ "file_id": whole, "error": text }));
    add("NotForced", json!({ "type": "array", "items": not_forced }));
    add("Health", object(&["status"], &json!({ "status": text })));
    add(
        "Queue",
        object(
            &["kind", "name", "depth", "depth_limit", "oldest_s", "oldest_limit_s"],
            &json!({ "kind": { "enum": ["vo", "client", "link"] }, "name": text, "depth": whole, "depth_limit": or_null("integer"), "oldest_s": or_null("integer"), "oldest_limit_s": or_null("integer") }),
        ),
    );
    add("Queues", list("Queue"));
    all
}
