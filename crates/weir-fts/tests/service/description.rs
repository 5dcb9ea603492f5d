//! The description of the door, held against the door.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{lab::Lab, stub::Stub};

/// Holds a value against a schema.
fn check(value: &Value, schema: &Value, all: &Value, at: &str) {
    if let Err(problem) = fits(value, schema, all, at) {
        panic!("{problem}");
    }
}

/// The part of JSON schema that the description uses.
fn fits(value: &Value, schema: &Value, all: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        let target = &all[name];
        assert!(!target.is_null(), "{at}: there is no schema {name}");
        return fits(value, target, all, at);
    }
    if let Some(choices) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        let tried = choices.iter().map(|choice| fits(value, choice, all, at));
        let problems = tried.filter_map(Result::err).collect::<Vec<_>>();
        if problems.len() == choices.len() {
            return Err(problems.join("; "));
        }
        return Ok(());
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Err(format!("{at}: {value} is none of {values:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_a(value, kind)) {
        return Err(format!("{at}: {value} is no {kinds:?}"));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        if value.is_object() && value.get(key.as_str().unwrap()).is_none() {
            return Err(format!("{at}: {key} is missing in {value}"));
        }
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(key) {
            fits(value, schema, all, &format!("{at}.{key}"))?;
        }
    }
    if let (Some(schema), Some(object)) = (schema.get("additionalProperties"), value.as_object()) {
        for (key, value) in object {
            fits(value, schema, all, &format!("{at}.{key}"))?;
        }
    }
    if let Some(items) = schema.get("items") {
        for (place, item) in value.as_array().into_iter().flatten().enumerate() {
            fits(item, items, all, &format!("{at}[{place}]"))?;
        }
    }
    Ok(())
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    }
}

/// Keys of the objects of an answer that their schemas do not have.
fn undescribed(value: &Value, schema: &Value, all: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/components/schemas/");
        return undescribed(value, &all[name], all, at, found);
    }
    for choice in ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema[key].as_array())
        .flatten()
    {
        if fits(value, choice, all, at).is_ok() {
            undescribed(value, choice, all, at, found);
        }
    }
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
        for (key, value) in object {
            match properties.get(key) {
                Some(schema) => undescribed(value, schema, all, &format!("{at}.{key}"), found),
                None => found.push(format!("{at}.{key}")),
            }
        }
    }
    for item in value.as_array().into_iter().flatten() {
        undescribed(item, &schema["items"], all, at, found);
    }
}

async fn described(lab: &Lab) -> Value {
    let answer = lab.ask("", Method::GET, "/openapi.json", None).await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.json
}

/// Paths as the sources of the door write them.
fn routed() -> BTreeSet<String> {
    let (mut folders, mut paths) = (
        vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")],
        BTreeSet::new(),
    );
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(path).unwrap();
                let after = text.split(".route(").skip(1);
                // A call between nodes has a name in place of a path, and is not described.
                let for_clients = after.filter(|rest| !rest.starts_with(char::is_uppercase));
                paths.extend(for_clients.filter_map(|rest| Some(rest.split('"').nth(1)?.to_owned())));
            }
        }
    }
    paths
}

/// Below these there is nothing.
const NOTHING: [&str; 2] = ["/cs/", "/config/cloud_storage/"];

#[tokio::test(flavor = "multi_thread")]
async fn every_path_and_method_of_the_door_is_described_and_no_other() {
    let lab = Lab::start().await;
    let description = described(&lab).await;
    let described: BTreeSet<String> = description["paths"].as_object().unwrap().keys().cloned().collect();
    let routed: BTreeSet<String> = routed()
        .into_iter()
        .filter(|path| !NOTHING.iter().any(|nothing| path.starts_with(nothing)))
        .collect();
    assert_eq!(described, routed);
    for path in &described {
        let asked = path.replace("{what}", "vo").replace(['{', '}'], "");
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let answer = lab
                .ask(
                    "alice",
                    method.clone(),
                    &asked,
                    (method != Method::GET).then_some(&json!([])),
                )
                .await;
            let is_described = !description["paths"][path][method.as_str().to_lowercase()].is_null();
            let refused = answer.message() == "The method is not allowed for the requested URL.";
            assert_eq!(is_described, !refused, "{method} {path}: {}", answer.text);
        }
    }
}

