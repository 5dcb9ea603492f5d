//! Taking transfers back, in every state.

use http::{Method, StatusCode};
use serde_json::json;

use crate::{
    lab::Lab,
    stub::{Fault, Stub},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_copy_is_stopped_and_nothing_is_left() {
    let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    b.fault("COPY", "/f", Fault::Held);
    let id = lab
        .submit(
            json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]),
            json!({}),
        )
        .await;
    lab.until(&id, |job| job["files"][0]["file_state"] == "ACTIVE").await;
    let answer = lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        (&answer.json["job_state"], &answer.json["http_status"]),
        (&json!("CANCELED"), &json!("200 Ok"))
    );
    assert_eq!(answer.json["reason"], "Job canceled by the user");
    b.release();
    let file = &lab.get(&format!("/jobs/{id}/files")).await.json[0];
    assert_eq!(
        (&file["file_state"], &file["reason"]),
        (&json!("CANCELED"), &json!("Job canceled by the user"))
    );
    assert_eq!(b.get("/f"), None);

    let again = lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(
        (again.status, &again.json["http_status"]),
        (StatusCode::OK, &json!("304 Not Modified"))
    );
    assert_eq!(again.json["http_message"], "The job is in a terminal state");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_version_survives_a_cancelled_overwrite() {
    let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
    a.put("/f", b"new bytes");
    b.put("/f", b"old");
    b.fault("COPY", "/f", Fault::Held);
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "overwrite": true })).await;
    lab.until(&id, |job| {
        job["files"][0]["file_state"] == "ACTIVE" && !b.seen("COPY", "/f").is_empty()
    })
    .await;
    lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(lab.wait(&id).await, "CANCELED");
    assert_eq!(b.get("/f").unwrap(), b"old".as_slice());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_that_do_not_stop_are_waited_for_together() {
    // One after the other, ten seconds each, a client that cancels a hundred would wait for a quarter of an hour.
    let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
    let mut ids = Vec::new();
    for name in ["/1", "/2", "/3"] {
        a.put(name, b"bytes");
        b.fault("COPY", name, Fault::Held);
        let files = json!([{ "sources": [a.url(name)], "destinations": [b.url(name)] }]);
        let id = lab.submit(files, json!({})).await;
        lab.until(&id, |_| !b.seen("COPY", name).is_empty()).await;
        // Looking after what is left takes longer than anybody waits.
        b.fault("HEAD", name, Fault::Silent);
        ids.push(id);
    }
    let began = std::time::Instant::now();
    let answer = lab
        .ask("alice", Method::DELETE, &format!("/jobs/{}", ids.join(",")), None)
        .await;
    assert!(began.elapsed().as_secs() < 18, "{:?}", began.elapsed());
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(answer.json.as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn single_files_are_taken_back_and_the_rest_goes_on() {
    let lab = Lab::start_with(|config| config.limits.link = 1).await;
    let (a, b) = (Stub::start(), Stub::start());
    for name in ["/1", "/2", "/3"] {
        a.put(name, b"bytes");
    }
    b.fault("COPY", "/1", Fault::Held);
    let file = |name: &str| json!({ "sources": [a.url(name)], "destinations": [b.url(name)] });
    let id = lab.submit(json!([file("/1"), file("/2"), file("/3")]), json!({})).await;
    lab.until(&id, |job| job["files"][0]["file_state"] == "ACTIVE").await;
    let files = lab.get(&format!("/jobs/{id}/files")).await.json;
    let (second, third) = (&files[1]["file_id"], &files[2]["file_id"]);
    let path = format!("/jobs/{id}/files/{second}");
    assert_eq!(
        lab.ask("alice", Method::DELETE, &path, None).await.json,
        json!("CANCELED")
    );
    let path = format!("/jobs/{id}/files/{second},999999999");
    let expected = json!(["CANCELED", "File does not belong to the job"]);
    assert_eq!(lab.ask("alice", Method::DELETE, &path, None).await.json, expected);
    b.release();
    assert_eq!(lab.wait(&id).await, "CANCELED");
    let files = lab.get(&format!("/jobs/{id}/files")).await.json;
    let states: Vec<_> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["file_state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["FINISHED", "CANCELED", "FINISHED"], "{third}");
    assert_eq!(b.get("/2"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_that_races_completion_tells_the_truth() {
    // Either may win: FINISHED means the bytes are there, CANCELED that they are not.
    let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
    for round in 0..20 {
        let name = format!("/race/{round}");
        a.put(&name, b"bytes");
        let id = lab
            .submit(
                json!([{ "sources": [a.url(&name)], "destinations": [b.url(&name)] }]),
                json!({}),
            )
            .await;
        let pause = std::time::Duration::from_millis(round * 2);
        tokio::time::sleep(pause).await;
        lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
        lab.wait(&id).await;
        let state = lab.get(&format!("/jobs/{id}?files=file_state")).await.json["files"][0]["file_state"].clone();
        let there = b.get(&name).is_some();
        assert_eq!(
            there,
            state == "FINISHED",
            "round {round}: {state}, and the file is there: {there}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdue_file_is_cancelled() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "max_time_in_queue": "1s" })).await;
    assert_eq!(lab.wait(&id).await, "CANCELED");
    let file = &lab.get(&format!("/jobs/{id}/files")).await.json[0];
    assert!(file["reason"].as_str().unwrap().contains("max_time_in_queue"), "{file}");
}
