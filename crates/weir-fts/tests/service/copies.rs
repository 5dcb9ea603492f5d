//! Copies that work, in every mode and around every corner.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    lab::Lab,
    stub::{Fault, Stub, adler32},
};

const BYTES: &[u8] = b"known content of a file";

struct Pair {
    lab: Lab,
    a: Stub,
    b: Stub,
}

async fn pair() -> Pair {
    let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
    a.put("/f", BYTES);
    Pair { lab, a, b }
}

impl Pair {
    async fn copy(&self, params: Value) -> Value {
        self.lab.transfer(&self.a.url("/f"), &self.b.url("/f"), params).await
    }

    /// The answer of `/why/link` about modes.
    async fn given_up(&self) -> Vec<Value> {
        let here = "http://127.0.0.1";
        let path = format!("/why/link?source_se={here}&dest_se={here}");
        let shown = self.lab.get(&path).await.json;
        shown["modes_given_up"]
            .as_array()
            .unwrap_or_else(|| panic!("{shown}"))
            .clone()
    }

    /// One more file of the pair: the mode it was copied in.
    async fn mode_of_next(&self, name: &str, params: Value) -> String {
        self.a.put(name, BYTES);
        let file = self.lab.transfer(&self.a.url(name), &self.b.url(name), params).await;
        assert_eq!(file["file_state"], "FINISHED", "{file}");
        file["weir"]["mode"].as_str().unwrap().to_owned()
    }

