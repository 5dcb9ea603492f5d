//! Requests that no client should send, and unusual forms that clients do send.

use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use weir_http::body;

use crate::lab::{Answer, Lab};

const A: &str = "https://a.example.org/f";
const B: &str = "https://b.example.org/f";

/// Nothing starts: the test asks only whether it is taken.
async fn quiet() -> Lab {
    Lab::start_with(|config| config.limits.link = 0).await
}

async fn send(lab: &Lab, method: Method, path: &str, kind: &str, content: impl Into<bytes::Bytes>) -> Answer {
    let mut request = Request::new(body::full(content));
    *request.method_mut() = method;
    *request.uri_mut() = format!("{}{path}", lab.url()).parse().unwrap();
    let token = format!("Bearer {}", lab.token("alice").await.expose());
    let headers = request.headers_mut();
    headers.insert(header::AUTHORIZATION, token.parse().unwrap());
    if !kind.is_empty() {
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
    }
    Answer::read(lab.client.send(request).await.unwrap()).await
}

async fn post(lab: &Lab, content: impl Into<bytes::Bytes>) -> Answer {
    send(lab, Method::POST, "/jobs", "application/json", content).await
}

async fn job(lab: &Lab, taken: &Answer) -> Value {
    assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
    let id = taken.json["job_id"].as_str().unwrap();
    lab.get(&format!(
        "/jobs/{id}?files=source_surl,dest_surl,file_metadata,activity"
    ))
    .await
    .json
}

fn one(more: &Value) -> Value {
    let mut file = json!({ "sources": [A], "destinations": [B] });
    file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "files": [file] })
}

/// A client that speaks an old dialect would be shut out.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_come_in_every_form_that_clients_use() {
    let lab = quiet().await;
    let text = one(&json!({})).to_string();
    let encoded = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let files = percent_encoding::utf8_percent_encode(
        &one(&json!({}))["files"].to_string(),
        percent_encoding::NON_ALPHANUMERIC,
    )
    .to_string();
    let form = "application/x-www-form-urlencoded";
    let odd = "application/json, application/x-www-form-urlencoded";
    for (method, kind, content) in [
        (Method::POST, "application/json", text.clone()),
        (Method::POST, "application/json; charset=utf-8", text.clone()),
        (Method::PUT, "", text.clone()),
        (Method::PUT, "text/plain", text.clone()),
        (Method::POST, odd, encoded),
        (
            Method::POST,
            form,
            format!("files={files}&params=%7B%22priority%22%3A5%7D"),
        ),
    ] {
        let taken = send(&lab, method.clone(), "//jobs", kind, content).await;
        let job = job(&lab, &taken).await;
        assert_eq!(job["files"][0]["source_surl"], A, "{method} {kind}");
        assert_eq!(job["priority"], if kind == form { 5 } else { 3 });
    }
    for kind in ["", "text/plain", "application/xml"] {
        let refused = send(&lab, Method::POST, "/jobs", kind, text.clone()).await;
        assert_eq!(
            (refused.status, &refused.json["status"]),
            (StatusCode::BAD_REQUEST, &json!("400 Bad Request")),
            "{kind}"
        );
    }
}

/// A program that sends every parameter it knows, or leaves them all to the service, would be refused.
#[tokio::test(flavor = "multi_thread")]
async fn null_is_the_default_and_what_is_unknown_is_passed_over() {
    let lab = quiet().await;
    let keys = "overwrite overwrite_on_retry overwrite_when_only_on_disk overwrite_hop reuse job_metadata gridftp spacetoken \
        source_spacetoken destination_spacetoken verify_checksum copy_pin_lifetime bring_online dst_file_report archive_timeout \
        timeout fail_nearline retry retry_delay priority multihop credential nostreams s3alternate ipv4 ipv6 buffer_size \
        strict_copy disable_cleanup unmanaged_tokens max_time_in_queue id_generator sid target_qos account nobody_knows_this";
    let params = keys.split_whitespace().map(|key| (key.to_owned(), Value::Null));
    let nulls = Value::Object(params.collect());
    let file = json!({ "checksum": null, "filesize": null, "activity": null, "scitag": null, "metadata": null,
        "staging_metadata": null, "archive_metadata": null, "selection_strategy": null, "source_tokens": null,
        "destination_tokens": null, "nobody_knows_this": 1 });
    let mut body = one(&file);
    body["params"] = nulls;
    body["delete"] = Value::Null;
    let bare = job(&lab, &post(&lab, one(&json!({})).to_string()).await).await;
    let full = job(&lab, &post(&lab, body.to_string()).await).await;
    for (key, value) in bare.as_object().unwrap() {
        if !["job_id", "submit_time", "files"].contains(&key.as_str()) {
            assert_eq!(full[key], *value, "{key}");
        }
    }
}

