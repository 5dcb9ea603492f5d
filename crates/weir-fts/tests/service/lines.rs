//! FTS3's interface line by line: behaviour that clients rely on and that no other test covers.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use weir_transfer::config::{AdminConfig, Level};

use crate::lab::{Answer, Lab};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

async fn quiet() -> Lab {
    Lab::start_with(|config| {
        config.limits.link = 0;
        config.user_level = Level::Private;
    })
    .await
}

fn file(name: &str) -> Value {
    json!({ "sources": [format!("https://a.example.org/{name}")], "destinations": [format!("https://b.example.org/{name}")] })
}

async fn delete(lab: &Lab, user: &str, path: &str) -> Answer {
    lab.ask(user, Method::DELETE, path, None).await
}

/// Clients read `http_status` of each job, and the status of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn ended_jobs_are_not_modified_and_missing_ones_are_reported_in_place() {
    let lab = quiet().await;
    let (one, two) = (
        lab.submit(json!([file("1")]), json!({})).await,
        lab.submit(json!([file("2")]), json!({})).await,
    );
    let first = delete(&lab, "alice", &format!("/jobs/{one}")).await;
    assert_eq!(
        (first.status, &first.json["http_status"]),
        (StatusCode::OK, &json!("200 Ok"))
    );
    let again = delete(&lab, "alice", &format!("//jobs//{one}")).await;
    assert_eq!(
        (again.status, &again.json["job_state"]),
        (StatusCode::OK, &json!("CANCELED"))
    );
    assert_eq!(again.json["http_status"], "304 Not Modified");
    assert_eq!(again.json["http_message"], "The job is in a terminal state");
    let several = delete(&lab, "alice", &format!("/jobs/{one},{two},{UNKNOWN}")).await;
    assert_eq!(several.status, StatusCode::MULTI_STATUS);
    let statuses: Vec<_> = several
        .json
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["http_status"].clone())
        .collect();
    assert_eq!(statuses, ["304 Not Modified", "200 Ok", "404 Not Found"]);
    let ended = lab.get(&format!("/jobs/{one}")).await.json;
    for key in ["submit_time", "job_finished"] {
        let time = ended[key].as_str().unwrap();
        assert!(
            jiff::civil::DateTime::strptime("%Y-%m-%dT%H:%M:%S", time).is_ok() && time.len() == 19,
            "{time}"
        );
    }
    assert_eq!(ended["reason"], "Job canceled by the user");
    assert_eq!(ended["cancel_job"], true);

    let three = lab.submit(json!([file("3"), file("4")]), json!({})).await;
    let files = lab.get(&format!("/jobs/{three}/files")).await.json;
    let ids = [&files[0]["file_id"], &files[1]["file_id"]];
    let path = |rest: &str| format!("/jobs/{three}/files/{rest}");
    assert_eq!(
        delete(&lab, "alice", &path(&ids[0].to_string())).await.json,
        json!("CANCELED")
    );
    let both = delete(&lab, "alice", &path(&format!("{},{},7777777", ids[0], ids[1]))).await;
    assert_eq!(
        both.json,
        json!(["CANCELED", "CANCELED", "File does not belong to the job"])
    );
    let reuse = lab.submit(json!([file("5")]), json!({ "reuse": true })).await;
    let refused = delete(&lab, "alice", &format!("/jobs/{reuse}/files/1")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        refused.message(),
        "Multihop or reuse jobs must be cancelled at once (Y)"
    );
    for rest in ["", "/files", "/dm", "/job_state", "/files/1/retries"] {
        let answer = lab.get(&format!("/jobs/{UNKNOWN}{rest}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{rest}: {}", answer.text);
        assert!(answer.text.contains(UNKNOWN), "{rest}: {}", answer.text);
    }
    let retries = lab.get(&format!("/jobs/{one}/files/{}/retries", ids[0])).await;
    assert_eq!(
        retries.status,
        StatusCode::NOT_FOUND,
        "another job's file: {}",
        retries.text
    );
}

