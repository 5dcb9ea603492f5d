//! Files that a transfer may delete at its destination: only what it has provably written itself.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::{
    lab::Lab,
    stub::{Fault, Stub},
};

const BYTES: &[u8] = b"known content of a file";
const FOREIGN: &[u8] = b"somebody's";
const STREAMED: &str = "streamed";

async fn lab() -> (Lab, Stub, Stub) {
    let lab = Lab::start_with(|config| {
        config.copy.stall_timeout = Duration::from_secs(5);
        config.copy.response_timeout = Duration::from_secs(20);
        config.copy.busy_patience = Duration::from_millis(10);
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", BYTES);
    (lab, a, b)
}

/// The transfer failed in this class, and nothing was deleted.
fn failed_without_deleting(file: &Value, class: &str, b: &Stub) {
    assert_eq!(
        (&file["file_state"], &file["weir"]["error_class"]),
        (&json!("FAILED"), &json!(class)),
        "{file}"
    );
    assert!(b.seen("DELETE", "/f").is_empty(), "something was deleted: {file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_onto_a_directory_fails_at_once_and_leaves_the_tree() {
    // A DELETE of a collection is recursive: one wrong path in a submission took a whole tree.
    for mode in ["pull", "push", STREAMED] {
        let (lab, a, b) = lab().await;
        b.make_directory("/f");
        b.put("/f/inside", FOREIGN);
        let params = json!({ "overwrite": true, "retry": 2, "copy_mode": mode });
        if mode == STREAMED {
            b.fault("PUT", "/f", Fault::Status(409, "/f is a directory"));
        }
        if mode == "push" {
            a.fault(
                "COPY",
                "/f",
                Fault::Says("failure: destination answered 409: /f is a directory\n"),
            );
        }
        let file = lab.transfer(&a.url("/f"), &b.url("/f"), params).await;
        failed_without_deleting(&file, "exists", &b);
        assert_eq!(file["weir"]["attempts"], 1, "{mode}: {file}");
        assert_eq!(b.get("/f/inside").unwrap(), FOREIGN);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_appears_on_the_way_is_not_deleted() {
    let (lab, a, b) = lab().await;
    b.fault("COPY", "/f", Fault::Held);
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "retry": -1, "copy_mode": "pull" })).await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    b.make_directory("/f");
    b.put("/f/inside", FOREIGN);
    lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
    assert_eq!(lab.wait(&id).await, "CANCELED");
    assert_eq!(b.get("/f/inside").unwrap(), FOREIGN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_wrote_between_two_attempts_stays() {
    let (lab, a, b) = lab().await;
    b.fault(
        "COPY",
        "/f",
        Fault::Says("failure: the source broke off, connection reset\n"),
    );
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let params = json!({ "retry": 3, "retry_delay": 3, "copy_mode": "pull" });
    let id = lab.submit(files, params).await;
    lab.until(&id, |job| {
        job["files"][0]["file_state"] == "SUBMITTED" && job["files"][0]["weir"]["attempts"] == 1
    })
    .await;
    b.put("/f", FOREIGN);
    assert_eq!(lab.wait(&id).await, "FAILED");
    let file = lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    failed_without_deleting(&file, "exists", &b);
    assert_eq!(b.get("/f").unwrap(), FOREIGN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_storage_says_was_there_stays() {
    let (lab, a, b) = lab().await;
    let said = "failure: rejected: destination file exists already\n";
    b.fault("COPY", "/f", Fault::Leaves(FOREIGN, said));
    let file = lab.transfer(&a.url("/f"), &b.url("/f"), json!({ "retry": 2 })).await;
    failed_without_deleting(&file, "exists", &b);
    assert_eq!(b.get("/f").unwrap(), FOREIGN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_provably_ours_stays() {
    let broke = "failure: connection reset by peer\n";
    // As large as the source: another one's whole file, or ours; nobody can say.
    let (lab, a, b) = lab().await;
    b.fault("COPY", "/f", Fault::Leaves(b"23 bytes of other bytes", broke));
    let file = lab
        .transfer(&a.url("/f"), &b.url("/f"), json!({ "retry": -1, "copy_mode": "pull" }))
        .await;
    failed_without_deleting(&file, "network", &b);
    // Without a time nothing says that it is younger than our order.
    b.fault("COPY", "/g", Fault::Leaves(FOREIGN, broke));
    b.fault("HEAD", "/g", Fault::Timeless);
    a.put("/g", BYTES);
    let file = lab
        .transfer(&a.url("/g"), &b.url("/g"), json!({ "retry": -1, "copy_mode": "pull" }))
        .await;
    assert_eq!(file["file_state"], "FAILED", "{file}");
    assert_eq!(b.get("/g").unwrap(), FOREIGN, "{file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overwrite_that_failed_leaves_what_it_found_changed() {
    // The earlier file may have been changed by any writer: it was not free when our order went out.
    let (lab, a, b) = lab().await;
    b.put_aged("/f", b"older", Duration::from_secs(3600));
    b.fault(
        "COPY",
        "/f",
        Fault::Leaves(FOREIGN, "failure: connection reset by peer\n"),
    );
    let params = json!({ "retry": -1, "overwrite": true, "copy_mode": "pull" });
    let file = lab.transfer(&a.url("/f"), &b.url("/f"), params).await;
    failed_without_deleting(&file, "network", &b);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_our_copy_left_is_removed() {
    let (lab, a, b) = lab().await;
    b.fault(
        "COPY",
        "/f",
        Fault::Leaves(b"known con", "failure: connection reset by peer\n"),
    );
    let file = lab
        .transfer(&a.url("/f"), &b.url("/f"), json!({ "retry": -1, "copy_mode": "pull" }))
        .await;
    assert_eq!(file["weir"]["error_class"], "network", "{file}");
    assert_eq!(b.get("/f"), None, "{file}");
    let delete = &b.seen("DELETE", "/f")[0];
    assert!(
        delete.headers.contains_key("if-match"),
        "only what was looked at may go"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_file_without_a_verdict_is_adopted_by_the_next_attempt() {
    let (lab, a, b) = lab().await;
    b.fault("COPY", "/f", Fault::WritesThenCuts);
    let params = json!({ "retry": 3, "verify_checksum": "both" });
    let file = lab.transfer(&a.url("/f"), &b.url("/f"), params).await;
    assert_eq!(
        (&file["file_state"], &file["weir"]["mode"]),
        (&json!("FINISHED"), &json!("adopted")),
        "{file}"
    );
    assert!(b.seen("DELETE", "/f").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_an_older_file_is_not_ours() {
    let (mut lab, a, b) = lab().await;
    b.fault("COPY", "/f", Fault::Held);
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({ "retry": 2 })).await;
    lab.until(&id, |_| !b.seen("COPY", "/f").is_empty()).await;
    lab.down().await;
    // Moved there by its owner: smaller, but written before our order.
    b.put_aged("/f", FOREIGN, Duration::from_secs(600));
    b.heal("COPY", "/f");
    lab.up().await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    let file = lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    failed_without_deleting(&file, "exists", &b);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_copy_leaves_nothing_even_if_it_was_never_answered() {
    for (mode, method) in [(STREAMED, "PUT"), ("pull", "COPY")] {
        let (lab, a, b) = lab().await;
        b.fault(method, "/f", Fault::WritesThenSilent(b"kno"));
        let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
        let id = lab.submit(files, json!({ "copy_mode": mode })).await;
        lab.until(&id, |_| b.get("/f").is_some()).await;
        lab.ask("alice", Method::DELETE, &format!("/jobs/{id}"), None).await;
        assert_eq!(lab.wait(&id).await, "CANCELED");
        assert_eq!(b.get("/f"), None, "{mode}: a part was left behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_out_of_time_leaves_nothing() {
    for (mode, method) in [(STREAMED, "PUT"), ("pull", "COPY")] {
        let (lab, a, b) = lab().await;
        b.fault(method, "/f", Fault::WritesThenSilent(b"kno"));
        let params = json!({ "copy_mode": mode, "timeout": 1, "retry": -1 });
        let file = lab.transfer(&a.url("/f"), &b.url("/f"), params).await;
        assert_eq!(file["weir"]["error_class"], "timeout", "{file}");
        assert_eq!(b.get("/f"), None, "{mode}: a part was left behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_order_is_no_order() {
    // Nothing was written by us: a later file there is another writer's.
    let (lab, a, b) = lab().await;
    b.fault("COPY", "/f", Fault::Status(503, "too many copies"));
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let params = json!({ "retry": 1, "retry_delay": 2, "copy_mode": "pull" });
    let id = lab.submit(files, params).await;
    lab.until(&id, |job| {
        job["files"][0]["file_state"] == "SUBMITTED" && job["files"][0]["weir"]["attempts"] == 1
    })
    .await;
    b.put("/f", FOREIGN);
    assert_eq!(lab.wait(&id).await, "FAILED");
    assert_eq!(b.get("/f").unwrap(), FOREIGN);
}
