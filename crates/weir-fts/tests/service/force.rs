//! `POST /admin/force-start`.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    lab::{Answer, Lab},
    stub::{Fault, Stub},
};

/// A link on which one copy runs at a time, and three files of one job for it; none of their copies ends.
struct Narrow {
    lab: Lab,
    destinations: Vec<Stub>,
    id: String,
    files: Vec<u64>,
    _source: Stub,
}

impl Narrow {
    /// `first`: the administrator's call before the job comes.
    async fn start(first: Option<(&str, Value)>) -> Self {
        let lab = Lab::start_with(|config| config.limits.link = 1).await;
        if let Some((path, body)) = first {
            let done = lab.ask("root", Method::POST, path, Some(&body)).await;
            assert!(done.status.is_success(), "{}", done.text);
        }
        let (source, mut destinations, mut files) = (Stub::start(), Vec::new(), Vec::new());
        source.put("/f", b"bytes");
        for _ in 0..3 {
            let destination = Stub::start();
            destination.fault("COPY", "/f", Fault::Held);
            files.push(json!({ "sources": [source.url("/f")], "destinations": [destination.url("/f")] }));
            destinations.push(destination);
        }
        let id = lab.submit(json!(files), json!({})).await;
        let files = lab.get(&format!("/jobs/{id}/files")).await.json;
        let files = files.as_array().unwrap().iter();
        let files = files.map(|file| file["file_id"].as_u64().unwrap()).collect();
        Self {
            lab,
            destinations,
            id,
            files,
            _source: source,
        }
    }

    /// Lets the copy of a file come to its end, now or later.
    fn end(&self, file: usize) {
        self.destinations[file].heal("COPY", "/f");
        self.destinations[file].release();
    }

    async fn all_end(&self) {
        (0..3).for_each(|file| self.end(file));
        assert_eq!(self.lab.wait(&self.id).await, "FINISHED");
    }

    async fn force(&self, user: &str, body: Value) -> Answer {
        self.lab
            .ask(user, Method::POST, "/admin/force-start", Some(&body))
            .await
    }

    /// Waits until the files are in these states.
    async fn until(&self, states: [&str; 3]) {
        let states = json!(states);
        let now = |job: &Value| {
            let files = job["files"].as_array().unwrap().iter();
            json!(files.map(|file| file["file_state"].clone()).collect::<Vec<_>>())
        };
        self.lab.until(&self.id, |job| now(job) == states).await;
    }

    async fn admin(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let answer = self.lab.ask("root", method, path, body.as_ref()).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        answer.json
    }

