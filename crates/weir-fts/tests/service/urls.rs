//! URLs that carry credentials, and the users who see them.

use http::Method;
use serde_json::json;

use crate::{
    events::events,
    lab::Lab,
    stub::{Fault, Stub},
};

const OF_SOURCE: &str = "X-Amz-Signature=needle-aaaa&x=1";
const OF_DESTINATION: &str = "authz=needle%2dbbbb";

fn holds(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

/// Everything that lies in the service's directory: the database, its log, messages that wait.
fn at_rest(lab: &Lab) -> Vec<u8> {
    let mut all = Vec::new();
    let mut folders = vec![lab.directory.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                all.extend(std::fs::read(entry).unwrap_or_default());
            }
        }
    }
    all
}

async fn start() -> Lab {
    Lab::start_with(|config| {
        let folder = config.store.as_ref().unwrap().parent().unwrap().to_owned();
        config.events = Some(events(&folder));
    })
    .await
}

/// A signed URL lets whoever reads it read or write the file: it is for its storages and for who submitted it.
#[tokio::test(flavor = "multi_thread")]
async fn the_query_of_a_url_goes_to_its_storage_and_its_owner_alone() {
    let mut lab = start().await;
    let (a, b) = (Stub::start(), Stub::start());
    for name in ["/f", "/held"] {
        a.put(name, b"known content");
    }
    b.fault("COPY", "/held", Fault::Held);
    let source = |name: &str| format!("{}?{OF_SOURCE}", a.url(name));
    let destination = |name: &str| format!("{}?{OF_DESTINATION}", b.url(name));
    let file = |name| json!({ "sources": [source(name)], "destinations": [destination(name)] });
    let params = json!({ "copy_mode": "pull" });
    let held = lab.submit(json!([file("/held")]), params.clone()).await;
    let done = lab.submit(json!([file("/f")]), params).await;
    assert_eq!(lab.wait(&done).await, "FINISHED");
    lab.until(&held, |job| job["job_state"] == "ACTIVE").await;
    // Also what a restart reads and writes.
    lab.down().await;
    b.heal("COPY", "/held");
    let kept = at_rest(&lab);
    lab.up().await;
    assert_eq!(lab.wait(&held).await, "FINISHED");

    let asked = b.seen("COPY", "/held").pop().unwrap();
    assert_eq!(asked.query.as_deref(), Some(OF_DESTINATION));
    assert_eq!(asked.headers["source"].to_str().unwrap(), source("/held"));
    assert_eq!(a.seen("HEAD", "/f")[0].query.as_deref(), Some(OF_SOURCE));

    let own = lab.get(&format!("/jobs/{held}/files")).await.json[0].clone();
    assert_eq!(own["source_surl"], source("/held"));
    assert_eq!(own["dest_surl"], destination("/held"));
    let own = lab.get(&format!("/jobs/{held}?files=source_surl,dest_surl")).await;
    assert_eq!(own.json["files"][0]["dest_surl"], destination("/held"), "{}", own.text);

    // Every answer that others may ask for, and every file; each place proves by the path that it was looked at.
    let mut places = vec![
        ("the first life's files", kept, "/held"),
        ("files", at_rest(&lab), "/held"),
        (
            "messages",
            std::fs::read(lab.directory.path().join("events.jsonl")).unwrap(),
            "/held?***",
        ),
    ];
    let look = [
        (format!("/jobs/{held}/files"), "/held?***"),
        (format!("/jobs/{held}?files=source_surl,dest_surl,reason"), "/held?***"),
        (format!("/why/jobs/{held}"), "["),
        ("/files?state_in=FINISHED&limit=100".to_owned(), "/held?***"),
        ("/jobs?limit=10&state_in=FINISHED".to_owned(), held.as_str()),
        ("/.well-known/weir/metrics".to_owned(), "weir_transfer"),
    ];
    for (path, proof) in &look {
        let answer = lab.ask("root", Method::GET, path, None).await;
        places.push((path, answer.text.into_bytes(), proof));
    }
    for (place, bytes, proof) in places {
        let text = || String::from_utf8_lossy(&bytes).chars().take(2000).collect::<String>();
        assert!(holds(&bytes, proof), "nothing of {proof} in {place}: {}", text());
        assert!(!holds(&bytes, "needle"), "{place}: {}", text());
    }
}

/// Storages write what they were asked for into their errors, and an error is for everybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_repeats_what_it_was_told_tells_it_to_nobody() {
    let lab = start().await;
    let (a, b) = (Stub::start(), Stub::start());
    for (number, fault) in [("HEAD", 500), ("COPY", 403), ("COPY", 500)].into_iter().enumerate() {
        let name = format!("/f{number}");
        a.put(&name, b"known content");
        let (method, status) = fault;
        b.fault(method, &name, Fault::Echoes(status));
        if method == "HEAD" {
            a.fault(method, &name, Fault::Echoes(status));
        }
        let source = format!("{}?{OF_SOURCE}", a.url(&name));
        let destination = format!("{}?{OF_DESTINATION}", b.url(&name));
        let file = lab
            .transfer(&source, &destination, json!({ "copy_mode": "pull", "retry": 1 }))
            .await;
        assert_eq!(file["file_state"], "FAILED");
        let reason = file["reason"].as_str().unwrap();
        // HEAD has no body to repeat anything in.
        assert!(method == "HEAD" || reason.contains("sorry"), "{reason}");
        assert!(!reason.contains("needle") && !reason.contains("bbbb"), "{reason}");
    }
    assert!(!holds(&at_rest(&lab), "needle"));
}
