//! Work of operators: ban, drain, fix, look.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    lab::{Answer, Lab},
    stub::Stub,
};

const HERE: &str = "http://127.0.0.1";

async fn post(lab: &Lab, path: &str, body: Value) -> Answer {
    lab.ask("root", Method::POST, path, Some(&body)).await
}

async fn look(lab: &Lab, path: &str) -> Value {
    let answer = lab.ask("root", Method::GET, path, None).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    answer.json
}

async fn delete(lab: &Lab, path: &str) {
    let answer = lab.ask("root", Method::DELETE, path, None).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}: {}", answer.text);
}

fn job(a: &Stub, b: &Stub) -> Value {
    json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }])
}

/// A lab where nothing starts by itself.
async fn still() -> (Lab, Stub, Stub) {
    let lab = Lab::start_with(|config| {
        config.limits.link = 0;
        config.user_level = weir_transfer::config::Level::Private;
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    (lab, a, b)
}

async fn reason(lab: &Lab, id: &str) -> Value {
    lab.get(&format!("/jobs/{id}/files")).await.json[0]["reason"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banned_storage_element_loses_its_transfers_and_gets_no_new_ones() {
    let (mut lab, a, b) = still().await;
    let id = lab.submit(job(&a, &b), json!({})).await;
    let ban = json!({ "storage": "http://127.0.0.1:80", "status": "cancel", "timeout": 0, "allow_submit": false });
    let users = lab.ask("alice", Method::POST, "/ban/se", Some(&ban)).await;
    assert_eq!(users.status, StatusCode::FORBIDDEN);
    let affected = post(&lab, "/ban/se", ban).await;
    assert_eq!((affected.status, affected.json), (StatusCode::OK, json!([id])));
    assert_eq!(lab.wait(&id).await, "CANCELED");
    assert_eq!(reason(&lab, &id).await, "Storage banned");
    lab.down().await;
    lab.up().await;
    let body = json!({ "files": job(&a, &b) });
    let refused = lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!(
        (refused.status, refused.message()),
        (StatusCode::FORBIDDEN, "http://127.0.0.1 is banned")
    );
    let listed = look(&lab, "/ban/se").await;
    assert_eq!(
        (
            &listed[0]["se"],
            &listed[0]["status"],
            &listed[0]["admin_dn"],
            &listed[0]["vo"]
        ),
        (&json!(HERE), &json!("CANCEL"), &json!("root"), &Value::Null)
    );
    delete(&lab, "/ban/se?storage=http://127.0.0.1").await;
    assert_eq!(look(&lab, "/ban/se").await, json!([]));
    lab.submit(job(&a, &b), json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_to_a_banned_storage_element_wait_as_long_as_they_may() {
    let (lab, a, b) = still().await;
    let first = lab.submit(job(&a, &b), json!({})).await;
    let ban = json!({ "storage": HERE, "status": "wait", "timeout": 1, "allow_submit": true });
    assert_eq!(post(&lab, "/ban/se", ban).await.json, json!([first]));
    post(&lab, "/config/links", json!({ "symbolicname": "all", "max_active": 5 })).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let second = lab.submit(job(&a, &b), json!({})).await;
    assert_eq!(lab.wait(&first).await, "CANCELED");
    assert_eq!(reason(&lab, &first).await, "Storage banned");
    let why = lab.get(&format!("/why/jobs/{second}")).await.json;
    assert!(why[0]["text"].as_str().unwrap().ends_with("limit 0"), "{why}");
    delete(&lab, "/ban/se?storage=http%3A%2F%2F127.0.0.1").await;
    assert_eq!(lab.wait(&second).await, "FINISHED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_of_one_vo_leaves_the_others_alone() {
    let (lab, a, b) = still().await;
    post(&lab, "/ban/se", json!({ "storage": HERE, "vo_name": "othervo" })).await;
    lab.submit(job(&a, &b), json!({})).await;
    post(&lab, "/ban/se", json!({ "storage": HERE, "vo_name": "testvo" })).await;
    let body = json!({ "files": job(&a, &b) });
    let refused = lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(look(&lab, "/ban/se").await.as_array().unwrap().len(), 2);
    delete(&lab, "/ban/se?storage=http://127.0.0.1").await;
    assert_eq!(look(&lab, "/ban/se").await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banned_user_is_out_until_unbanned() {
    let (lab, a, b) = still().await;
    let id = lab.submit(job(&a, &b), json!({})).await;
    let own = post(&lab, "/ban/dn", json!({ "user_dn": "root" })).await;
    assert_eq!(own.status, StatusCode::CONFLICT);
    let affected = post(&lab, "/ban/dn", json!({ "user_dn": "alice", "message": "Talk to us." })).await;
    assert_eq!(affected.json, json!([id]), "{}", affected.text);
    let refused = lab.get("/jobs").await;
    assert_eq!(
        (refused.status, refused.message()),
        (StatusCode::FORBIDDEN, "The user is banned. Talk to us.")
    );
    assert_eq!(lab.ask("bob", Method::GET, "/jobs", None).await.status, StatusCode::OK);
    assert_eq!(look(&lab, "/ban/dn").await[0]["dn"], "alice");
    delete(&lab, "/ban/dn?user_dn=alice").await;
    assert_eq!(lab.wait(&id).await, "CANCELED");
    assert_eq!(reason(&lab, &id).await, "User banned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_drains_starts_nothing_and_loses_nothing() {
    let mut lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    let host = look(&lab, "/config").await[0]["hostname"].clone();
    let refused = post(&lab, "/config/drain", json!({ "hostname": "elsewhere", "drain": true })).await;
    assert_eq!(
        (refused.status, refused.message()),
        (StatusCode::BAD_REQUEST, "Host not found")
    );
    let drained = post(&lab, "/config/drain", json!({ "hostname": host, "drain": true })).await;
    assert_eq!(drained.status, StatusCode::OK, "{}", drained.text);
    let id = lab.submit(job(&a, &b), json!({})).await;
    let why = lab.get(&format!("/why/jobs/{id}")).await.json;
    assert_eq!(why[0]["reasons"][0]["reason"], "held", "{why}");
    assert_eq!(look(&lab, "/config").await[0]["drain"], true);
    lab.down().await;
    lab.up().await;
    // Under another port, and so another name.
    let host = look(&lab, "/config").await[0]["hostname"].clone();
    post(&lab, "/config/drain", json!({ "hostname": host, "drain": false })).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_optimiser_is_shown_and_fixed_and_its_links_have_names() {
    let lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    let id = lab.submit(job(&a, &b), json!({})).await;
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(look(&lab, "/optimizer").await, true);
    let fixed = post(
        &lab,
        "/optimizer/current",
        json!({ "source_se": HERE, "dest_se": HERE, "active": 3 }),
    )
    .await;
    assert_eq!(fixed.status, StatusCode::OK, "{}", fixed.text);
    let current = look(&lab, &format!("/optimizer/current?source_se={HERE}")).await;
    assert_eq!(
        (&current[0]["active"], &current[0]["dest_se"]),
        (&json!(3), &json!(HERE))
    );
    assert_eq!(
        look(&lab, "/optimizer/current?dest_se=http://elsewhere").await,
        json!([])
    );
    let links = look(&lab, "/config/links").await;
    assert_eq!(
        (&links[0]["symbolicname"], &links[0]["weir"]),
        (&json!("127.0.0.1-127.0.0.1"), &json!({ "optimiser": 3 }))
    );
    let mut steps = Value::Null;
    for _ in 0..100 {
        steps = look(&lab, "/optimizer/evolution").await;
        if steps[0]["active"] == 3 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert_eq!(
        (&steps[0]["active"], &steps[0]["source_se"]),
        (&json!(3), &json!(HERE)),
        "{steps}"
    );
    assert!(steps[0]["rationale"].is_string());
    assert!(steps[0]["ema"].is_number(), "{steps}");
    let sizes = (&steps[0]["filesize_avg"], &steps[0]["filesize_stddev"]);
    assert_eq!(sizes, (&json!(5.0), &json!(0.0)), "one file of five bytes: {steps}");

    assert_eq!(look(&lab, "/autocomplete/source?term=127").await, json!([HERE]));
    assert_eq!(look(&lab, "/autocomplete/storage?term=nowhere").await, json!([]));
    assert_eq!(look(&lab, "/autocomplete/vo").await, json!(["testvo"]));
    assert_eq!(lab.get("/autocomplete/dn").await.status, StatusCode::FORBIDDEN);
    let hosts = look(&lab, "/status/hosts").await;
    let (host, state) = hosts.as_object().unwrap().iter().next().unwrap();
    assert_eq!(state, &json!({ "active": 0, "staging": 0 }));
    assert_eq!(&look(&lab, &format!("/status/{host}")).await, state);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_archive_has_jobs_that_ended_and_files_are_found_over_all_jobs() {
    let (lab, a, b) = still().await;
    let waiting = lab.submit(job(&a, &b), json!({})).await;
    let ended = lab.submit(job(&a, &b), json!({})).await;
    lab.ask("alice", Method::DELETE, &format!("/jobs/{ended}"), None).await;
    let archived = lab.get("/archive").await.json;
    assert_eq!(archived.as_array().unwrap().len(), 1);
    assert_eq!(archived[0]["job_id"], json!(ended));
    assert_eq!(lab.get(&format!("/archive/{ended}/job_state")).await.json, "CANCELED");
    assert_eq!(
        lab.get(&format!("/archive/{waiting}")).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        lab.ask("bob", Method::GET, &format!("/archive/{ended}"), None)
            .await
            .status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(lab.get("/archive?state_in=ACTIVE").await.json, json!([]));

    let states = |path: &'static str| async {
        let files = lab.get(path).await.json;
        let states = files
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["file_state"].as_str().unwrap().to_owned());
        states.collect::<Vec<_>>()
    };
    assert_eq!(states("/files").await, ["SUBMITTED"]);
    assert_eq!(states("/files?state_in=CANCELED").await, ["CANCELED"]);
    assert_eq!(
        states("/files?state_in=CANCELED,SUBMITTED&dest_se=http://127.0.0.1&limit=1")
            .await
            .len(),
        1
    );
    assert!(states("/files?source_se=http://elsewhere").await.is_empty());
    assert_eq!(lab.get("/files?limit=1001").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(lab.ask("bob", Method::GET, "/files", None).await.json, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_request_is_refused_at_once() {
    let lab = Lab::start().await;
    let root = async |method, path: &str| lab.ask("root", method, path, None).await.status.as_u16();
    assert_eq!(root(Method::GET, "/whoami/certificate").await, 403);
    assert_eq!(look(&lab, "/config/cloud_storage").await, json!([]));
    assert_eq!(root(Method::GET, "/cs/registered/dropbox").await, 404);
}