    /// The file finished by this mode, and its bytes are there.
    async fn copies_by(&self, mode: &str, params: Value) -> Value {
        let file = self.copy(params).await;
        assert_eq!(file["file_state"], "FINISHED", "{file}");
        assert_eq!(file["weir"]["mode"], mode, "{file}");
        assert_eq!(self.b.get("/f").unwrap(), BYTES);
        file
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_is_verified_and_tells_what_it_did() {
    let pair = pair().await;
    let params =
        json!({ "verify_checksum": "both", "checksum": format!("ADLER32:{}", adler32(BYTES)), "filesize": 23 });
    let file = pair.copies_by("pull", params).await;
    assert_eq!(file["filesize"], 23);
    assert_eq!(file["reason"], Value::Null);
    assert_eq!(
        (&file["weir"]["bytes_moved"], &file["weir"]["attempts"]),
        (&json!(23), &json!(1))
    );
    assert!(file["weir"]["finished_ms"].as_i64().unwrap() >= file["weir"]["started_ms"].as_i64().unwrap());
    assert_eq!(file["start_time"].as_str().unwrap().len(), "2026-11-21T11:03:03".len());
    let copy = &pair.b.seen("COPY", "/f")[0];
    assert_eq!(copy.headers["credential"], "none");
    assert_eq!(copy.headers["overwrite"], "F");
    assert_eq!(copy.headers["source"], pair.a.url("/f").as_str());
    assert!(copy.headers["authorization"].to_str().unwrap().starts_with("Bearer "));
    assert!(
        copy.headers["transferheaderauthorization"]
            .to_str()
            .unwrap()
            .starts_with("Bearer ")
    );
    assert!(copy.headers.contains_key("x-number-of-streams"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_beyond_every_clock_is_no_timeout() {
    // One submission would take down the task that carries it out, and the transfer would never end.
    for mode in ["pull", "push", "streamed"] {
        let pair = pair().await;
        pair.copies_by(mode, json!({ "copy_mode": mode, "timeout": i64::MAX }))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_mode_is_the_only_one() {
    for mode in ["pull", "push", "streamed"] {
        let pair = pair().await;
        pair.copies_by(mode, json!({ "copy_mode": mode, "verify_checksum": "both" }))
            .await;
    }
    let pair = pair().await;
    pair.b.fault("COPY", "/f", Fault::Status(405, ""));
    let file = pair.copy(json!({ "copy_mode": "pull", "retry": -1 })).await;
    assert_eq!(
        (&file["file_state"], &file["weir"]["error_class"]),
        (&json!("FAILED"), &json!("protocol"))
    );
    assert!(pair.a.seen("COPY", "/f").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_learns_its_mode_from_refusals_of_the_mode_alone() {
    // One job that demands a mode, a full disk or a moment of trouble would have all later transfers of everybody pass through this service.
    let pair = pair().await;
    for (number, fault) in [
        Fault::Status(500, "internal trouble"),
        Fault::Status(504, ""),
        Fault::Says("failure: could not connect to a.example.org\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("/trouble{number}");
        pair.b.fault("COPY", &name, fault);
        assert_eq!(pair.mode_of_next(&name, json!({})).await, "push", "{name}");
        assert_eq!(pair.mode_of_next(&format!("/after{number}"), json!({})).await, "pull");
    }
    for (number, fault) in [
        Fault::StatusTimes(507, "no space left", 1),
        Fault::SaysTimes("failure: checksum mismatch\n", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("/again{number}");
        pair.b.fault("COPY", &name, fault);
        let params = json!({ "retry": 2, "retry_delay": 1 });
        assert_eq!(
            pair.mode_of_next(&name, params).await,
            "pull",
            "{name}: a retry changes no mode"
        );
    }
    for mode in ["streamed", "push"] {
        let name = format!("/{mode}");
        assert_eq!(pair.mode_of_next(&name, json!({ "copy_mode": mode })).await, mode);
        assert_eq!(pair.mode_of_next(&format!("/free-{mode}"), json!({})).await, "pull");
    }
    assert!(pair.given_up().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_was_refused_is_tried_again_later() {
    // A storage that learns to pull would be pushed to until the next restart of this service.
    let lab = Lab::start_with(|config| config.copy.mode_patience = std::time::Duration::from_secs(1)).await;
    let pair = Pair {
        lab,
        a: Stub::start(),
        b: Stub::start(),
    };
    pair.b.fault("COPY", "/first", Fault::Status(405, ""));
    assert_eq!(pair.mode_of_next("/first", json!({})).await, "push");
    assert_eq!(pair.given_up().await[0]["mode"], "pull");
    for number in 0.. {
        if pair.mode_of_next(&format!("/{number}"), json!({})).await == "pull" {
            break;
        }
        assert!(number < 1000, "it is never tried again");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(pair.given_up().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_without_third_party_copies_is_told_from_a_missing_file() {
    // An Apache answers an order to pull with 404: transfers to it failed with "check the path at the destination".
    let pair = pair().await;
    // A file that is in no mode there teaches nothing.
    pair.b.fault("COPY", "/gone", Fault::Status(404, ""));
    pair.a.put("/gone", BYTES);
    pair.a.fault("COPY", "/gone", Fault::Status(404, ""));
    pair.a.fault("GET", "/gone", Fault::Status(404, ""));
    let gone = pair
        .lab
        .transfer(&pair.a.url("/gone"), &pair.b.url("/gone"), json!({ "retry": -1 }))
        .await;
    assert_eq!(
        (&gone["file_state"], &gone["weir"]["error_class"]),
        (&json!("FAILED"), &json!("not-found")),
        "{gone}"
    );
    assert!(pair.given_up().await.is_empty());

    pair.b.fault("COPY", "/f", Fault::Status(404, "Not Found"));
    pair.copies_by("push", json!({ "verify_checksum": "both" })).await;
    assert_eq!(pair.mode_of_next("/g", json!({})).await, "push");
    assert!(pair.b.seen("COPY", "/g").is_empty(), "it is not asked again");
    let given_up = pair.given_up().await;
    let told: Vec<&str> = given_up.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    let reason = "the storage makes no third-party copies: it answered COPY with HTTP 404";
    assert!(told.contains(&reason), "{given_up:?}");
    // Nor is it asked to push, or by another storage.
    let c = Stub::start();
    pair.b.put("/h", BYTES);
    let out = pair.lab.transfer(&pair.b.url("/h"), &c.url("/h"), json!({})).await;
    assert_eq!(out["weir"]["mode"], "pull", "{out}");
    c.put("/i", BYTES);
    let other = pair.lab.transfer(&c.url("/i"), &pair.b.url("/i"), json!({})).await;
    assert_eq!(other["weir"]["mode"], "push", "{other}");
    assert!(pair.b.seen("COPY", "/i").is_empty());
    pair.b.put("/j", BYTES);
    let forced = pair
        .lab
        .transfer(
            &pair.b.url("/j"),
            &c.url("/j"),
            json!({ "copy_mode": "push", "retry": -1 }),
        )
        .await;
    let reason = forced["reason"].as_str().unwrap();
    assert!(reason.contains("makes no third-party copies"), "{forced}");
    assert!(pair.b.seen("COPY", "/j").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_became_a_copy_within_the_source_is_no_verdict() {
    // A web server that disregards the host in `Destination` says 201 or 204: the file never left it.
    let pair = pair().await;
    pair.b.fault("COPY", "/f", Fault::Status(405, ""));
    pair.a.fault("COPY", "/f", Fault::Status(204, ""));
    pair.copies_by("streamed", json!({ "verify_checksum": "both" })).await;
    assert_eq!(pair.mode_of_next("/g", json!({})).await, "streamed");
    assert!(pair.a.seen("COPY", "/g").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_checksum_decides_where_the_source_reports_none() {
    let pair = pair().await;
    pair.a.fault("HEAD", "/f", Fault::NoDigest);
    let right = format!("ADLER32:{}", adler32(BYTES));
    let with =
        |checksum: &str| json!({ "verify_checksum": "both", "checksum": checksum, "retry": -1, "overwrite": true });
    pair.copies_by("pull", with(&right)).await;
    let wrong = pair.copy(with("ADLER32:00000001")).await;
    assert_eq!(wrong["weir"]["error_class"], "checksum", "{wrong}");
    let none = pair
        .copy(json!({ "verify_checksum": "both", "retry": -1, "overwrite": true }))
        .await;
    let reason = none["reason"].as_str().unwrap();
    assert!(
        reason.contains("the source does not report the file's adler32"),
        "{none}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_cannot_pull_is_pushed_to_and_one_without_copies_is_streamed_to() {
    let pair = pair().await;
    pair.b
        .fault("COPY", "/f", Fault::Status(400, "pull is not supported here"));
    pair.copies_by("push", json!({ "verify_checksum": "both" })).await;

    pair.a.put("/g", BYTES);
    let file = pair.lab.transfer(&pair.a.url("/g"), &pair.b.url("/g"), json!({})).await;
    assert_eq!(
        file["weir"]["mode"], "push",
        "that the storage cannot pull is remembered"
    );
    assert!(pair.b.seen("COPY", "/g").is_empty());
    let given_up = pair.given_up().await;
    assert_eq!(given_up.len(), 1, "{given_up:?}");
    assert_eq!(
        (&given_up[0]["mode"], &given_up[0]["credential"], &given_up[0]["reason"]),
        (
            &json!("pull"),
            &json!("token"),
            &json!("a storage answered COPY with HTTP 400")
        )
    );

    pair.a.put("/h", BYTES);
    pair.a.fault("COPY", "/h", Fault::Status(501, ""));
    pair.b.fault("COPY", "/h", Fault::Status(405, ""));
    let file = pair
        .lab
        .transfer(
            &pair.a.url("/h"),
            &pair.b.url("/h"),
            json!({ "verify_checksum": "both" }),
        )
        .await;
    assert_eq!(
        (&file["file_state"], &file["weir"]["mode"]),
        (&json!("FINISHED"), &json!("streamed")),
        "{file}"
    );
    assert_eq!(file["weir"]["bytes_moved"], 23);
    assert_eq!(file["weir"]["counted_bytes"], 23, "its own reads: {file}");
    assert!(file["weir"]["first_byte_ms"].is_u64(), "it saw the first byte: {file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counted_bytes_are_not_a_size_that_was_looked_up() {
    // Wrong: the size of the destination is told as what the service saw moving, and agrees with it whatever has moved.
    let pair = pair().await;
    let verdict = "Perf Marker\n Stripe Index: 0\n Stripe Bytes Transferred: 22\nEnd\nsuccess: Created\n";
    for (said, counted) in [(verdict, json!(22)), ("success: Created\n", Value::Null)] {
        pair.b.fault("COPY", "/f", Fault::Leaves(BYTES, said));
        let file = pair.copies_by("pull", json!({ "overwrite": true })).await;
        assert_eq!(
            (
                &file["weir"]["counted_bytes"],
                &file["weir"]["bytes_moved"],
                &file["filesize"]
            ),
            (&counted, &json!(23), &json!(23)),
            "{file}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_the_first_byte_is_what_the_storage_says() {
    // Wrong: a guess where the storage says nothing, or the time of an attempt that failed.
    let pair = pair().await;
    let marker = "Perf Marker\n Stripe Bytes Transferred: 23\n First Byte: 41\nEnd\n";
    let [good, bad] = ["success: Created\n", "failure: broken\n"].map(|word| &*format!("{marker}{word}").leak());
    for (said, told) in [(good, json!(41)), ("success: Created\n", Value::Null)] {
        pair.b.fault("COPY", "/f", Fault::Leaves(BYTES, said));
        let file = pair.copies_by("pull", json!({ "overwrite": true })).await;
        assert_eq!(file["weir"]["first_byte_ms"], told, "{file}");
    }
    pair.b.fault("COPY", "/f", Fault::Leaves(b"", bad));
    let failed = pair.copy(json!({ "overwrite": true, "retry": 0 })).await;
    assert_eq!(
        (&failed["file_state"], &failed["weir"]["first_byte_ms"]),
        (&json!("FAILED"), &Value::Null),
        "{failed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_states_of_an_attempt_fill_its_life() {
    // Wrong: a state counted twice, a storage's tale taken for time, or a wait that nobody explains shown as none.
    let pair = pair().await;
    for (said, disk, data) in [
        (" Waits: disk=90000\n", true, false),
        (" Waits: disk=3600000000\n", false, true),
        ("", false, true),
    ] {
        let verdict = format!("Perf Marker\n{said} Stripe Bytes Transferred: 23\nEnd\nsuccess: Created\n");
        pair.b.fault("COPY", "/f", Fault::Leaves(BYTES, verdict.leak()));
        let file = pair.copies_by("pull", json!({ "overwrite": true })).await;
        let waits = file["weir"]["waits"].as_object().unwrap();
        let seconds = |state: &str| waits.get(state).map_or(0.0, |time| time.as_f64().unwrap());
        assert_eq!(seconds("disk") > 0.0, disk, "{said} {file}");
        assert!(!data || seconds("data") > 0.0, "{said} {file}");
        assert!(seconds("look") > 0.0 && seconds("verify") > 0.0, "{file}");
        let sum: f64 = waits.values().filter_map(Value::as_f64).sum();
        let life = |end: &str, begin: &str| file["weir"][end].as_f64().unwrap() - file["weir"][begin].as_f64().unwrap();
        // The attempt starts when its record is durable, so its clock may begin a little before that time.
        let life = life("finished_ms", "submitted_ms") / 1e3;
        assert!(sum > 0.0 && sum <= life + 0.002, "{sum} of {life}: {file}");
    }
    let links = pair.lab.get("/why/waits").await.json;
    let link = &links[0];
    assert_eq!(link["source_se"], "http://127.0.0.1", "{links}");
    let total = |state: &str| -> f64 {
        let waits = link["waits"].as_array().unwrap().iter();
        waits
            .filter(|wait| wait["wait"] == state)
            .map(|wait| wait["seconds"].as_f64().unwrap())
            .sum()
    };
    assert!(
        total("look") > 0.0 && total("data") > 0.0 && total("disk") > 0.0,
        "{links}"
    );
    let disk = link["waits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|wait| wait["wait"] == "disk");
    assert_eq!(disk.unwrap()["place"], "rse-in:http://127.0.0.1", "{links}");
    assert!(link["slot_seconds"].as_f64().unwrap() > 0.0, "{links}");
    let metrics = pair.lab.get("/.well-known/weir/metrics").await.text;
    assert!(metrics.contains(
        "weir_transfer_wait_seconds_total{source=\"http://127.0.0.1\",destination=\"http://127.0.0.1\",state=\"disk\"}"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_is_a_file() {
    for mode in ["pull", "push", "streamed"] {
        let (lab, a, b) = (Lab::start().await, Stub::start(), Stub::start());
        a.put("/empty", b"");
        let params = json!({ "copy_mode": mode, "verify_checksum": "both" });
        let file = lab.transfer(&a.url("/empty"), &b.url("/empty"), params).await;
        assert_eq!(
            (&file["file_state"], &file["filesize"]),
            (&json!("FINISHED"), &json!(0)),
            "{mode} {file}"
        );
        assert_eq!(b.get("/empty").unwrap(), b"".as_slice());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_and_a_circle_is_not() {
    let pair = pair().await;
    let moved = Stub::start();
    moved.put("/real", BYTES);
    pair.a.fault("HEAD", "/f", Fault::Redirect(moved.url("/real")));
    pair.copies_by("pull", json!({ "verify_checksum": "both" })).await;

    pair.a.put("/g", BYTES);
    pair.b.fault("PUT", "/g", Fault::Redirect(moved.url("/g")));
    pair.b.fault("HEAD", "/g", Fault::Redirect(moved.url("/g")));
    let params = json!({ "copy_mode": "streamed", "verify_checksum": "both" });
    let file = pair.lab.transfer(&pair.a.url("/g"), &pair.b.url("/g"), params).await;
    assert_eq!(file["file_state"], "FINISHED", "{file}");
    assert_eq!(moved.get("/g").unwrap(), BYTES);

    pair.a.fault("HEAD", "/h", Fault::Redirect("/h".into()));
    let file = pair
        .lab
        .transfer(&pair.a.url("/h"), &pair.b.url("/h"), json!({ "retry": -1 }))
        .await;
    assert!(file["reason"].as_str().unwrap().contains("redirects"), "{file}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_refuses_to_be_asked_for_checksums_is_asked_without() {
    let pair = pair().await;
    pair.a.fault("HEAD", "/f", Fault::RefusesDigest);
    pair.copies_by(
        "pull",
        json!({ "verify_checksum": "target", "checksum": format!("adler32:{}", adler32(BYTES)) }),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_target_is_asked_again_within_the_attempt() {
    let pair = pair().await;
    pair.b.fault("COPY", "/f", Fault::StatusTimes(423, "locked", 2));
    let file = pair.copies_by("pull", json!({ "retry": -1 })).await;
    assert_eq!(file["weir"]["attempts"], 1);
    assert_eq!(pair.b.seen("COPY", "/f").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_destination_is_replaced_only_on_demand() {
    let pair = pair().await;
    pair.b.put("/f", b"older");
    let file = pair.copy(json!({})).await;
    assert_eq!(
        (&file["file_state"], &file["weir"]["error_class"]),
        (&json!("FAILED"), &json!("exists"))
    );
    assert!(
        file["reason"]
            .as_str()
            .unwrap()
            .contains("Destination file exists and overwrite is not enabled")
    );
    assert_eq!(pair.b.get("/f").unwrap(), b"older".as_slice());
    let file = pair
        .copies_by("pull", json!({ "overwrite": true, "verify_checksum": "both" }))
        .await;
    assert_eq!(file["weir"]["attempts"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_tried_again_and_told() {
    let pair = pair().await;
    pair.b
        .fault("COPY", "/f", Fault::SaysTimes("failure: operation timed out\n", 1));
    pair.a.fault("COPY", "/f", Fault::Status(403, "no pushes"));
    let file = pair.copies_by("pull", json!({ "retry": 5 })).await;
    assert_eq!(file["weir"]["attempts"], 2, "{file}");
    let path = format!(
        "/jobs/{}/files/{}/retries",
        file["job_id"].as_str().unwrap(),
        file["file_id"]
    );
    let retries = pair.lab.get(&path).await.json;
    assert_eq!(retries.as_array().unwrap().len(), 1);
    assert!(
        retries[0]["reason"].as_str().unwrap().contains("operation timed out"),
        "{retries}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_files_of_one_job_all_arrive() {
    let pair = pair().await;
    let files: Vec<Value> = (0..60)
        .map(|n| {
            pair.a.put(&format!("/many/{n}"), format!("content {n}").as_bytes());
            json!({
                "sources": [pair.a.url(&format!("/many/{n}"))],
                "destinations": [pair.b.url(&format!("/many/{n}"))],
                "metadata": { "request_id": n },
            })
        })
        .collect();
    let id = pair
        .lab
        .submit(json!(files), json!({ "verify_checksum": "both" }))
        .await;
    assert_eq!(pair.lab.wait(&id).await, "FINISHED");
    let files = pair
        .lab
        .get(&format!("/jobs/{id}?files=file_state,file_metadata,dest_surl"))
        .await
        .json;
    for (n, file) in files["files"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            (&file["file_state"], &file["file_metadata"]),
            (&json!("FINISHED"), &json!({ "request_id": n }))
        );
        assert_eq!(
            pair.b.get(&format!("/many/{n}")).unwrap(),
            format!("content {n}").as_bytes()
        );
    }
    let metrics = pair.lab.ask("", Method::GET, "/.well-known/weir/metrics", None).await;
    assert_eq!(metrics.status, StatusCode::OK);
    let line = "weir_transfer_finished_total{source=\"http://127.0.0.1\",destination=\"http://127.0.0.1\"} 60";
    assert!(metrics.text.lines().any(|found| found == line), "{}", metrics.text);
    let moved = (0..60).map(|n| format!("content {n}").len()).sum::<usize>();
    assert!(
        metrics.text.contains(&format!(
            "weir_transfer_moved_bytes_total{{source=\"http://127.0.0.1\",destination=\"http://127.0.0.1\"}} {moved}"
        )),
        "{}",
        metrics.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_has_one_writer_however_it_is_spelled() {
    let pair = pair().await;
    pair.b.fault("COPY", "/f", Fault::Held);
    let file = |destination: &str| json!([{ "sources": [pair.a.url("/f")], "destinations": [destination] }]);
    let first = pair.lab.submit(file(&pair.b.url("/f")), json!({})).await;
    pair.lab.until(&first, |_| !pair.b.seen("COPY", "/f").is_empty()).await;
    let other = pair.b.url("/x/..//%66").replace("http://", "dav://");
    let second = pair
        .lab
        .submit(file(&other), json!({ "retry": -1, "overwrite": true }))
        .await;
    assert_eq!(pair.lab.wait(&second).await, "FAILED");
    let reason = pair.lab.get(&format!("/jobs/{second}/files")).await.json[0]["reason"].to_string();
    assert!(reason.contains("another transfer of this service writes"), "{reason}");
    pair.b.release();
    assert_eq!(pair.lab.wait(&first).await, "FINISHED");
}