/// Rucio changes priorities; a number outside the range must not be an error.
#[tokio::test(flavor = "multi_thread")]
async fn priorities_are_clamped_and_changed_in_bulk() {
    let lab = quiet().await;
    let one = lab.submit(json!([file("1")]), json!({ "priority": 99 })).await;
    let two = lab.submit(json!([file("2")]), json!({ "priority": -7 })).await;
    let priority = async |id: &str| lab.get(&format!("/jobs/{id}/priority")).await.json;
    assert_eq!((priority(&one).await, priority(&two).await), (json!(5), json!(1)));
    let set = async |ids: &str, priority: Value| {
        let body = json!({ "params": { "priority": priority } });
        lab.ask("alice", Method::POST, &format!("/jobs/{ids}"), Some(&body))
            .await
    };
    let changed = set(&format!("{one},{two}"), json!(0)).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.text);
    assert_eq!((priority(&one).await, priority(&two).await), (json!(1), json!(1)));
    assert_eq!(
        set(&format!("{one},{UNKNOWN}"), json!(4)).await.status,
        StatusCode::MULTI_STATUS
    );
    assert_eq!(set(UNKNOWN, json!(4)).await.status, StatusCode::NOT_FOUND);
    for wrong in [json!("urgent"), json!([1]), json!(1.5)] {
        assert_eq!(set(&one, wrong).await.status, StatusCode::BAD_REQUEST);
    }
    let bob = lab
        .ask(
            "bob",
            Method::POST,
            &format!("/jobs/{one}"),
            Some(&json!({ "params": { "priority": 5 } })),
        )
        .await;
    assert_eq!(bob.status, StatusCode::FORBIDDEN);
    assert_eq!(priority(&one).await, json!(4));
}