/// A call that forgot to ask who comes would change settings for anybody.
#[tokio::test(flavor = "multi_thread")]
async fn admitted_callers_are_those_described() {
    let lab = Lab::start().await;
    let description = described(&lab).await;
    let (mut checked, mut others) = ([0; 2], Vec::new());
    for (path, operations) in description["paths"].as_object().unwrap() {
        let asked = path.replace("{what}", "vo").replace(['{', '}'], "");
        for (method, operation) in operations.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let body = (method != Method::GET).then(|| json!({}));
            let ask = async |user| lab.ask(user, method.clone(), &asked, body.as_ref()).await;
            // A user of this host may read figures.
            let open = operation["security"].is_null() || path.ends_with("/metrics");
            let nobody = ask("").await;
            assert_eq!(
                nobody.status == StatusCode::UNAUTHORIZED,
                !open,
                "{method} {path}: {}",
                nobody.text
            );
            if operation["description"] == "For administrators." && !open {
                let user = ask("alice").await;
                if user.status != StatusCode::FORBIDDEN {
                    others.push(format!("{method} {path}: {}", user.text));
                }
                checked[0] += 1;
            }
            checked[1] += 1;
        }
    }
    assert_eq!(others, [""; 0], "these answer who is no administrator");
    assert!(checked[0] > 30 && checked[1] > 70, "{checked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_described() {
    let lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    a.make_directory("/d");
    a.put("/d/g", b"bytes");
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")], "metadata": { "k": 1 } }]);
    let id = lab.submit(files.clone(), json!({ "job_metadata": "x" })).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    let failing = json!([{ "sources": [a.url("/none")], "destinations": [b.url("/g")] }]);
    let failed = lab.submit(failing, json!({ "retry": -1 })).await;
    assert_eq!(lab.wait(&failed).await, "FAILED");
    let file = lab.get(&format!("/jobs/{id}/files")).await.json[0]["file_id"].clone();
    let here = "http://127.0.0.1";
    for (path, body) in [
        (
            "/config/links",
            json!({ "symbolicname": "name", "source": here, "destination": here, "max_active": 9 }),
        ),
        (
            "/config/activity_shares",
            json!({ "vo": "vo", "share": { "default": 1 } }),
        ),
        ("/config/weir/groups", json!({ "name": "name", "members": [] })),
        ("/config/shares", json!({ "vo": "vo", "share": 3 })),
        ("/config/global", json!({ "*": { "retry": 1 } })),
    ] {
        let answer = lab.ask("root", Method::POST, path, Some(&body)).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
    }
    let me = lab.ask("root", Method::GET, "/whoami", None).await.json["delegation_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let description = described(&lab).await;
    let (mut checked, mut unknown) = (0, Vec::new());
    for (path, methods) in description["paths"].as_object().unwrap() {
        let asked = path
            .replace("/delegation/{id}", &format!("/delegation/{me}"))
            .replace("{ids}", &format!("{id},{failed}?files=file_state,start_time,weir"))
            .replace("/files/{id}", &format!("/files/{file}"))
            .replace("{id}", &id)
            .replace("{file}", &file.to_string())
            .replace("{field}", "job_state")
            .replace("{host}", "hosts")
            .replace("{what}", "vo")
            .replace("{name}", "name")
            .replace("{vo}", "vo")
            .replace("/why/link", &format!("/why/link?source_se={here}&dest_se={here}"))
            .replace("/dm/list", &format!("/dm/list?surl={}", a.url("/d")))
            .replace("/dm/stat", &format!("/dm/stat?surl={}", a.url("/d/g")));
        let of_certificates = methods["get"]["security"] == json!([{ "certificate": [] }]);
        if ["/status/{host}", "/.well-known/weir/nodes"].contains(&path.as_str())
            || methods["get"].is_null()
            || of_certificates
        {
            continue;
        }
        let answer = lab.ask("root", Method::GET, &asked, None).await;
        let status = answer.status.as_str();
        let response = &methods["get"]["responses"][status];
        assert!(!response.is_null(), "GET {asked} answers {status}: {}", answer.text);
        let schema = &response["content"]["application/json"]["schema"];
        if !schema.is_null() {
            let all = &description["components"]["schemas"];
            check(&answer.json, schema, all, &asked);
            undescribed(&answer.json, schema, all, path, &mut unknown);
            checked += 1;
        }
    }
    assert!(checked > 35, "{checked}");
    assert_eq!(unknown, [""; 0], "these keys are in no schema");
}