/// Text of somebody's language would come back as something else, or break the store.
#[tokio::test(flavor = "multi_thread")]
async fn any_character_is_kept_or_refused() {
    let lab = quiet().await;
    for odd in [
        "😀 ü 漢",
        "a\u{0}b",
        "\u{feff}\u{202e}",
        "\"\\/\u{7f}\u{1}",
        "'; DROP TABLE jobs; --",
    ] {
        let printable = !odd.contains(char::is_control);
        let file = |activity: &str| json!({ "metadata": { odd: odd }, "activity": activity });
        if !printable {
            let refused = post(&lab, one(&file(odd)).to_string()).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        }
        let activity = if printable { odd } else { "default" };
        let mut body = one(&file(activity));
        body["params"] = json!({ "job_metadata": { "m": odd } });
        let job = job(&lab, &post(&lab, body.to_string()).await).await;
        assert_eq!(job["job_metadata"]["m"], odd);
        assert_eq!(job["files"][0]["file_metadata"], json!({ odd: odd }));
        assert_eq!(job["files"][0]["activity"], activity);
    }
    let path = "https://a.example.org/d/😀";
    let body = json!({ "files": [{ "sources": [path], "destinations": [B] }] });
    assert_eq!(
        job(&lab, &post(&lab, body.to_string()).await).await["files"][0]["source_surl"],
        path
    );
    for bad in [
        "https://a.example.org/\u{0}",
        "https://a.example.org/a\nb",
        "https://\u{0}/f",
    ] {
        let body = json!({ "files": [{ "sources": [bad], "destinations": [B] }] });
        let answer = post(&lab, body.to_string()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad:?}: {}", answer.text);
    }
    for path in [
        "/jobs/%00",
        "/jobs/%ff",
        "/jobs/%F0%9F%98%80",
        "/jobs/,",
        "/jobs/..%2f",
        "/archive/%00",
        "/files?dest_surl=%00",
    ] {
        let answer = lab.get(path).await;
        assert!(
            answer.status.is_client_error() || answer.status.is_success(),
            "{path}: {}",
            answer.text
        );
    }
    assert_eq!(lab.get("/jobs").await.status, StatusCode::OK);
}

/// A body that is no submission would be taken for one, or end the service.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_submission_is_refused_in_words() {
    let lab = quiet().await;
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let metadata = format!(
        r#"{{"files":[{{"sources":["{A}"],"destinations":["{B}"],"metadata":{{"m":{}}}}}]}}"#,
        deep(100_000)
    );
    let brackets = "[".repeat(100_000);
    let bodies: [&[u8]; 16] = [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\"files\"",
        b"{\"files\":",
        b"{\"files\":{}}",
        b"{\"files\":[1]}",
        b"{\"files\":[{}]}",
        b"{\"files\":[{\"sources\":\"a\",\"destinations\":[]}]}",
        b"{\"files\":[{\"sources\":[null],\"destinations\":[1]}]}",
        b"{\"files\":[{\"sources\":[],\"destinations\":[]}],\"params\":[]}",
        b"\xff\xfe{}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        brackets.as_bytes(),
        metadata.as_bytes(),
    ];
    for content in bodies {
        let answer = post(&lab, content.to_vec()).await;
        let shown = String::from_utf8_lossy(&content[..content.len().min(60)]).into_owned();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{shown}: {}", answer.text);
        assert!(!answer.message().is_empty(), "{shown}");
    }
    // As every reader of JSON in the field does it, the last one counts.
    let twice = format!(
        r#"{{"params":{{"priority":1,"priority":2}},"params":{{"priority":4,"priority":5}},"files":[{{"sources":["{A}"],"sources":["{B}"],"destinations":["{A}"]}}]}}"#
    );
    let job = job(&lab, &post(&lab, twice).await).await;
    assert_eq!(
        (&job["priority"], &job["files"][0]["source_surl"]),
        (&json!(5), &json!(B))
    );
}

/// One client could fill the memory, or hold everybody up.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_and_jobs_have_a_limit_and_hold_nobody_up() {
    let lab = quiet().await;
    let padding = |n: usize| {
        let mut body = one(&json!({}));
        body["params"] = json!({ "nobody_knows_this": "x".repeat(n) });
        body.to_string()
    };
    assert_eq!(post(&lab, padding(99_000_000)).await.status, StatusCode::OK);
    let refused = post(&lab, padding(100_000_000)).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refused.message().contains("split the job"), "{}", refused.text);

    let files = |n: usize| {
        let file = |n| json!({ "sources": [format!("{A}/{n}")], "destinations": [format!("{B}/{n}")] });
        json!({ "files": (0..n).map(file).collect::<Vec<_>>() }).to_string()
    };
    let refused = post(&lab, files(50_001)).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(
        refused.message().contains("a job has at most 50000 files"),
        "{}",
        refused.text
    );
    // While it is read, looks at it and all others go on.
    let taken = post(&lab, files(50_000));
    let looks = async {
        for _ in 0..20 {
            assert_eq!(lab.get("/whoami").await.status, StatusCode::OK);
        }
    };
    let (taken, ()) = tokio::join!(taken, looks);
    assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
    let id = taken.json["job_id"].as_str().unwrap();
    let shown = lab.get(&format!("/jobs/{id}?files=file_id")).await.json;
    assert_eq!(shown["files"].as_array().unwrap().len(), 50_000);
    let cancelled = lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(cancelled.json["job_state"], "CANCELED");
}