    async fn why(&self, file: usize) -> String {
        let why = self.lab.get(&format!("/why/files/{}", self.files[file])).await.json;
        why["text"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_file_starts_past_the_limit_and_the_others_wait_for_it() {
    let narrow = Narrow::start(None).await;
    let [first, second, third] = narrow.files[..] else {
        panic!()
    };
    narrow.until(["ACTIVE", "SUBMITTED", "SUBMITTED"]).await;
    let forced = narrow.force("root", json!([third, first, third, 999_999, -1])).await;
    let refused = |file: i64, error: &str| json!({ "file_id": file, "error": error });
    let not_submitted = "File is not in SUBMITTED state";
    assert_eq!(forced.status, StatusCode::OK, "{}", forced.text);
    assert_eq!(
        forced.json,
        json!([
            refused(first as i64, not_submitted),
            refused(third as i64, not_submitted),
            refused(999_999, "File does not exist"),
            refused(-1, "File does not exist"),
        ])
    );
    narrow.until(["ACTIVE", "SUBMITTED", "ACTIVE"]).await;
    let here = "http://127.0.0.1";
    let link = narrow
        .lab
        .get(&format!("/why/link?source_se={here}&dest_se={here}"))
        .await
        .json;
    assert_eq!((&link["active"], &link["limit"]), (&json!(2), &json!(1)));
    let text = "started by force, as transfer 2 of 1";
    let decisions = link["decisions"].as_array().unwrap();
    assert!(
        decisions
            .iter()
            .any(|told| told["file_id"] == third && told["text"] == text),
        "{link}"
    );
    let audit = narrow.admin(Method::GET, "/config/audit", None).await;
    assert_eq!(
        (&audit[0]["dn"], &audit[0]["action"]),
        (&json!("root"), &json!("force-start"))
    );
    assert_eq!(audit[0]["config"], json!(third.to_string()), "those that were forced");

    // One has ended, and still there is no room.
    narrow.end(0);
    narrow.until(["FINISHED", "SUBMITTED", "ACTIVE"]).await;
    assert!(
        narrow.why(1).await.contains("at its limit 1"),
        "{}",
        narrow.why(1).await
    );
    narrow.end(2);
    narrow.until(["FINISHED", "ACTIVE", "FINISHED"]).await;
    let late = narrow.force("root", json!([second, third])).await.json;
    assert_eq!(
        late,
        json!([
            refused(second as i64, not_submitted),
            refused(third as i64, not_submitted)
        ])
    );
    assert_eq!(
        narrow
            .admin(Method::GET, "/config/audit", None)
            .await
            .as_array()
            .unwrap()
            .len(),
        1
    );
    narrow.all_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_forced_during_a_drain_is_forced_after_a_restart() {
    let drain = |lab: &Lab, drain| json!({ "hostname": lab.host(), "drain": drain });
    let mut narrow = Narrow::start(None).await;
    narrow.until(["ACTIVE", "SUBMITTED", "SUBMITTED"]).await;
    narrow
        .admin(Method::POST, "/config/drain", Some(drain(&narrow.lab, true)))
        .await;
    assert_eq!(narrow.force("root", json!([narrow.files[2]])).await.json, json!([]));
    narrow.until(["ACTIVE", "SUBMITTED", "FORCE_START"]).await;
    let waits = "an administrator has forced its start; an operator holds everything, nothing starts";
    assert_eq!(narrow.why(2).await, waits);
    let again = narrow.force("root", json!([narrow.files[2]])).await.json;
    assert_eq!(again[0]["error"], "File is not in SUBMITTED state");
    assert_eq!(
        narrow.lab.get("/files?state_in=FORCE_START").await.json[0]["file_id"],
        narrow.files[2]
    );
    narrow.end(0);
    narrow.until(["FINISHED", "SUBMITTED", "FORCE_START"]).await;
    narrow.lab.down().await;
    narrow.lab.up().await;
    narrow.until(["FINISHED", "SUBMITTED", "FORCE_START"]).await;
    assert_eq!(narrow.why(2).await, waits);
    narrow
        .admin(Method::POST, "/config/drain", Some(drain(&narrow.lab, false)))
        .await;
    narrow.until(["FINISHED", "SUBMITTED", "ACTIVE"]).await;
    narrow.all_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_is_forced_into_a_banned_storage() {
    let ban = json!({ "storage": "http://127.0.0.1", "status": "wait", "allow_submit": true });
    let narrow = Narrow::start(Some(("/ban/se", ban))).await;
    assert_eq!(narrow.force("root", json!([narrow.files[1]])).await.json, json!([]));
    narrow.until(["SUBMITTED", "FORCE_START", "SUBMITTED"]).await;
    let why = narrow.why(1).await;
    assert!(
        why.starts_with("an administrator has forced its start; destination http://127.0.0.1 at its inbound limit 0"),
        "{why}"
    );
    narrow
        .admin(Method::DELETE, "/ban/se?storage=http://127.0.0.1", None)
        .await;
    narrow.until(["SUBMITTED", "ACTIVE", "SUBMITTED"]).await;
    narrow.all_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_force_and_only_lists_of_files() {
    let narrow = Narrow::start(None).await;
    narrow.until(["ACTIVE", "SUBMITTED", "SUBMITTED"]).await;
    let own = narrow.force("alice", json!([narrow.files[2]])).await;
    assert_eq!(own.status, StatusCode::FORBIDDEN);
    for body in [json!({}), json!(["1"]), json!(vec![1; 1001])] {
        assert_eq!(narrow.force("root", body).await.status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(narrow.force("root", json!([])).await.json, json!([]));
    narrow.until(["ACTIVE", "SUBMITTED", "SUBMITTED"]).await;
    narrow.all_end().await;
}