/// A user would list or take back another's delegation.
#[tokio::test(flavor = "multi_thread")]
async fn lists_and_mass_cancellation_keep_to_rights() {
    let lab = quiet().await;
    for n in 0..3 {
        lab.submit(json!([file(&n.to_string()), file(&format!("x{n}"))]), json!({}))
            .await;
    }
    let id = lab.get("/whoami").await.json["delegation_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let count = |answer: &Answer| answer.json.as_array().map(Vec::len);
    for (query, expected) in [
        ("", Some(3)),
        ("?", Some(3)),
        ("?limit=2", Some(2)),
        ("?limit=x", Some(3)),
        ("?state_in=SUBMITTED,ACTIVE", Some(3)),
        ("?state_in=NONSENSE", Some(0)),
        ("?state_in=FINISHED", Some(0)),
        (
            "?vo_name=testvo&source_se=https://a.example.org&dest_se=https://b.example.org",
            Some(3),
        ),
        ("?vo_name=other", Some(0)),
        ("?user_dn=alice", Some(3)),
        (&format!("?dlg_id={id}&state_in=SUBMITTED"), Some(3)),
    ] {
        let answer = lab.get(&format!("//jobs{query}")).await;
        assert_eq!(
            (answer.status, count(&answer)),
            (StatusCode::OK, expected),
            "{query}: {}",
            answer.text
        );
    }
    for (query, status) in [
        ("?limit=501", 400),
        ("?limit=-1", 400),
        ("?user_dn=bob", 400),
        ("?dlg_id=0123456789abcdef", 403),
    ] {
        assert_eq!(
            lab.get(&format!("/jobs{query}")).await.status.as_u16(),
            status,
            "{query}"
        );
    }
    for path in ["/jobs/vo/testvo", "/jobs/all"] {
        let refused = delete(&lab, "alice", path).await;
        assert_eq!(
            (refused.status, refused.message()),
            (StatusCode::FORBIDDEN, "User does not have root privileges")
        );
    }
    let none = delete(&lab, "root", "/jobs/vo/other").await.json;
    assert_eq!(
        none,
        json!({ "affected_files": 0, "affected_dm": 0, "affected_jobs": 0 })
    );
    let all = delete(&lab, "root", "/jobs/vo/testvo").await.json;
    assert_eq!(
        all,
        json!({ "affected_files": 6, "affected_dm": 0, "affected_jobs": 3 })
    );
    lab.submit(json!([file("last")]), json!({})).await;
    let all = delete(&lab, "root", "/jobs/all").await.json;
    assert_eq!(
        all,
        json!({ "affected_files": 1, "affected_dm": 0, "affected_jobs": 1 })
    );
}

/// An administrator of a VO's transfers would need the keys to everybody's.
#[tokio::test(flavor = "multi_thread")]
async fn administrators_of_a_vo_see_and_cancel_its_jobs_and_change_no_settings() {
    let lab = Lab::start_with(|config| {
        config.limits.link = 0;
        config.user_level = Level::Private;
        config.admins.push(AdminConfig {
            subject: Some("bob".into()),
            level: Level::Vo,
            ..AdminConfig::default()
        });
    })
    .await;
    let id = lab.submit(json!([file("1")]), json!({})).await;
    let bob = async |method: Method, path: &str| lab.ask("bob", method, path, None).await;
    let me = bob(Method::GET, "/whoami").await.json;
    assert_eq!(
        (&me["level"]["transfer"], &me["is_root"]),
        (&json!("vo"), &json!(false))
    );
    assert_eq!(bob(Method::GET, &format!("/jobs/{id}")).await.status, StatusCode::OK);
    for (query, expected) in [
        ("", 1),
        ("?vo_name=testvo", 1),
        ("?user_dn=alice", 1),
        ("?vo_name=other", 0),
    ] {
        let listed = bob(Method::GET, &format!("/jobs{query}")).await.json;
        assert_eq!(listed.as_array().unwrap().len(), expected, "{query}");
    }
    for (method, path) in [
        (Method::DELETE, "/jobs/all"),
        (Method::DELETE, "/jobs/vo/other"),
        (Method::GET, "/config/audit"),
        (Method::GET, "/ban/dn"),
    ] {
        assert_eq!(bob(method, path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let all = bob(Method::DELETE, "/jobs/vo/testvo").await.json;
    assert_eq!(all["affected_jobs"], 1, "{all}");
    assert_eq!(lab.wait(&id).await, "CANCELED");
}

/// Clients would take a page for JSON, or wait for what is never done here.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_path_is_answered_in_json() {
    let lab = quiet().await;
    for (method, path, status) in [
        (Method::GET, "/api-docs/", 404),
        (Method::GET, "/api-docs/schema", 404),
        (Method::GET, "/cs/registered/dropbox", 404),
        (Method::GET, "/config/cloud_storage", 200),
        (Method::GET, "/config/cloud_storage/s3", 405),
        (Method::DELETE, "/config/cloud_storage/s3/alice", 405),
        (Method::POST, "/config/authorize", 405),
        (Method::PATCH, "/jobs", 405),
        (Method::GET, "/jobs/all/", 404),
        (Method::GET, "/status/hosts/x/y", 404),
        (Method::GET, "/autocomplete/nonsense?term=a", 404),
    ] {
        let body = (method == Method::POST).then(|| json!({}));
        let answer = lab.ask("root", method.clone(), path, body.as_ref()).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text);
        assert!(
            answer.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with("application/json"),
            "{path}"
        );
        if status != 200 {
            let named = answer.json["status"].as_str().unwrap();
            assert!(named.starts_with(&status.to_string()), "{path}: {}", answer.text);
            assert!(!answer.message().is_empty(), "{path}");
        }
    }
    let deletion = json!({ "delete": ["https://a.example.org/f"], "files": [] });
    let refused = lab.ask("alice", Method::POST, "/jobs", Some(&deletion)).await;
    assert_eq!(refused.message(), "Deletion jobs are no longer supported by FTS");
    let head = lab.ask("alice", Method::HEAD, "/jobs", None).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
}

/// The log of changes would grow for ever, or lose what was changed last.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_hundred_changes_are_shown() {
    let lab = quiet().await;
    for n in 0..103 {
        let body = json!({ "*": { "retry": n } });
        let set = lab.ask("root", Method::POST, "/config/global", Some(&body)).await;
        assert_eq!(set.status, StatusCode::OK, "{}", set.text);
    }
    let audit = lab.ask("root", Method::GET, "/config/audit", None).await.json;
    let audit = audit.as_array().unwrap();
    assert_eq!(audit.len(), 100);
    assert!(audit[0]["config"].as_str().unwrap().contains("102"), "{}", audit[0]);
    assert!(
        audit[99]["config"].as_str().unwrap().contains("\"retry\":3"),
        "{}",
        audit[99]
    );
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&audit[0]), keys(&audit[99]));
}
