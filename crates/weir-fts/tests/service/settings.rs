//! Settings through REST: at once in effect, durable, taken back, on record.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{lab::Lab, stub::Stub};

const HERE: &str = "http://127.0.0.1";

async fn set(lab: &Lab, path: &str, body: Value) -> Value {
    let answer = lab.ask("root", Method::POST, path, Some(&body)).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
    answer.json
}

async fn look(lab: &Lab, path: &str) -> Value {
    let answer = lab.ask("root", Method::GET, path, None).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    answer.json
}

async fn refused(lab: &Lab, path: &str, body: Value, words: &str) {
    let answer = lab.ask("root", Method::POST, path, Some(&body)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.text);
    assert!(answer.message().contains(words), "{}", answer.text);
}

async fn remove(lab: &Lab, path: &str) {
    let answer = lab.ask("root", Method::DELETE, path, None).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}: {}", answer.text);
}

fn link(extra: &Value) -> Value {
    let mut link = json!({ "symbolicname": "here", "source": HERE, "destination": HERE });
    link.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    link
}

/// A job that cannot finish, because nobody may start; gives its id and its reason.
async fn waiting(lab: &Lab) -> (String, String) {
    let (a, b) = (Stub::start(), Stub::start());
    let files = json!([{ "sources": [a.url("/f")], "destinations": [b.url("/f")] }]);
    let id = lab.submit(files, json!({})).await;
    let why = lab.get(&format!("/why/jobs/{id}")).await;
    assert_eq!(why.status, StatusCode::OK, "{}", why.text);
    (id, why.json[0]["text"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_setting_is_kept_shown_and_taken_back() {
    // An administrator's setting must hold until an administrator takes it back, restarts or not.
    let mut lab = Lab::start().await;
    let sent = link(&json!({ "max_active": 0, "weir": { "target": "10 Gb/s", "rate": "20 Gb/s", "weight": 300 } }));
    set(&lab, "/config/links", sent).await;
    set(
        &lab,
        "/config/links",
        json!({ "symbolicname": "all", "optimizer_mode": 0 }),
    )
    .await;
    let se = json!({ HERE: { "se_info": { "inbound_max_throughput": 100 }, "operations": { "testvo": { "outbound": 3 } } } });
    assert_eq!(
        set(&lab, "/config/se", se).await[1],
        json!({ "testvo": { "outbound": 3 } })
    );
    set(
        &lab,
        "/config/se",
        json!({ "*": { "se_info": { "inbound_max_active": 50 } } }),
    )
    .await;
    let share = json!({ "source": "*", "destination": "*", "vo": "testvo", "share": 30 });
    assert_eq!(set(&lab, "/config/shares", share).await, 30);
    set(
        &lab,
        "/config/activity_shares",
        json!({ "vo": "testvo", "share": [{ "T0": 0.7 }, { "default": 0.3 }] }),
    )
    .await;
    set(&lab, "/config/global", json!({ "*": { "retry": 2, "ageing": "10m" } })).await;
    let group = json!({ "name": "wan", "max_rate": "100 Gb/s", "members": [{ "se": HERE, "direction": "out" }] });
    set(&lab, "/config/weir/groups", group).await;

    let paths = [
        "/config/links",
        "/config/se",
        "/config/shares",
        "/config/activity_shares",
        "/config/global",
        "/config/weir/groups",
        "/config/audit",
    ];
    let mut before = Vec::new();
    for path in paths {
        before.push(look(&lab, path).await);
    }
    lab.down().await;
    lab.up().await;
    for (path, before) in paths.iter().zip(&before) {
        assert_eq!(look(&lab, path).await, *before, "{path}");
    }
    assert_eq!(before[0][1]["weir"]["target"], "10 Gb/s");
    assert_eq!(
        before[3]["testvo"],
        json!({ "share": { "t0": 0.7, "default": 0.3 }, "active": true })
    );
    assert_eq!(before[4]["*"]["ageing"], "10m");
    let newest = &before[6][0];
    assert_eq!((&newest["dn"], &newest["action"]), (&json!("root"), &json!("group")));
    assert_eq!(before[6].as_array().unwrap().len(), 8);

    for path in [
        "/config/links/here",
        "/config/links/all",
        "/config/se?se=http://127.0.0.1:80",
        "/config/se?se=*",
        "/config/shares?source=*&destination=*&vo=testvo",
        "/config/activity_shares/testvo",
        "/config/global?vo_name=*",
        "/config/weir/groups/wan",
    ] {
        remove(&lab, path).await;
    }
    for path in &paths[..6] {
        let left = look(&lab, path).await;
        assert!(left == json!([]) || left == json!({}), "{path}: {left}");
    }
    let gone = lab.ask("root", Method::DELETE, "/config/links/here", None).await;
    assert_eq!(
        (gone.status, gone.message()),
        (StatusCode::NOT_FOUND, "Link here does not exist")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_wait_is_named_and_ends_with_its_cause() {
    let lab = Lab::start_with(|config| {
        config.limits.link = 7;
        config.user_level = weir_transfer::config::Level::Private;
    })
    .await;
    set(&lab, "/config/links", link(&json!({ "max_active": 0 }))).await;
    let (id, why) = waiting(&lab).await;
    assert_eq!(why, format!("link {HERE}→{HERE} at its limit 0"));
    let of_link = lab
        .get(&format!("/why/link?source_se={HERE}&dest_se={HERE}:80"))
        .await
        .json;
    assert_eq!((&of_link["queued"], &of_link["limit"]), (&json!(1), &json!(0)));
    assert_eq!(of_link["reasons"][0]["reason"], "full");
    let file = lab.get(&format!("/jobs/{id}/files")).await.json[0]["file_id"].clone();
    let other = lab.ask("bob", Method::GET, &format!("/why/files/{file}"), None).await;
    assert_eq!(other.status, StatusCode::FORBIDDEN);

    set(
        &lab,
        "/config/se",
        json!({ HERE: { "se_info": {}, "operations": { "testvo": { "outbound": 1 } } } }),
    )
    .await;
    remove(&lab, "/config/links/here").await;
    assert_eq!(lab.wait(&id).await, "FAILED");
    let why = lab.get(&format!("/why/files/{file}")).await.json;
    assert!(why["text"].as_str().unwrap().starts_with("FAILED: SOURCE [2]"), "{why}");
    let of_link = lab
        .get(&format!("/why/link?source_se={HERE}&dest_se={HERE}"))
        .await
        .json;
    assert_eq!(
        (&of_link["limit"], &of_link["reasons"][0]["text"]),
        (&json!(7), &json!("nothing is queued"))
    );
    let started = &of_link["decisions"][0];
    assert_eq!((&started["verdict"], &started["file_id"]), (&json!("start"), &file));
    assert_eq!(started["text"], "started by share, as transfer 1 of 7");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_vos_at_a_storage_element_hold_transfers_back() {
    let lab = Lab::start().await;
    let group = json!({ "name": "wan", "max_active": 0, "members": [{ "se": HERE, "direction": "out" }] });
    set(&lab, "/config/weir/groups", group).await;
    let (id, why) = waiting(&lab).await;
    assert_eq!(why, "shared wan at its limit 0");
    remove(&lab, "/config/weir/groups/wan").await;
    assert_eq!(lab.wait(&id).await, "FAILED");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_make_no_sense_are_refused_in_words_and_change_nothing() {
    let lab = Lab::start().await;
    let users = lab
        .ask(
            "alice",
            Method::POST,
            "/config/links",
            Some(&link(&json!({ "max_active": 1 }))),
        )
        .await;
    assert_eq!(users.status, StatusCode::FORBIDDEN);
    refused(
        &lab,
        "/config/links",
        link(&json!({ "max_active": "many" })),
        "max_active must be an integer",
    )
    .await;
    set(&lab, "/config/links", link(&json!({ "max_active": 1 }))).await;
    let twin = json!({ "symbolicname": "twin", "source": HERE, "destination": HERE });
    refused(&lab, "/config/links", twin, "is configured as here").await;
    refused(
        &lab,
        "/config/se",
        json!({ "b.example.org/path": { "se_info": {} } }),
        "scheme://host",
    )
    .await;
    refused(&lab, "/config/se", json!({ HERE: 7 }), "Malformed configuration").await;
    refused(&lab, "/config/shares", json!({ "vo": "atlas" }), "Missing share").await;
    let one_side = json!({ "source": HERE, "destination": "*", "vo": "atlas", "share": 1 });
    refused(&lab, "/config/shares", one_side, "one link, or for all").await;
    refused(
        &lab,
        "/config/activity_shares",
        json!({ "vo": "a", "share": { "x": -1 } }),
        "0 or more",
    )
    .await;
    refused(
        &lab,
        "/config/global",
        json!({ "*": { "retries": 1 } }),
        "retries unknown",
    )
    .await;
    refused(&lab, "/config/global", json!({ "*": { "ageing": "soon" } }), "ageing").await;
    refused(
        &lab,
        "/config/weir/groups",
        json!({ "name": "g", "members": [{ "se": "x/y" }] }),
        "scheme://host",
    )
    .await;
    assert_eq!(look(&lab, "/config/audit").await.as_array().unwrap().len(), 1);
    assert_eq!(look(&lab, "/config/se").await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_who_change_things_at_once_do_not_lose_each_others() {
    let lab = Lab::start().await;
    let sets = (0..8).map(|n| {
        let vo = format!("vo{n}");
        set(
            &lab,
            "/config/se",
            json!({ HERE: { "operations": { vo: { "inbound": 1 } } } }),
        )
    });
    futures_util::future::join_all(sets).await;
    let shown = look(&lab, "/config/se").await;
    assert_eq!(shown[HERE]["operations"].as_object().unwrap().len(), 8, "{shown}");
}
