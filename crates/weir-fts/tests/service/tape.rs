//! Staging, archive monitoring and pins, against a tape that is slow, refuses and forgets.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    lab::Lab,
    stub::{Fault, Stub},
};

const STAGE: &str = "/api/v1/stage/";

fn one(source: &str, destination: &str) -> Value {
    json!([{ "sources": [source], "destinations": [destination] }])
}

async fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_brought_online_then_copied_and_its_pin_given_back() {
    // A copy of a file that is on tape blocks a mover for hours; a pin that stays fills the buffer for a week.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"from tape");
    source.library().delivers(Some(2));
    let params = json!({ "bring_online": 60, "copy_pin_lifetime": 600 });
    let id = lab.submit(one(&source.url("/f"), &destination.url("/g")), params).await;
    let job = lab.until(&id, |job| job["job_state"] == "STAGING").await;
    assert_eq!(
        (&job["bring_online"], &job["copy_pin_lifetime"]),
        (&json!(60), &json!(600))
    );
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(destination.get("/g").unwrap(), "from tape");
    let file = lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    assert_eq!(file["bringonline_token"], "request-1");
    assert!(
        file["staging_start"].is_string() && file["staging_finished"].is_string(),
        "{file}"
    );
    assert_eq!(file["retry"], 0);
    let asked = source.library().asked();
    assert_eq!(asked, [[json!({ "path": "/f", "diskLifetime": "PT600S" })]]);
    eventually("the pin is given back", || source.library().released() == ["/f"]).await;
    assert!(source.library().cancelled().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn staging_is_no_retry_that_may_overwrite() {
    // The file that the user wanted kept was replaced by the very first copy.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"from tape");
    destination.put("/g", b"to be kept");
    source.library().delivers(Some(1));
    let params = json!({ "bring_online": 60, "overwrite_on_retry": true, "retry": -1 });
    let file = lab.transfer(&source.url("/f"), &destination.url("/g"), params).await;
    assert_eq!(file["file_state"], "FAILED", "{file}");
    assert_eq!(destination.get("/g").unwrap(), "to be kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_does_not_come_fails_with_the_tapes_own_words() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.library().delivers(Some(1));
    source.library().refuses("/f", "no such file on any cartridge");
    let file = lab
        .transfer(&source.url("/f"), &destination.url("/g"), json!({ "bring_online": 60 }))
        .await;
    assert_eq!(file["file_state"], "FAILED");
    let reason = file["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("SOURCE [2]") && reason.contains("no such file on any cartridge"),
        "{reason}"
    );
    assert!(source.seen("COPY", "/f").is_empty() && destination.seen("COPY", "/g").is_empty());
    eventually("the request is taken back", || source.library().released() == ["/f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_does_not_answer_keeps_no_other_pins() {
    // Pins of all other storages would stay for as long as it is asked again and again.
    let (lab, dead, well, destination) = (Lab::start().await, Stub::start(), Stub::start(), Stub::start());
    let params = json!({ "bring_online": 60, "copy_pin_lifetime": 600 });
    for source in [&dead, &well] {
        source.put("/f", b"from tape");
        source.library().delivers(Some(1));
    }
    dead.fault("POST", "/api/v1/release/request-1", Fault::Silent);
    let first = lab
        .submit(one(&dead.url("/f"), &destination.url("/a")), params.clone())
        .await;
    assert_eq!(lab.wait(&first).await, "FINISHED");
    eventually("it is asked", || {
        !dead.seen("POST", "/api/v1/release/request-1").is_empty()
    })
    .await;
    let second = lab.submit(one(&well.url("/f"), &destination.url("/b")), params).await;
    assert_eq!(lab.wait(&second).await, "FINISHED");
    let ended = std::time::Instant::now();
    eventually("the pin is given back", || well.library().released() == ["/f"]).await;
    // The dead one is given 60 s for its answer.
    assert!(ended.elapsed() < Duration::from_secs(30), "{:?}", ended.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_transfers_of_one_file_give_back_both_of_their_pins() {
    // The first one's request would stay pinned for its whole lifetime; or the file go to tape while the other still copies it.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"from tape");
    source.library().delivers(Some(1));
    let params = json!({ "bring_online": 60, "copy_pin_lifetime": 600 });
    destination.fault("COPY", "/a", Fault::Held);
    let first = lab
        .submit(one(&source.url("/f"), &destination.url("/a")), params.clone())
        .await;
    eventually("it is copied", || !destination.seen("COPY", "/a").is_empty()).await;
    let second = lab.submit(one(&source.url("/f"), &destination.url("/b")), params).await;
    assert_eq!(lab.wait(&second).await, "FINISHED");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(source.library().released().is_empty(), "the other still needs it");
    assert_eq!(source.library().asked().len(), 2);
    destination.heal("COPY", "/a");
    destination.release();
    assert_eq!(lab.wait(&first).await, "FINISHED");
    eventually("both pins are given back", || {
        source.library().released() == ["/f", "/f"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_not_give_back_what_another_job_only_brought_online() {
    // A user who wanted the file on disk for a week would not find it there.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"from tape");
    let params = json!({ "bring_online": 60, "copy_pin_lifetime": 600 });
    let url = source.url("/f");
    let keeps = lab.submit(one(&url, &url), params.clone()).await;
    let copies = lab.submit(one(&url, &destination.url("/a")), params).await;
    eventually("both wait", || source.library().polled() > 0).await;
    source.library().delivers(Some(1));
    for job in [&keeps, &copies] {
        assert_eq!(lab.wait(job).await, "FINISHED");
    }
    assert_eq!(source.library().asked().len(), 1);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(source.library().released().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn time_is_over_when_the_job_says() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    let params = json!({ "bring_online": 1, "retry": -1 });
    let file = lab.transfer(&source.url("/f"), &destination.url("/g"), params).await;
    let reason = file["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("SOURCE [110]") && reason.contains("not online within 1 s"),
        "{reason}"
    );
    eventually("the request is taken back", || source.library().cancelled() == ["/f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_may_only_bring_online() {
    // Such a job keeps its pin: to have the file on disk is all it wants.
    let (lab, source) = (Lab::start().await, Stub::start());
    source.library().delivers(Some(1));
    let url = source.url("/f");
    let params = json!({ "bring_online": 60 });
    let id = lab.submit(one(&url, &url), params).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(source.library().asked()[0][0]["diskLifetime"], "PT604800S");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(source.library().released().is_empty() && source.seen("COPY", "/f").is_empty());
    let refused = json!({ "files": one(&url, &url), "params": {} });
    let answer = lab.ask("alice", http::Method::POST, "/jobs", Some(&refused)).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_file_is_taken_back_from_the_tape() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    let files = json!([
        { "sources": [source.url("/a")], "destinations": [destination.url("/a")] },
        { "sources": [source.url("/b")], "destinations": [destination.url("/b")] },
    ]);
    let id = lab.submit(files, json!({ "bring_online": 600 })).await;
    eventually("it is asked for", || source.library().polled() > 0).await;
    let cancelled = lab
        .ask("alice", http::Method::DELETE, &format!("/jobs/{id}"), None)
        .await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(lab.wait(&id).await, "CANCELED");
    eventually("it is taken back", || {
        let mut paths = source.library().cancelled();
        paths.sort();
        paths == ["/a", "/b"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_staging_request_is_withdrawn() {
    // The name of the request is not known yet: the library would bring it online, and keep it there for its lifetime.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.fault("POST", STAGE, Fault::Slow(Duration::from_secs(2)));
    let params = json!({ "bring_online": 600 });
    let id = lab.submit(one(&source.url("/f"), &destination.url("/g")), params).await;
    eventually("it is asked for", || !source.seen("POST", STAGE).is_empty()).await;
    let cancelled = lab
        .ask("alice", http::Method::DELETE, &format!("/jobs/{id}"), None)
        .await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(lab.wait(&id).await, "CANCELED");
    assert!(source.library().asked().is_empty(), "too late");
    eventually("it is taken back", || source.library().cancelled() == ["/f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_files_are_few_requests() {
    // A request and a poll for each file is what tape endpoints fall over.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.library().delivers(Some(2));
    let files = (0..300).map(|n| {
        source.put(&format!("/f{n}"), b"x");
        json!({ "sources": [source.url(&format!("/f{n}"))], "destinations": [destination.url(&format!("/f{n}"))] })
    });
    let id = lab.submit(files.collect(), json!({ "bring_online": 600 })).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    let asked = source.library().asked();
    assert!(asked.len() <= 3, "{} requests", asked.len());
    assert_eq!(asked.iter().map(Vec::len).sum::<usize>(), 300);
    assert!(source.library().polled() <= 9, "{} polls", source.library().polled());
    eventually("all pins are given back", || source.library().released().len() == 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_two_jobs_stage_is_requested_and_released_once() {
    // Some storages let the second request for a file wait for ever behind the first.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"x");
    let job = |to: &str| one(&source.url("/f"), &destination.url(to));
    let params = || json!({ "bring_online": 600 });
    let first = lab.submit(job("/1"), params()).await;
    eventually("it is asked for", || source.library().polled() > 0).await;
    let second = lab.submit(job("/2"), params()).await;
    lab.until(&second, |job| job["files"][0]["file_state"] == "STARTED")
        .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let cancelled = lab
        .ask("alice", http::Method::DELETE, &format!("/jobs/{first}"), None)
        .await;
    assert_eq!(cancelled.status, 200);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(source.library().cancelled().is_empty(), "the second still waits for it");
    source.library().delivers(Some(1));
    assert_eq!(lab.wait(&second).await, "FINISHED");
    assert_eq!(source.library().asked().len(), 1);
    eventually("the last one gives it back", || source.library().released() == ["/f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_polling() {
    let (mut lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"x");
    let id = lab
        .submit(
            one(&source.url("/f"), &destination.url("/g")),
            json!({ "bring_online": 600 }),
        )
        .await;
    eventually("it is asked for", || source.library().polled() > 0).await;
    lab.down().await;
    lab.up().await;
    source.library().delivers(Some(1));
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(source.library().asked().len(), 1, "it was not asked for anew");
    eventually("the pin is given back", || source.library().released() == ["/f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_outlives_the_service() {
    // The endpoint is down when the transfer fails; the service is restarted; the pin is given back all the same.
    let (mut lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.library().delivers(Some(1));
    source.library().refuses("/f", "broken cartridge");
    source.fault("POST", "/api/v1/release/request-1", Fault::Status(503, "later"));
    let params = json!({ "bring_online": 60, "retry": -1 });
    let file = lab.transfer(&source.url("/f"), &destination.url("/g"), params).await;
    assert_eq!(file["file_state"], "FAILED");
    eventually("it is tried", || {
        !source.seen("POST", "/api/v1/release/request-1").is_empty()
    })
    .await;
    lab.down().await;
    source.heal("POST", "/api/v1/release/request-1");
    lab.up().await;
    eventually("the pin is given back", || source.library().released() == ["/f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_forgets_or_stumbles_is_asked_again() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"x");
    source.fault("POST", STAGE, Fault::StatusTimes(429, "too many requests", 1));
    source.fault("GET", "/api/v1/stage/request-1", Fault::StatusTimes(200, "nonsense", 1));
    let id = lab
        .submit(
            one(&source.url("/f"), &destination.url("/g")),
            json!({ "bring_online": 600 }),
        )
        .await;
    eventually("it is asked for", || source.library().polled() > 0).await;
    source.library().forgets();
    source.library().delivers(Some(1));
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(source.library().asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_forgets_every_request_is_not_asked_without_end() {
    // It would be asked twice a second for each of its files, for as long as 'bring_online' says.
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"x");
    source.library().is_forgetful();
    let params = json!({ "bring_online": 600, "retry": -1 });
    let file = lab.transfer(&source.url("/f"), &destination.url("/g"), params).await;
    let reason = file["reason"].as_str().unwrap();
    assert!(reason.starts_with("SOURCE") && reason.contains("request-2"), "{reason}");
    assert_eq!(source.library().asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_without_tape_is_told_at_once() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.fault("GET", "/.well-known/wlcg-tape-rest-api", Fault::Status(404, ""));
    let file = lab
        .transfer(&source.url("/f"), &destination.url("/g"), json!({ "bring_online": 60 }))
        .await;
    let reason = file["reason"].as_str().unwrap();
    assert!(reason.contains("has no tape"), "{reason}");
    // A copy that nobody can watch would be ARCHIVING until its time is over.
    source.put("/f", b"x");
    destination.fault("GET", "/.well-known/wlcg-tape-rest-api", Fault::Status(404, ""));
    let params = json!({ "archive_timeout": 600 });
    let file = lab.transfer(&source.url("/f"), &destination.url("/g"), params).await;
    let reason = file["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("DESTINATION") && reason.contains("has no tape"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_watched_until_it_is_on_tape() {
    // FINISHED says that the file is safe: on disk only, the next clean-up of the buffer takes it.
    let (mut lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"x");
    let id = lab
        .submit(
            one(&source.url("/f"), &destination.url("/g")),
            json!({ "archive_timeout": 600 }),
        )
        .await;
    let job = lab.until(&id, |job| job["job_state"] == "ARCHIVING").await;
    assert_eq!(
        (&job["files"][0]["file_state"], &job["archive_timeout"]),
        (&json!("ARCHIVING"), &json!(600))
    );
    eventually("it is looked at", || destination.library().looked() > 0).await;
    lab.down().await;
    lab.up().await;
    destination.library().archives("/g");
    assert_eq!(lab.wait(&id).await, "FINISHED");
    let file = lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    assert!(
        file["archive_start_time"].is_string() && file["archive_finish_time"].is_string(),
        "{file}"
    );
    assert_eq!((&file["filesize"], &file["transfer_type"]), (&json!(1), &json!("pull")));
    assert_eq!(destination.seen("COPY", "/g").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_never_comes_to_tape_fails() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    source.put("/f", b"x");
    let file = lab
        .transfer(
            &source.url("/f"),
            &destination.url("/g"),
            json!({ "archive_timeout": 1 }),
        )
        .await;
    let reason = file["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("DESTINATION [110]") && reason.contains("not on tape within 1 s"),
        "{reason}"
    );
    assert!(destination.get("/g").is_some(), "what was copied stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_not_on_tape_yet_is_replaced() {
    // A repair may replace a copy in the buffer; a file on tape is an archive.
    let lab = Lab::start().await;
    let (source, destination) = (Stub::start(), Stub::start_encrypted(&lab.authority));
    source.put("/f", b"new");
    for path in ["/disk", "/tape"] {
        destination.put(path, b"old");
    }
    destination.library().archives("/tape");
    let params = || json!({ "overwrite_when_only_on_disk": true, "archive_timeout": 600, "dst_file_report": true });
    let replaced = lab
        .submit(one(&source.url("/f"), &destination.url("/disk")), params())
        .await;
    lab.until(&replaced, |job| job["job_state"] == "ARCHIVING").await;
    assert_eq!(destination.get("/disk").unwrap(), "new");
    let file = lab
        .transfer(&source.url("/f"), &destination.url("/tape"), params())
        .await;
    let reason = file["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("DESTINATION [17]") && reason.contains("is on tape"),
        "{reason}"
    );
    assert_eq!(file["file_metadata"]["dst_file"]["file_on_tape"], true, "{file}");
    assert_eq!(destination.get("/tape").unwrap(), "old");
}

/// Runs a tool of gfal2; gives what it said.
fn gfal(tool: &str, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(format!("/usr/bin/{tool}"));
    let command = command
        .args(arguments)
        .env("PATH", "/usr/bin:/bin")
        .env("GFAL_PYTHONBIN", "/usr/bin/python3");
    let run = command
        .output()
        .expect("gfal2 is needed: scripts/peers.sh installs it; PEERS=no leaves it out");
    let text = [run.stdout, run.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn gfal_takes_the_stub_for_a_tape() {
    // The field's own client must be able to speak to the server that this service is tested with.
    if std::env::var("PEERS").is_ok_and(|peers| peers == "no") {
        return;
    }
    let stub = Stub::start();
    stub.library().delivers(Some(2));
    let url = stub.url("/f");
    let told = tokio::task::spawn_blocking(move || {
        let staged = gfal("gfal-bringonline", &["--polling-timeout", "30", "-t", "60", &url]);
        let evicted = gfal("gfal-evict", &[&url, "request-1"]);
        (staged, gfal("gfal-archivepoll", &[&url]), evicted)
    });
    let (staged, archived, evicted) = told.await.unwrap();
    assert!(
        staged.contains("QUEUED") && staged.trim_end().ends_with("READY"),
        "{staged}"
    );
    assert_eq!(stub.library().asked(), [[json!({ "path": "/f" })]]);
    assert_eq!(stub.library().released(), ["/f"], "{evicted}");
    assert!(archived.contains("QUEUED"), "{archived}");
    stub.library().archives("/f");
    let url = stub.url("/f");
    let archived = tokio::task::spawn_blocking(move || gfal("gfal-archivepoll", &[&url]))
        .await
        .unwrap();
    assert!(archived.contains("READY"), "{archived}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_and_limit_what_waits_for_tape() {
    let (lab, source, destination) = (Lab::start().await, Stub::start(), Stub::start());
    let se = "http://127.0.0.1";
    let body = json!({ se: { "operations": { "testvo": { "staging": 1 } } } });
    let set = lab.ask("root", http::Method::POST, "/config/se", Some(&body)).await;
    assert_eq!(set.status, 200, "{}", set.text);
    let files = (0..3).map(
        |n| json!({ "sources": [source.url(&format!("/f{n}"))], "destinations": [destination.url(&format!("/f{n}"))] }),
    );
    let id = lab.submit(files.collect(), json!({ "bring_online": 600 })).await;
    eventually("it is asked for", || source.library().polled() > 0).await;
    let hosts = lab.get("/status/hosts").await.json;
    let figures = hosts.as_object().unwrap().values().next().unwrap();
    assert_eq!((&figures["active"], &figures["staging"]), (&json!(0), &json!(1)));
    let why = lab.get(&format!("/why/jobs/{id}")).await.json;
    let text = |n: usize| why[n]["text"].as_str().unwrap();
    assert!(text(0).contains("waits for tape"), "{why}");
    assert!(text(1).contains("staging limit 1"), "{why}");
    let metrics = lab.get("/.well-known/weir/metrics").await.text;
    assert!(
        metrics.contains("weir_transfer_staging{se=\"http://127.0.0.1\",vo=\"testvo\"} 1"),
        "{metrics}"
    );
}
