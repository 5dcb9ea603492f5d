//! Every way to fail, each named rightly: class, party, phase, and what is left at the destination (nothing).

use std::time::Duration;

use serde_json::{Value, json};
use weir_auth::ca::San;
use weir_http::ServerLimits;

use crate::{
    lab::{Lab, loopback},
    stub::{Fault, Stub, adler32},
};

const BYTES: &[u8] = b"known content of a file";

/// Sets a fault, transfers one file without retries, and checks class, party and phase, and that nothing is left behind.
async fn fails(
    set: impl FnOnce(&Stub, &Stub),
    params: Value,
    [class, party, phase]: [&str; 3],
    words: &[&str],
) -> Value {
    let lab = Lab::start_with(|config| {
        config.copy.stall_timeout = Duration::from_millis(400);
        config.copy.response_timeout = Duration::from_millis(1500);
        config.copy.checksum_timeout = Duration::from_millis(1500);
        config.copy.busy_patience = Duration::from_millis(10);
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", BYTES);
    set(&a, &b);
    let mut params = params;
    params["retry"] = json!(-1);
    let file = lab
        .transfer(&a.url("/f"), &b.url("/f?authz=secret-in-query"), params)
        .await;
    assert_eq!(file["file_state"], "FAILED", "{file}");
    let weir = &file["weir"];
    assert_eq!(
        [
            weir["error_class"].as_str(),
            weir["party"].as_str(),
            weir["phase"].as_str()
        ],
        [Some(class), Some(party), Some(phase)],
        "{file}"
    );
    let reason = file["reason"].as_str().unwrap();
    for word in words {
        assert!(reason.contains(word), "'{word}' is not in: {reason}");
    }
    assert!(!reason.contains("secret-in-query"), "{reason}");
    assert!(
        !weir["remedy"].as_str().unwrap_or_default().is_empty(),
        "a failure without a remedy: {file}"
    );
    assert_eq!(b.get("/f"), None, "something was left at the destination");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_source() {
    let set = |a: &Stub, _: &Stub| a.fault("HEAD", "/f", Fault::Status(404, ""));
    fails(
        set,
        json!({}),
        ["not-found", "source", "preparation"],
        &["SOURCE [2]", "No such file"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_does_not_let_us_read() {
    let set = |a: &Stub, _: &Stub| a.fault("HEAD", "/f", Fault::Status(403, ""));
    fails(set, json!({}), ["permission", "source", "preparation"], &["403"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_does_not_take_our_token() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Status(401, "token expired"));
    fails(set, json!({}), ["token", "destination", "transfer"], &["token expired"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_destination() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Status(507, "quota of area x is used up"));
    fails(set, json!({}), ["no-space", "destination", "transfer"], &["quota"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_becomes_full_on_the_way() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Says("failure: no space left on device\n"));
    fails(
        set,
        json!({}),
        ["no-space", "destination", "transfer"],
        &["no space left"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_destination() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Status(403, "the area is read-only"));
    fails(set, json!({}), ["read-only", "destination", "transfer"], &["read-only"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_change_on_their_way() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Corrupts);
    let file = fails(
        set,
        json!({ "verify_checksum": "both" }),
        ["checksum", "destination", "finalization"],
        &["CHECKSUM MISMATCH"],
    )
    .await;
    assert_eq!(file["weir"]["bytes_moved"], 23);
    assert_eq!(file["recoverable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_not_what_the_submission_says() {
    let params = json!({ "verify_checksum": "both", "checksum": "ADLER32:00000001" });
    let file = fails(
        |_, _| {},
        params,
        ["checksum", "source", "preparation"],
        &["CHECKSUM MISMATCH", "adler32:00000001"],
    )
    .await;
    assert_eq!(file["recoverable"], false);
    let params = json!({ "filesize": 5 });
    fails(
        |_, _| {},
        params,
        ["size", "source", "preparation"],
        &["23 bytes", "says 5"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_something_else_than_the_submission_says_is_removed() {
    let params = json!({ "verify_checksum": "target", "checksum": "ADLER32:00000001" });
    fails(
        |_, _| {},
        params,
        ["checksum", "destination", "finalization"],
        &["CHECKSUM MISMATCH"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_tells_no_checksum() {
    let set = |a: &Stub, _: &Stub| a.fault("HEAD", "/f", Fault::NoDigest);
    fails(
        set,
        json!({ "verify_checksum": "both" }),
        ["checksum", "source", "preparation"],
        &["does not report"],
    )
    .await;
    let set = |_: &Stub, b: &Stub| b.fault("HEAD", "/f", Fault::NoDigest);
    fails(
        set,
        json!({ "verify_checksum": "both" }),
        ["checksum", "destination", "finalization"],
        &["does not report"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_says_nothing() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Hangs(""));
    fails(
        set,
        json!({}),
        ["stall", "destination", "transfer"],
        &["no performance marker"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_bytes_stop() {
    let set = |_: &Stub, b: &Stub| {
        let marker = "Perf Marker\n Stripe Index: 0\n Stripe Bytes Transferred: 7\nEnd\n";
        b.fault("COPY", "/f", Fault::Hangs(marker));
    };
    let file = fails(set, json!({}), ["stall", "destination", "transfer"], &["after 7 bytes"]).await;
    assert_eq!(file["weir"]["bytes_moved"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_for_markers() {
    let set = |_: &Stub, b: &Stub| {
        b.fault(
            "COPY",
            "/f",
            Fault::Says("Perf Marker\n Stripe Bytes Transferred: lots\nEnd\n\u{0}\u{1}<html>"),
        );
    };
    fails(
        set,
        json!({}),
        ["network", "destination", "transfer"],
        &["connection terminated abruptly"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_ends_in_the_middle_leaves_nothing() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::WritesHalfThenCuts);
    fails(
        set,
        json!({}),
        ["network", "destination", "transfer"],
        &["without a verdict"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_said_to_be_done_and_is_not() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Says("success: Created\n"));
    fails(
        set,
        json!({}),
        ["not-found", "destination", "finalization"],
        &["not there"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_never_answers() {
    let set = |a: &Stub, _: &Stub| a.fault("HEAD", "/f", Fault::Silent);
    fails(set, json!({}), ["timeout", "source", "preparation"], &["longer than"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_time_that_is_over() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Held);
    fails(
        set,
        json!({ "timeout": 1 }),
        ["timeout", "network", "transfer"],
        &["longer than 1s"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_storage() {
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Status(503, "too many copies"));
    fails(
        set,
        json!({}),
        ["overload", "destination", "transfer"],
        &["too many copies"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_the_destination_cannot_reach_and_nobody_else_either() {
    let lab = Lab::start().await;
    let b = Stub::start();
    let file = lab
        .transfer("http://127.0.0.1:1/f", &b.url("/f"), json!({ "retry": -1 }))
        .await;
    assert_eq!(
        (&file["weir"]["error_class"], &file["weir"]["party"]),
        (&json!("network"), &json!("source")),
        "{file}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_to_a_wrong_name() {
    let lab = Lab::start().await;
    let b = Stub::start();
    let identity = lab.authority.issue(&[San::from("other.example")], "other").unwrap();
    let tls = weir_http::server_config(&identity).unwrap();
    let nobody = tower::service_fn(|_: http::Request<hyper::body::Incoming>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(weir_http::body::empty()))
    });
    let listener = weir_http::bind(loopback()).unwrap();
    let server = weir_http::serve(listener, Some(tls), ServerLimits::default(), nobody).unwrap();
    let source = format!("https://{}/f", server.address());
    let file = lab.transfer(&source, &b.url("/f"), json!({ "retry": 5 })).await;
    assert_eq!(
        (&file["weir"]["error_class"], &file["weir"]["party"]),
        (&json!("tls"), &json!("source")),
        "{file}"
    );
    assert_eq!(
        file["weir"]["attempts"], 1,
        "a wrong certificate is not tried again: {file}"
    );
}

/// The thief of a storage's key would be sent users' tokens for as long as its certificate has not ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_was_revoked() {
    let mut trusted = None;
    let lab = Lab::start_managed(|config, authority, dir| {
        let directory = dir.join("certificates");
        std::fs::create_dir(&directory).unwrap();
        std::fs::copy(authority.file(), directory.join("ca.pem")).unwrap();
        config.trust.files.clear();
        config.trust.directories = vec![directory.clone()];
        trusted = Some(directory);
    })
    .await;
    let encrypted = |name: &str| {
        let identity = lab.authority.issue(&[San::from("127.0.0.1")], name).unwrap();
        let stub = Stub::start_with(Some(weir_http::server_config(&identity).unwrap()));
        (identity, stub)
    };
    let ((stolen, a), (_, good), b) = (encrypted("stolen"), encrypted("good"), Stub::start());
    let class = async |from: &Stub| {
        let file = lab.transfer(&from.url("/f"), &b.url("/f"), json!({ "retry": 5 })).await;
        (file["weir"]["error_class"].clone(), file)
    };
    assert_eq!(class(&a).await.0, "not-found");
    let list = lab.authority.revocation_list(&[&stolen]).unwrap();
    std::fs::write(trusted.unwrap().join("ca.r0"), list).unwrap();
    lab.look().await;
    assert_eq!(class(&good).await.0, "not-found");
    let asked = a.all_seen().len();
    let (class, file) = class(&a).await;
    assert_eq!(
        (class, &file["weir"]["party"]),
        (json!("tls"), &json!("source")),
        "{file}"
    );
    assert_eq!(file["weir"]["attempts"], 1, "{file}");
    let (reason, url) = (file["reason"].as_str().unwrap(), a.url(""));
    let host = url.trim_start_matches("https://").trim_end_matches('/');
    assert!(reason.contains(host) && reason.contains("Revoked"), "{reason}");
    let remedy = file["weir"]["remedy"].as_str().unwrap();
    assert!(remedy.contains("new certificate"), "{remedy}");
    assert_eq!(
        a.all_seen().len(),
        asked,
        "it was sent a request on a connection of before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ran_out_in_the_queue() {
    let lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", BYTES);
    let key = weir_auth::SigningKey::generate().unwrap();
    let stale = key.sign(&json!({ "exp": 1000 })).unwrap();
    let files = json!([{
        "sources": [a.url("/f")], "destinations": [b.url("/f")],
        "source_tokens": [stale.expose()], "destination_tokens": ["opaque-token"]
    }]);
    let id = lab.submit(files, json!({})).await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    let file = lab.get(&format!("/jobs/{id}/files")).await;
    assert_eq!(file.json[0]["weir"]["error_class"], "token", "{}", file.text);
    assert!(a.seen("HEAD", "/f").is_empty(), "an expired token was sent");
    assert!(!file.text.contains(stale.expose()) && !file.text.contains("opaque-token"));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_secret() {
    let lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", BYTES);
    a.fault("HEAD", "/bad", Fault::Status(500, ""));
    let (source_token, destination_token) = ("source-token-0123456789", "destination-token-0123456789");
    let file = |name: &str| {
        json!({
            "sources": [a.url(name)], "destinations": [b.url(&format!("{name}?authz=query-secret"))],
            "source_tokens": [source_token], "destination_tokens": [destination_token],
            "checksum": format!("ADLER32:{}", adler32(BYTES)),
        })
    };
    let id = lab
        .submit(json!([file("/f"), file("/bad")]), json!({ "retry": -1 }))
        .await;
    assert_eq!(lab.wait(&id).await, "FINISHEDDIRTY");
    let head = &a.seen("HEAD", "/f")[0].headers;
    assert_eq!(head["authorization"], format!("Bearer {source_token}").as_str());
    let copy = &b.seen("COPY", "/f")[0].headers;
    assert_eq!(copy["authorization"], format!("Bearer {destination_token}").as_str());
    assert_eq!(
        copy["transferheaderauthorization"],
        format!("Bearer {source_token}").as_str()
    );
    let metrics = lab.get("/.well-known/weir/metrics").await.text;
    for text in [
        lab.get(&format!("/jobs/{id}/files")).await.text,
        lab.get(&format!("/jobs/{id}")).await.text,
        metrics,
    ] {
        assert!(
            !text.contains(source_token) && !text.contains(destination_token),
            "{text}"
        );
    }
    for entry in std::fs::read_dir(lab.directory.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let holds = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(
                !holds(source_token) && !holds(destination_token),
                "{} holds a token",
                path.display()
            );
        }
    }
    assert!(lab.store().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_one_operation_and_the_others_go_on() {
    // No clock can be asked for this time: the operation panics where it begins to watch the copy.
    let lab = Lab::start_with(|config| config.copy.stall_timeout = Duration::MAX).await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", BYTES);
    let params = json!({ "retry": -1, "copy_mode": "pull" });
    let file = lab.transfer(&a.url("/f"), &b.url("/f"), params).await;
    assert_eq!(
        (
            &file["file_state"],
            &file["weir"]["error_class"],
            &file["weir"]["party"]
        ),
        (&json!("FAILED"), &json!("internal"), &json!("transfer service")),
        "{file}"
    );
    let file = lab.transfer(&a.url("/g"), &b.url("/g"), json!({ "retry": -1 })).await;
    assert_eq!(file["weir"]["error_class"], "not-found", "{file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_lies_about_bytes_is_not_believed() {
    // A counter that wraps, or a transfer larger than its file, spoils every sum that is made of it.
    let lie =
        "Perf Marker\n Stripe Index: 0\n Stripe Bytes Transferred: 18446744073709551615\nEnd\nfailure: no space left\n";
    let set = |_: &Stub, b: &Stub| b.fault("COPY", "/f", Fault::Says(lie));
    let file = fails(set, json!({}), ["no-space", "destination", "transfer"], &[]).await;
    assert_eq!(
        (&file["weir"]["bytes_moved"], &file["transferred"]),
        (&json!(BYTES.len()), &json!(BYTES.len()))
    );
}
