//! The REST interface: shapes, texts and status codes that clients rely on.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    lab::Lab,
    stub::{Fault, Stub},
};

fn file(a: &Stub, b: &Stub, name: &str) -> Value {
    json!({ "sources": [a.url(name)], "destinations": [b.url(name)], "metadata": { "request_id": name } })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_document_has_numbers_for_versions() {
    let lab = Lab::start().await;
    for path in ["/", "//"] {
        let answer = lab.ask("", Method::GET, path, None).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(
            answer.json["api"]["major"].is_u64() && answer.json["api"]["patch"].is_u64(),
            "{}",
            answer.text
        );
    }
    let schema = lab.ask("", Method::GET, "/api-docs/schema/submit", None).await;
    assert_eq!(schema.json["type"], "object");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_token_is_required() {
    let lab = Lab::start().await;
    let answer = lab.ask("", Method::GET, "/jobs", None).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    assert_eq!(answer.json["status"], "401 Unauthorized");
    let who = lab.ask("alice", Method::GET, "//whoami", None).await;
    assert_eq!(who.status, StatusCode::OK);
    assert_eq!(
        (&who.json["user_dn"], &who.json["vos"]),
        (&json!("alice"), &json!(["testvo"]))
    );
    assert_eq!(who.json["vos_id"][0], "477b9065-8416-5b27-be32-ff1573788e71");
    assert_eq!(who.json["delegation_id"].as_str().unwrap().len(), 16);
    assert_eq!(
        (&who.json["is_root"], &who.json["method"]),
        (&json!(false), &json!("oauth2"))
    );
    assert_eq!(
        lab.ask("root", Method::GET, "/whoami", None).await.json["is_root"],
        true
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_with_every_key_that_clients_read() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    let params = json!({ "job_metadata": { "m": 1 }, "retry": 3, "priority": 4, "overwrite": true, "nostreams": 4 });
    let id = lab.submit(json!([file(&a, &b, "/f")]), params).await;
    let job = lab.get(&format!("//jobs/{id}")).await.json;
    assert_eq!(
        (&job["job_state"], &job["job_type"], &job["priority"]),
        (&json!("SUBMITTED"), &json!("N"), &json!(4))
    );
    assert_eq!(job["job_metadata"], json!({ "m": 1, "auth_method": "oauth2" }));
    assert_eq!(
        (&job["overwrite_flag"], &job["internal_job_params"]),
        (&json!("Y"), &json!("nostreams:4"))
    );
    assert_eq!(
        (&job["source_se"], &job["http_status"]),
        (&json!("http://127.0.0.1"), &json!("200 Ok"))
    );
    assert_eq!(job["submit_time"].as_str().unwrap().len(), 19);
    for key in [
        "reason",
        "vo_name",
        "user_dn",
        "cred_id",
        "job_finished",
        "verify_checksum",
        "max_time_in_queue",
    ] {
        assert!(job.get(key).is_some(), "{key} is missing");
    }
    let files = lab.get(&format!("/jobs/{id}/files")).await.json;
    let shown = &files[0];
    for key in [
        "file_id",
        "staging_start",
        "staging_finished",
        "finish_time",
        "reason",
        "log_file",
        "hashed_id",
        "weir",
    ] {
        assert!(shown.get(key).is_some(), "{key} is missing");
    }
    assert_eq!(shown["file_metadata"], json!({ "request_id": "/f" }));
    let path = format!(
        "/jobs/{id}?files=file_state,dest_surl,finish_time,start_time,reason,source_surl,file_metadata,nonsense"
    );
    let some = &lab.get(&path).await.json["files"][0];
    assert_eq!(some.as_object().unwrap().len(), 7, "{some}");
    assert_eq!(
        (&some["start_time"], &some["file_state"]),
        (&Value::Null, &json!("SUBMITTED"))
    );

    assert_eq!(lab.get(&format!("/jobs/{id}/job_state")).await.json, json!("SUBMITTED"));
    let none = lab.get(&format!("/jobs/{id}/nonsense")).await;
    assert_eq!((none.status, none.message()), (StatusCode::NOT_FOUND, "No such field"));
    assert_eq!(lab.get(&format!("/jobs/{id}/dm")).await.json, json!([]));
    let retries = lab.get(&format!("/jobs/{id}/files/{}/retries", shown["file_id"])).await;
    assert_eq!(retries.json, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_jobs_and_those_of_others_are_told_apart() {
    let lab = Lab::start_with(|config| {
        config.limits.link = 0;
        config.user_level = weir_transfer::config::Level::Private;
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    let mine = lab.submit(json!([file(&a, &b, "/f")]), json!({})).await;
    let none = "00000000-0000-0000-0000-000000000000";
    let single = lab.get(&format!("/jobs/{none}")).await;
    assert_eq!(single.status, StatusCode::NOT_FOUND);
    assert_eq!(single.json["http_status"], "404 Not Found");
    assert_eq!(
        single.json["http_message"],
        format!("No job with the id \"{none}\" has been found")
    );

    let both = lab.get(&format!("/jobs/{mine},{none}?files=file_state")).await;
    assert_eq!(both.status, StatusCode::MULTI_STATUS);
    assert_eq!(
        (&both.json[0]["http_status"], &both.json[1]["http_status"]),
        (&json!("200 Ok"), &json!("404 Not Found"))
    );
    assert_eq!(both.json[0]["files"][0]["file_state"], "SUBMITTED");
    assert_eq!(lab.get(&format!("/jobs/{mine},{mine}")).await.status, StatusCode::OK);

    for (path, method) in [
        (format!("/jobs/{mine}"), Method::GET),
        (format!("/jobs/{mine}/files"), Method::GET),
        (format!("/jobs/{mine}"), Method::DELETE),
        (format!("/jobs/{mine}/files/1"), Method::DELETE),
    ] {
        let answer = lab.ask("bob", method, &path, None).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}: {}", answer.text);
    }
    assert_eq!(
        lab.ask("root", Method::GET, &format!("/jobs/{mine}"), None)
            .await
            .status,
        StatusCode::OK
    );
    let listed = |user: &'static str| {
        let lab = &lab;
        async move {
            lab.ask(user, Method::GET, "//jobs?", None)
                .await
                .json
                .as_array()
                .unwrap()
                .len()
        }
    };
    assert_eq!(
        (listed("alice").await, listed("bob").await, listed("root").await),
        (1, 0, 1)
    );
    let cancelled = lab
        .ask("alice", Method::DELETE, &format!("/jobs/{mine},{none}"), None)
        .await;
    assert_eq!(cancelled.status, StatusCode::MULTI_STATUS);
    assert_eq!(cancelled.json[0]["job_state"], "CANCELED");
    let listed = lab
        .get("/jobs?state_in=CANCELED&limit=5&fields=job_id,job_state")
        .await
        .json;
    assert_eq!(listed, json!([{ "job_id": mine, "job_state": "CANCELED" }]));
    assert_eq!(
        lab.get("/jobs?state_in=CANCELED&time_window=1")
            .await
            .json
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_are_refused_with_words() {
    let lab = Lab::start().await;
    let refused = async |body: Value| {
        let answer = lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
        (answer.status.as_u16(), answer.message().to_owned())
    };
    let (status, message) = refused(json!({ "files": [] })).await;
    assert_eq!((status, message.as_str()), (400, "No transfers specified"));
    let (status, message) = refused(json!({ "delete": ["https://a/f"] })).await;
    assert_eq!(
        (status, message.as_str()),
        (405, "Deletion jobs are no longer supported by FTS")
    );
    let files = json!([{ "sources": ["/f"], "destinations": ["https://b/f"] }]);
    let (status, message) = refused(json!({ "files": files })).await;
    assert_eq!(
        (status, message.as_str()),
        (400, "Invalid value within the request: Missing scheme (/f)")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sid_is_taken_once() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    let params = json!({ "id_generator": "deterministic", "sid": "sid-1" });
    let body = json!({ "files": [file(&a, &b, "/f")], "params": params });
    let first = lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!(first.json["job_id"], "0f9499ed-ed7c-5af5-aae6-a92f3cca308f");
    // The same once more: its answer may not have come.
    let second = lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!((second.status, &second.json), (StatusCode::OK, &first.json));
    assert_eq!(lab.get("/jobs").await.json.as_array().unwrap().len(), 1);
    let other = json!({ "files": [file(&a, &b, "/g")], "params": params });
    for (user, body) in [("alice", &other), ("bob", &body)] {
        let third = lab.ask(user, Method::POST, "/jobs", Some(body)).await;
        assert_eq!(
            (third.status, third.message()),
            (StatusCode::CONFLICT, "The sid provided by the user is duplicated"),
            "{user}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sid_is_refused_for_good_only_when_its_job_is_durable() {
    // 409 tells a client that a job holds this sid: it will not submit again. So a job must be there, and it must be the only one.
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    let params = json!({ "id_generator": "deterministic", "sid": "sid-2" });
    let paths = ["/f", "/g", "/h"];
    let bodies = paths.map(|path| json!({ "files": [file(&a, &b, path)], "params": params }));
    let asked = (0..12).map(|n| lab.ask("alice", Method::POST, "/jobs", Some(&bodies[n % bodies.len()])));
    let answers = futures_util::future::join_all(asked).await;
    let mut taken = Vec::new();
    for (n, answer) in answers.iter().enumerate() {
        match answer.status {
            StatusCode::OK => taken.push(n % bodies.len()),
            StatusCode::CONFLICT => {}
            StatusCode::SERVICE_UNAVAILABLE => {
                assert!(answer.headers.contains_key("retry-after"), "{}", answer.text);
            }
            status => panic!("{status}: {}", answer.text),
        }
    }
    taken.dedup();
    assert_eq!(taken.len(), 1, "one of the three submissions is the job: {taken:?}");
    for (n, body) in bodies.iter().enumerate() {
        let expected = if n == taken[0] {
            StatusCode::OK
        } else {
            StatusCode::CONFLICT
        };
        let again = lab.ask("alice", Method::POST, "/jobs", Some(body)).await;
        assert_eq!(again.status, expected, "{}", again.text);
    }
    assert_eq!(lab.get("/jobs").await.json.as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn priority_changes_while_a_job_waits() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    let id = lab.submit(json!([file(&a, &b, "/f")]), json!({})).await;
    let body = json!({ "params": { "priority": 5 } });
    let answer = lab
        .ask("alice", Method::POST, &format!("/jobs/{id}"), Some(&body))
        .await;
    assert_eq!((answer.status, &answer.json["priority"]), (StatusCode::OK, &json!(5)));
    assert_eq!(lab.get(&format!("/jobs/{id}/priority")).await.json, json!(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_for_administrators_and_take_effect_at_once() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"bytes");
    let id = lab.submit(json!([file(&a, &b, "/f")]), json!({})).await;
    let link = json!({
        "symbolicname": "one", "source": "http://127.0.0.1", "destination": "http://127.0.0.1", "max_active": 2, "min_active": 1
    });
    assert_eq!(
        lab.ask("alice", Method::POST, "/config/links", Some(&link))
            .await
            .status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        lab.ask("alice", Method::GET, "/config/se", None).await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        lab.ask("root", Method::POST, "/config/links", Some(&link)).await.status,
        StatusCode::CREATED
    );
    assert_eq!(lab.wait(&id).await, "FINISHED");
    assert_eq!(
        lab.ask("root", Method::GET, "/config/links", None).await.json[0]["max_active"],
        2
    );

    let se = json!({ "http://127.0.0.1": { "se_info": { "inbound_max_active": 7, "site": "X" } } });
    let set = lab.ask("root", Method::POST, "/config/se", Some(&se)).await;
    assert_eq!(set.json[0]["inbound_max_active"], 7, "{}", set.text);
    let metrics = lab.get("/.well-known/weir/metrics").await.text;
    assert!(
        metrics.contains("weir_transfer_se_limit{se=\"http://127.0.0.1\",direction=\"inbound\"} 7"),
        "{metrics}"
    );
    let shown = lab
        .ask("root", Method::GET, "/config/se?se=http://127.0.0.1", None)
        .await
        .json;
    assert_eq!(shown["http://127.0.0.1"]["se_info"]["site"], "X");
    let gone = lab
        .ask("root", Method::DELETE, "/config/se?se=http://127.0.0.1", None)
        .await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_says_so() {
    let lab = Lab::start_with(|config| {
        config.limits.link = 0;
        config.limits.queue = 1;
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    lab.submit(json!([file(&a, &b, "/f")]), json!({})).await;
    let body = json!({ "files": [file(&a, &b, "/g")] });
    let answer = lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        answer.headers.contains_key("retry-after") && answer.message().contains("queued"),
        "{}",
        answer.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_that_floods_the_queue_is_slowed_down_and_others_work() {
    let mut lab = Lab::start_with(|config| {
        config.limits.link = 0;
        config.limits.queues.client.depth = Some(2);
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    let body = json!({ "files": [file(&a, &b, "/f")] });
    let submit = async |lab: &Lab, user: &str| lab.ask(user, Method::POST, "/jobs", Some(&body)).await;
    let first = submit(&lab, "alice").await.json["job_id"].as_str().unwrap().to_owned();
    assert_eq!(submit(&lab, "alice").await.status, StatusCode::OK);
    lab.down().await;
    lab.up().await;
    // The content of the store is brought back in the background.
    let waits = async || lab.get("/.well-known/weir/queue").await.json[0]["depth"] == 2;
    while !waits().await {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let full = submit(&lab, "alice").await;
    assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS, "{}", full.text);
    assert_eq!(full.headers["retry-after"], "60");
    assert!(full.message().contains("beyond its limit of 2"), "{}", full.text);
    assert_eq!(submit(&lab, "bob").await.status, StatusCode::OK);
    let queues = lab.get("/.well-known/weir/queue").await.json;
    let of = |kind: &str| {
        queues
            .as_array()
            .unwrap()
            .iter()
            .find(|queue| queue["kind"] == kind)
            .cloned()
    };
    let own = of("client").unwrap();
    assert_eq!((&own["depth"], &own["depth_limit"]), (&json!(2), &json!(2)));
    assert_eq!(of("vo").unwrap()["depth"], 3);
    assert_eq!(queues.as_array().unwrap().len(), 3, "{queues}");
    let metrics = lab.get("/.well-known/weir/metrics").await.text;
    assert!(metrics.contains("weir_transfer_vo_depth{vo=\"testvo\"} 3"), "{metrics}");
    lab.ask("alice", Method::DELETE, &format!("/jobs/{first}"), None).await;
    assert_eq!(submit(&lab, "alice").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_query_of_a_url_is_shown_to_its_owner_alone() {
    let lab = Lab::start_with(|config| config.limits.link = 0).await;
    let (a, b) = (Stub::start(), Stub::start());
    let mut secret = file(&a, &b, "/f?authz=S3CRET");
    secret["metadata"] = Value::Null;
    let id = lab.submit(json!([secret]), json!({})).await;
    for path in [
        format!("/jobs/{id}/files"),
        format!("/jobs/{id}?files=source_surl,dest_surl"),
        "/files".into(),
    ] {
        assert!(lab.get(&path).await.text.contains("S3CRET"), "{path}");
        let other = lab.ask("root", Method::GET, &path, None).await;
        assert!(
            other.text.contains("/f?") && !other.text.contains("S3CRET"),
            "{path}: {}",
            other.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_methods_and_bodies_are_refused_in_json() {
    let lab = Lab::start().await;
    assert_eq!(lab.get("/nonsense").await.status, StatusCode::NOT_FOUND);
    let wrong = lab.ask("alice", Method::DELETE, "/jobs", None).await;
    assert_eq!(
        (wrong.status, &wrong.json["status"]),
        (StatusCode::METHOD_NOT_ALLOWED, &json!("405 Method Not Allowed"))
    );
    let bare = lab.ask("alice", Method::POST, "/jobs", None).await;
    assert_eq!(bare.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        lab.ask("", Method::GET, "/.well-known/weir/health", None).await.json["status"],
        "ok"
    );
}

/// Two transfers would be paid for, and the later one fail because the file is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_destination_is_written_to_by_one_transfer_of_a_vo_that_wants_it() {
    let lab = Lab::start_with(|config| {
        config.limits.check_duplicates = vec!["testvo".into()];
        config.limits.link = 1;
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"known content");
    b.fault("COPY", "/f", Fault::Held);
    let file = json!({ "sources": [a.url("/f")], "destinations": [b.url("/f")] });
    let first = lab.submit(json!([file]), json!({})).await;
    let body = json!({ "files": [file] });
    let again = lab.ask("bob", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    assert!(
        again.message().starts_with("The submission is duplicated"),
        "{}",
        again.text
    );
    assert!(again.message().contains(&b.url("/f")), "{}", again.text);
    b.heal("COPY", "/f");
    b.release();
    assert_eq!(lab.wait(&first).await, "FINISHED");
    let overwrite = json!({ "files": [file], "params": { "overwrite": true } });
    let later = lab.ask("bob", Method::POST, "/jobs", Some(&overwrite)).await;
    assert_eq!(later.status, StatusCode::OK, "{}", later.text);
}
