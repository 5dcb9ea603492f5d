//! Jobs of several sources and of hops; a destination that is taken.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    lab::Lab,
    stub::{Fault, Stub, adler32},
};

fn hops(urls: &[String]) -> Value {
    let hop = |pair: &[String]| json!({ "sources": [pair[0]], "destinations": [pair[1]] });
    urls.windows(2).map(hop).collect()
}

fn several(sources: &[String], destination: &str, strategy: &str) -> Value {
    json!([{ "sources": sources, "destinations": [destination], "selection_strategy": strategy }])
}

async fn files(lab: &Lab, id: &str) -> Vec<Value> {
    lab.get(&format!("/jobs/{id}/files"))
        .await
        .json
        .as_array()
        .unwrap()
        .clone()
}

async fn states(lab: &Lab, id: &str) -> Vec<String> {
    let files = files(lab, id).await;
    files
        .iter()
        .map(|file| file["file_state"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_source_brings_the_file_and_the_rest_is_not_used() {
    let mut lab = Lab::start().await;
    let [a, b, c, d] = [Stub::start(), Stub::start(), Stub::start(), Stub::start()];
    b.put("/f", b"content");
    c.put("/f", b"content");
    let sources = [a.url("/f"), b.url("/f"), c.url("/f")];
    let params = json!({ "job_metadata": { "multi_sources": true } });
    let id = lab.submit(several(&sources, &d.url("/f"), "orderly"), params).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(d.get("/f").unwrap(), b"content".as_slice());
    assert_eq!(states(&lab, &id).await, ["FAILED", "FINISHED", "NOT_USED"]);
    assert!(
        c.seen("HEAD", "/f").is_empty(),
        "a source that was not needed was looked at"
    );
    let job = lab.get(&format!("/jobs/{id}")).await.json;
    assert_eq!(
        (&job["job_type"], &job["reason"], &job["job_metadata"]["multi_sources"]),
        (&json!("R"), &Value::Null, &json!(true))
    );
    for file in files(&lab, &id).await {
        assert_eq!(
            (&file["file_index"], &file["selection_strategy"]),
            (&json!(0), &json!("orderly"))
        );
        assert_eq!(file["dest_surl"], d.url("/f"));
    }
    // Nothing of it comes back with the next life.
    lab.down().await;
    lab.up().await;
    let again = lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(again.json["http_status"], "304 Not Modified");
    assert_eq!(states(&lab, &id).await, ["FAILED", "FINISHED", "NOT_USED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_that_are_asked_for_come_before_the_next_source() {
    let lab = Lab::start().await;
    let [a, b, d] = [Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"content");
    b.put("/f", b"content");
    a.fault("HEAD", "/f", Fault::StatusTimes(503, "busy", 2));
    let sources = [a.url("/f"), b.url("/f")];
    let id = lab
        .submit(several(&sources, &d.url("/f"), "orderly"), json!({ "retry": 2 }))
        .await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    let files = files(&lab, &id).await;
    assert_eq!(
        (&files[0]["file_state"], &files[0]["retry"]),
        (&json!("FINISHED"), &json!(2))
    );
    assert_eq!(files[1]["file_state"], "NOT_USED");
    let first = files[0]["file_id"].as_u64().unwrap();
    let retries = lab.get(&format!("/jobs/{id}/files/{first}/retries")).await.json;
    assert_eq!(retries.as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_one_source_left_does_not_stop_the_next() {
    let lab = Lab::start_with(|config| config.copy.busy_patience = std::time::Duration::from_millis(10)).await;
    let [a, b, d] = [Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"known content of a file");
    b.put("/f", b"known content of a file");
    // The destination keeps half of the file, and lets nobody clear it away until the second source's turn has come.
    d.fault("COPY", "/f", Fault::WritesHalfThenCuts);
    d.fault("DELETE", "/f", Fault::StatusTimes(503, "busy", 1));
    let sources = [a.url("/f"), b.url("/f")];
    let params = json!({ "copy_mode": "pull", "verify_checksum": "both" });
    let id = lab.submit(several(&sources, &d.url("/f"), "orderly"), params).await;
    lab.until(&id, |job| job["files"][0]["file_state"] == "FAILED").await;
    d.heal("COPY", "/f");
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(states(&lab, &id).await, ["FAILED", "FINISHED"]);
    assert_eq!(d.get("/f").unwrap(), b"known content of a file".as_slice());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_no_source_has_fails() {
    let lab = Lab::start().await;
    let [a, b, d] = [Stub::start(), Stub::start(), Stub::start()];
    let sources = [a.url("/f"), b.url("/f")];
    let id = lab
        .submit(several(&sources, &d.url("/f"), "auto"), json!({ "retry": -1 }))
        .await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    assert_eq!(states(&lab, &id).await, ["FAILED", "FAILED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hops_go_one_after_the_other_also_over_a_restart() {
    let mut lab = Lab::start().await;
    let [a, b, c] = [Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"content");
    b.fault("COPY", "/f", Fault::Held);
    let urls = [a.url("/f"), b.url("/f"), c.url("/f")];
    let id = lab
        .submit(hops(&urls), json!({ "multihop": true, "verify_checksum": "both" }))
        .await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    assert_eq!(states(&lab, &id).await, ["ACTIVE", "NOT_USED"]);
    let second = files(&lab, &id).await[1]["file_id"].clone();
    let why = lab.get(&format!("/why/files/{second}")).await;
    assert!(why.text.contains("the hop before it has not arrived"), "{}", why.text);
    lab.down().await;
    b.heal("COPY", "/f");
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(states(&lab, &id).await, ["FINISHED", "FINISHED"]);
    assert_eq!(c.get("/f").unwrap(), b"content".as_slice());
    assert!(b.get("/f").is_some(), "what is on the way stays, as with FTS");
    let job = lab.get(&format!("/jobs/{id}")).await.json;
    assert_eq!(job["job_type"], "H");
    let hashes: Vec<Value> = files(&lab, &id)
        .await
        .iter()
        .map(|file| file["hashed_id"].clone())
        .collect();
    assert_eq!(hashes[0], hashes[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hop_that_fails_fails_the_job() {
    let lab = Lab::start().await;
    let [a, b, c, d] = [Stub::start(), Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"content");
    c.fault("COPY", "/f", Fault::Status(507, "the disk is full"));
    let urls = [a.url("/f"), b.url("/f"), c.url("/f"), d.url("/f")];
    let params = json!({ "multihop": true, "retry": 1, "copy_mode": "pull" });
    let id = lab.submit(hops(&urls), params).await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    assert_eq!(states(&lab, &id).await, ["FINISHED", "FAILED", "NOT_USED"]);
    let files = files(&lab, &id).await;
    assert_eq!(files[1]["retry"], 1, "hops are tried again as any transfer");
    let job = lab.get(&format!("/jobs/{id}")).await.json;
    assert_eq!(
        job["reason"],
        "One or more files failed. Please have a look at the details for more information"
    );
    assert!(d.seen("HEAD", "/f").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_hops_is_cancelled_at_once() {
    let lab = Lab::start().await;
    let [a, b, c] = [Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"content");
    b.fault("COPY", "/f", Fault::Held);
    let urls = [a.url("/f"), b.url("/f"), c.url("/f")];
    let id = lab.submit(hops(&urls), json!({ "multihop": true })).await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    let second = files(&lab, &id).await[1]["file_id"].as_u64().unwrap();
    let one = lab
        .ask("alice", Method::DELETE, &format!("/jobs/{id}/files/{second}"), None)
        .await;
    assert_eq!(
        (one.status, one.message()),
        (
            StatusCode::BAD_REQUEST,
            "Multihop or reuse jobs must be cancelled at once (H)"
        )
    );
    let all = lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(all.json["job_state"], "CANCELED", "{}", all.text);
    assert_eq!(states(&lab, &id).await, ["CANCELED", "CANCELED"]);
    assert_eq!((b.get("/f"), c.get("/f")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_that_wait_for_their_turn_are_cancelled_with_the_job() {
    let lab = Lab::start().await;
    let [a, b, d] = [Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"content");
    b.put("/f", b"content");
    d.fault("COPY", "/f", Fault::Held);
    let sources = [a.url("/f"), b.url("/f")];
    let id = lab.submit(several(&sources, &d.url("/f"), "orderly"), json!({})).await;
    lab.until(&id, |_| !d.seen("COPY", "/f").is_empty()).await;
    let all = lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(all.json["job_state"], "CANCELED", "{}", all.text);
    assert_eq!(states(&lab, &id).await, ["CANCELED", "CANCELED"]);
    assert_eq!(d.get("/f"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_the_way_are_replaced_and_the_last_is_not() {
    let lab = Lab::start().await;
    let [a, b, c] = [Stub::start(), Stub::start(), Stub::start()];
    a.put("/f", b"content");
    b.put("/f", b"an older file on the way");
    let urls = [a.url("/f"), b.url("/f"), c.url("/f")];
    let params = json!({ "multihop": true, "overwrite_hop": true, "retry": -1 });
    let id = lab.submit(hops(&urls), params.clone()).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(c.get("/f").unwrap(), b"content".as_slice());
    let job = lab.get(&format!("/jobs/{id}")).await.json;
    assert_eq!(job["overwrite_flag"], "M");

    c.put("/f", b"somebody's file");
    let id = lab.submit(hops(&urls), params).await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    assert_eq!(states(&lab, &id).await, ["FINISHED", "FAILED"]);
    let reason = files(&lab, &id).await[1]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("Destination file exists and overwrite is not enabled"),
        "{reason}"
    );
    assert_eq!(c.get("/f").unwrap(), b"somebody's file".as_slice());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_at_a_taken_destination_is_reported() {
    let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
    a.put("/f", b"content");
    b.put("/f", b"another file");
    let file =
        json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")], "metadata": { "request_id": "82aa" } }]);
    let id = lab
        .submit(file.clone(), json!({ "dst_file_report": true, "retry": -1 }))
        .await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    let metadata = files(&lab, &id).await[0]["file_metadata"].clone();
    assert_eq!(metadata["request_id"], "82aa");
    let expected = json!({
        "file_size": 12, "checksum_type": "ADLER32", "checksum_value": adler32(b"another file"),
        "file_on_disk": true, "file_on_tape": false
    });
    assert_eq!(metadata["dst_file"], expected);
    let job = lab.get(&format!("/jobs/{id}")).await.json;
    assert_eq!(job["dst_file_report"], true);

    let id = lab.submit(file, json!({ "retry": -1 })).await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    assert_eq!(
        files(&lab, &id).await[0]["file_metadata"],
        json!({ "request_id": "82aa" })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdue_file_is_cancelled_with_all_its_sources() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let [a, b, d] = [Stub::start(), Stub::start(), Stub::start()];
    let sources = [a.url("/f"), b.url("/f")];
    let params = json!({ "max_time_in_queue": "1s" });
    let several = lab.submit(several(&sources, &d.url("/f"), "auto"), params).await;
    let params = json!({ "max_time_in_queue": "1s", "multihop": true });
    let hops = lab.submit(hops(&[a.url("/f"), b.url("/f"), d.url("/f")]), params).await;
    for id in [several, hops] {
        assert_eq!(lab.wait(&id).await, "CANCELED");
        assert_eq!(states(&lab, &id).await, ["CANCELED", "CANCELED"]);
    }
}
