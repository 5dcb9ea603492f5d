//! Stopping and starting in the middle: nothing is lost, nothing is done twice with effect.

use serde_json::json;

use crate::{
    lab::{Answer, Lab},
    stub::{Fault, Stub},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_job_is_finished_after_a_restart() {
    let mut lab = Lab::start_with(|config| config.limits.link = 4).await;
    let (a, b) = (Stub::start(), Stub::start());
    let mut files = Vec::new();
    for n in 0..20 {
        a.put(&format!("/{n}"), format!("content {n}").as_bytes());
        b.fault("COPY", &format!("/{n}"), Fault::Held);
        files.push(json!({ "sources": [a.url(&format!("/{n}"))], "destinations": [b.url(&format!("/{n}"))] }));
    }
    let id = lab.submit(json!(files), json!({ "verify_checksum": "both" })).await;
    lab.until(&id, |job| {
        job["files"]
            .as_array()
            .unwrap()
            .iter()
            .any(|file| file["file_state"] == "ACTIVE")
    })
    .await;
    lab.down().await;
    for n in 0..20 {
        b.heal("COPY", &format!("/{n}"));
    }
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    for n in 0..20 {
        assert_eq!(b.get(&format!("/{n}")).unwrap(), format!("content {n}").as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_whole_before_the_restart_is_adopted() {
    let mut lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    b.fault("COPY", "/f", Fault::Held);
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "verify_checksum": "both" })).await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    lab.down().await;
    // The storage finished all the same.
    b.put("/f", b"bytes");
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    let file = &lab.get(&format!("/jobs/{id}/files")).await.json[0];
    assert_eq!(file["weir"]["mode"], "adopted", "{file}");
    assert_eq!(b.seen("COPY", "/f").len(), 1, "a whole file was copied again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_becomes_whole_while_it_is_ordered_again_is_adopted() {
    // A storage that completed the order of before would have a file that is there, and right, told as failed.
    for (mode, method) in [("pull", "COPY"), ("streamed", "PUT")] {
        for (bytes, state) in [(b"bytes", "FINISHED"), (b"other", "FAILED")] {
            let mut lab = Lab::start().await;
            let (a, b) = (Stub::start(), Stub::start());
            a.put("/f", b"bytes");
            b.fault(method, "/f", Fault::Silent);
            let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
            let params = json!({ "verify_checksum": "both", "copy_mode": mode, "retry": -1 });
            let id = lab.submit(files, params).await;
            lab.until(&id, |_| !b.seen(method, "/f").is_empty()).await;
            lab.down().await;
            b.fault(method, "/f", Fault::Appears(bytes, 412, "it exists"));
            lab.up().await;
            assert_eq!(lab.wait(&id).await, state, "{mode}");
            let file = &lab.get(&format!("/jobs/{id}/files")).await.json[0];
            let reason = file["reason"].as_str().unwrap_or_default();
            if state == "FINISHED" {
                assert_eq!(file["weir"]["mode"], "adopted", "{file}");
            } else {
                // By these words Rucio knows that the file is there.
                assert!(
                    reason.contains("Destination file exists and overwrite is not enabled"),
                    "{file}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_an_earlier_attempt_left_is_replaced_without_overwrite() {
    let mut lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    b.fault("COPY", "/f", Fault::Held);
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "verify_checksum": "both" })).await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    lab.down().await;
    b.put("/f", b"by");
    b.heal("COPY", "/f");
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(b.get("/f").unwrap(), b"bytes".as_slice());
    assert_eq!(b.seen("DELETE", "/f").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_survives_a_restart() {
    let mut lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({})).await;
    lab.ask("alice", http::Method::DELETE, &format!("/jobs/{id}"), None)
        .await;
    lab.down().await;
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "CANCELED");
    assert_eq!(b.get("/f"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_were_set_hold_after_a_restart() {
    let mut lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    let link = json!({ "symbolicname": "all", "source": "*", "destination": "*", "max_active": 0 });
    let answer = lab.ask("root", http::Method::POST, "/config/links", Some(&link)).await;
    assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
    lab.down().await;
    lab.up().await;
    a.put("/f", b"bytes");
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({})).await;
    let metrics = lab.get("/.well-known/weir/metrics").await.text;
    let line = "weir_transfer_link_limit{source=\"http://127.0.0.1\",destination=\"http://127.0.0.1\"} 0";
    assert!(metrics.contains(line), "{metrics}");
    let answer = lab.ask("root", http::Method::DELETE, "/config/links/all", None).await;
    assert_eq!(answer.status.as_u16(), 204);
    assert_eq!(lab.wait(&id).await, "FINISHED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_whoever_waits_for_something() {
    // A cancellation waits up to ten seconds for copies to stop: its answer was cut off, and clients repeat nothing that was.
    let mut lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    b.fault("COPY", "/f", Fault::Held);
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "copy_mode": "pull" })).await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    // The search finds no leftovers.
    b.fault("HEAD", "/f", Fault::Silent);
    let request = http::Request::delete(format!("{}/jobs/{id}", lab.url()))
        .header("authorization", format!("Bearer {}", lab.token("alice").await.expose()))
        .body(weir_http::body::empty())
        .unwrap();
    let client = lab.client.clone();
    let asked = tokio::spawn(async move { Answer::read(client.send(request).await.unwrap()).await });
    lab.until(&id, |job| job["cancel_job"] == true).await;
    let stops = std::time::Instant::now();
    lab.down().await;
    let answer = asked.await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        (&answer.json["job_id"], &answer.json["cancel_job"]),
        (&json!(id), &json!(true))
    );
    assert!(
        stops.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        stops.elapsed()
    );
    b.heal("HEAD", "/f");
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "CANCELED");
}
