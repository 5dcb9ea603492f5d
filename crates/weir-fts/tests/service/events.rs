//! Messages about transfers: to a file, a webhook and a broker.

use std::{collections::BTreeSet, future::ready, path::Path};

use http::Method;
use serde_json::{Value, json};
use weir_http::testing::until;
use weir_transfer::config::{EventsConfig, FileSinkConfig, Messages, StompSinkConfig, WebhookSinkConfig};
use weir_units::Bytes;

use crate::{
    lab::Lab,
    receivers::{Broker, Hook},
    stub::{Fault, Stub},
};

/// Messages into a file of this folder.
pub(crate) fn events(folder: &Path) -> EventsConfig {
    EventsConfig {
        spool: folder.join("spool"),
        keep: Bytes(1 << 30),
        files: vec![FileSinkConfig {
            name: "file".into(),
            path: folder.join("events.jsonl"),
            send: Messages::default(),
        }],
        webhooks: Vec::new(),
        stomps: Vec::new(),
    }
}

/// The whole lines of a file that is being written: a reader may see a part of the last write.
fn told(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(seen: &'a [Value], kind: &str) -> Vec<&'a Value> {
    seen.iter()
        .filter(|event| event["type"] == kind)
        .map(|event| &event["data"])
        .collect()
}

fn states(seen: &[Value]) -> Vec<&str> {
    of(seen, "state")
        .iter()
        .filter_map(|data| data["file_state"].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_is_told_from_its_submission_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let lab = Lab::start_with(|config| config.events = Some(events(folder.path()))).await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"known content");
    let file = json!({ "sources": [format!("{}?authz=hidden", a.url("/f"))], "destinations": [b.url("/f")],
        "activity": "T0 Export", "metadata": { "request_id": "r1" } });
    let params = json!({ "verify_checksum": "both", "checksum": "ADLER32", "job_metadata": { "issuer": "rucio" } });
    let job = lab.submit(json!([file]), params).await;
    assert_eq!(lab.wait(&job).await, "FINISHED");
    let seen = until(
        "messages",
        || ready(told(&path)),
        |seen| states(seen).contains(&"FINISHED"),
    )
    .await;

    assert_eq!(states(&seen), ["SUBMITTED", "ACTIVE", "FINISHED"]);
    let state = of(&seen, "state")[2];
    assert_eq!(
        (&state["job_id"], &state["job_state"], &state["vo_name"]),
        (&json!(job), &json!("FINISHED"), &json!("testvo"))
    );

    let start = of(&seen, "start")[0];
    let complete = of(&seen, "complete")[0];
    let id = complete["tr_id"].as_str().unwrap();
    assert_eq!(id, start["transfer_id"].as_str().unwrap());
    // Receivers take the job from behind the last of these.
    assert_eq!(id.rsplit("__").next().unwrap(), job);
    assert_eq!(complete["t_final_transfer_state"], "Ok");
    assert_eq!(complete["t_final_transfer_state_flag"], 1);
    assert_eq!(
        (&complete["tr_bt_transfered"], &complete["file_size"]),
        (&json!(13), &json!(13))
    );
    assert_eq!(complete["file_metadata"]["request_id"], "r1");
    assert_eq!(complete["job_metadata"]["issuer"], "rucio");
    assert_eq!(
        (&complete["activity"], &complete["vo"]),
        (&json!("T0 Export"), &json!("testvo"))
    );
    let time = |key: &str| complete[key].as_i64().unwrap();
    let order = [
        "tr_timestamp_start",
        "timestamp_chk_src_st",
        "timestamp_chk_src_ended",
        "timestamp_tr_st",
        "timestamp_tr_comp",
        "timestamp_checksum_dest_st",
        "timestamp_checksum_dest_ended",
        "tr_timestamp_complete",
    ];
    assert!(
        order.windows(2).all(|pair| time(pair[0]) <= time(pair[1])),
        "{complete:#}"
    );
    assert!(
        time("tr_timestamp_start") > 0 && time("timestamp_tr_st") > 0,
        "{complete:#}"
    );
    assert!(
        !std::fs::read_to_string(&path).unwrap().contains("hidden"),
        "no query is told"
    );

    // The same keys as FTS3's, which the readers of these messages know.
    let keys: BTreeSet<&str> = complete.as_object().unwrap().keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = COMPLETE.split_ascii_whitespace().collect();
    assert_eq!(known.difference(&keys).collect::<Vec<_>>(), Vec::<&&str>::new());
}

/// Keys of FTS3's message about a transfer that has ended.
const COMPLETE: &str = "tr_id job_id file_id endpnt vo src_url dst_url src_hostname dst_hostname src_se dst_se protocol \
    t_channel timestamp_tr_st timestamp_tr_comp timestamp_chk_src_st timestamp_chk_src_ended timestamp_checksum_dest_st \
    timestamp_checksum_dest_ended t_timeout chk_timeout t_error_code tr_error_scope t_failure_phase tr_error_category \
    t_final_transfer_state t_final_transfer_state_flag tr_bt_transfered nstreams buf_size tcp_buf_size block_size scitag f_size \
    file_size time_srm_prep_st time_srm_prep_end time_srm_fin_st time_srm_fin_end srm_space_token_src srm_space_token_dst \
    t__error_message tr_timestamp_start tr_timestamp_complete transfer_time operation_time throughput srm_preparation_time \
    srm_finalization_time srm_overhead_time srm_overhead_percentage timestamp_checksum_src_diff timestamp_checksum_dst_diff \
    channel_type user_dn file_metadata job_metadata activity retry retry_max job_m_replica job_multihop transfer_lasthop \
    is_archiving job_state is_recoverable ipver eviction_code cleanup_code final_destination transfer_type auth_method \
    overwrite_on_disk_flag overwrite_on_disk_deletion_code src_protocol dst_protocol src_transfer_protocol \
    dst_transfer_protocol protocol_translation src_site_name dst_site_name";

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_that_fails_is_told_with_what_it_moved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let lab = Lab::start_with(|config| config.events = Some(events(folder.path()))).await;
    let (a, b) = (Stub::start(), Stub::start());
    let job = lab
        .submit(
            json!([{ "sources": [a.url("/none")], "destinations": [b.url("/f")] }]),
            json!({ "retry": 2 }),
        )
        .await;
    assert_eq!(lab.wait(&job).await, "FAILED");
    a.put("/g", b"content");
    b.fault("COPY", "/g", Fault::Status(507, "full"));
    let job = lab
        .submit(
            json!([{ "sources": [a.url("/g")], "destinations": [b.url("/g")], "filesize": 7 }]),
            json!({ "retry": 1, "copy_mode": "pull" }),
        )
        .await;
    assert_eq!(lab.wait(&job).await, "FAILED");
    let seen = until(
        "messages",
        || ready(told(&path)),
        |seen| states(seen).iter().filter(|state| **state == "FAILED").count() == 2,
    )
    .await;

    let complete = of(&seen, "complete");
    let [missing, full, again] = complete.as_slice() else {
        panic!("{complete:#?}")
    };
    assert_eq!(
        (&missing["t_final_transfer_state"], &missing["t_error_code"]),
        (&json!("Error"), &json!(2))
    );
    assert_eq!(
        (&missing["tr_error_scope"], &missing["t_failure_phase"]),
        (&json!("SOURCE"), &json!("TRANSFER_PREPARATION"))
    );
    assert_eq!(
        (&missing["is_recoverable"], &missing["timestamp_tr_st"]),
        (&json!(false), &json!(0))
    );
    // DC24: failed transfers were accounted with their size.
    assert_eq!((&full["tr_bt_transfered"], &full["file_size"]), (&json!(0), &json!(7)));
    assert_eq!(
        (&full["retry"], &again["retry"], &again["retry_max"]),
        (&json!(0), &json!(1), &json!(1))
    );
    assert_eq!(full["tr_error_category"], "NO_SPACE_LEFT");
    assert!(full["t__error_message"].as_str().unwrap().contains("[28]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_is_reported_whether_the_transfer_ran_or_waited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let lab = Lab::start_with(|config| {
        config.events = Some(events(folder.path()));
        config.limits.link = 1;
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    let file = |name: &str| {
        a.put(name, b"content");
        b.fault("COPY", name, Fault::Held);
        json!({ "sources": [a.url(name)], "destinations": [b.url(name)] })
    };
    let job = lab.submit(json!([file("/1"), file("/2")]), json!({})).await;
    until("messages", || ready(told(&path)), |seen| !of(seen, "start").is_empty()).await;
    lab.ask("alice", Method::DELETE, &format!("/jobs/{job}"), None).await;
    let seen = until(
        "messages",
        || ready(told(&path)),
        |seen| states(seen).iter().filter(|state| **state == "CANCELED").count() == 2,
    )
    .await;
    let complete = of(&seen, "complete");
    assert_eq!(complete.len(), 1, "the one that waited never began");
    assert_eq!(
        (
            &complete[0]["t_final_transfer_state"],
            &complete[0]["t_final_transfer_state_flag"]
        ),
        (&json!("Abort"), &json!(-1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_is_down_misses_nothing_and_a_refusal_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Hook::start();
    hook.answer(&[503, 500, 413, 200]);
    let mut lab = Lab::start_with(|config| {
        let mut events = events(folder.path());
        events.webhooks.push(WebhookSinkConfig {
            name: "hook".into(),
            url: hook.url(),
            token_file: None,
            send: Messages::only(&["complete"]),
        });
        config.events = Some(events);
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"x");
    lab.transfer(&a.url("/f"), &b.url("/1"), json!({})).await;
    // Two answers ask for patience, the third refuses this message for good.
    until("messages", || ready(hook.seen()), |seen| seen.len() == 3).await;
    let refused = folder.path().join("spool/hook.refused.jsonl");
    let kept = until("messages", || ready(told(&refused)), |kept| !kept.is_empty()).await;
    assert_eq!((kept.len(), &kept[0]["type"]), (1, &json!("complete")));
    assert_eq!(kept[0]["data"]["dst_url"], b.url("/1"));
    let metrics = lab
        .ask("root", Method::GET, "/.well-known/weir/metrics", None)
        .await
        .text;
    assert!(
        metrics.contains("weir_transfer_events_refused_total{sink=\"hook\"} 1"),
        "{metrics}"
    );
    lab.down().await;
    lab.up().await;
    lab.transfer(&a.url("/f"), &b.url("/2"), json!({})).await;
    let seen = until("messages", || ready(hook.seen()), |seen| seen.len() == 4).await;
    let urls: Vec<_> = seen
        .iter()
        .map(|batch| batch[0]["data"]["dst_url"].as_str().unwrap())
        .collect();
    assert_eq!(urls, [b.url("/1"), b.url("/1"), b.url("/1"), b.url("/2")]);
    let metrics = lab
        .ask("root", Method::GET, "/.well-known/weir/metrics", None)
        .await
        .text;
    assert!(
        metrics.contains("weir_transfer_events_delivered_total{sink=\"hook\"} 1"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_away_is_told_the_rest_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "pass:word\n").unwrap();
    let broker = Broker::start();
    let lab = Lab::start_with(|config| {
        let mut events = events(folder.path());
        events.stomps.push(StompSinkConfig {
            user: Some("weir".into()),
            password_file: Some(folder.path().join("password")),
            tls: false,
            ..StompSinkConfig::new("broker", &broker.address())
        });
        config.events = Some(events);
    })
    .await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"x");
    lab.transfer(&a.url("/f"), &b.url("/1"), json!({})).await;
    until("messages", || ready(broker.seen()), |seen| seen.len() == 5).await;
    broker.drop_connections();
    lab.transfer(&a.url("/f"), &b.url("/2"), json!({})).await;
    let seen = until("messages", || ready(broker.seen()), |seen| seen.len() >= 10).await;
    let completed: BTreeSet<_> = seen
        .iter()
        .filter(|frame| frame["destination"] == "/topic/transfer.fts_monitoring_complete")
        .map(|frame| frame["body"]["dst_url"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(completed, [b.url("/1"), b.url("/2")].into());
    assert!(
        seen.iter()
            .all(|frame| frame["vo"] == "testvo" && frame["persistent"] == "true" && frame["space"] == true)
    );
    assert_eq!(
        broker.logins().first(),
        Some(&("weir".to_owned(), "pass:word".to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_that_a_broker_refuses_does_not_hold_the_others_up() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let lab = Lab::start_with(|config| {
        let mut events = events(folder.path());
        events.stomps.push(StompSinkConfig {
            tls: false,
            send: Messages::only(&["complete"]),
            ..StompSinkConfig::new("broker", &broker.address())
        });
        config.events = Some(events);
    })
    .await;
    broker.refuse("/poison");
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"x");
    for name in ["/1", "/poison", "/2"] {
        lab.transfer(&a.url("/f"), &b.url(name), json!({})).await;
    }
    let seen = until("messages", || ready(broker.seen()), |seen| seen.len() >= 2).await;
    let completed: BTreeSet<_> = seen
        .iter()
        .map(|frame| frame["body"]["dst_url"].as_str().unwrap())
        .collect();
    assert_eq!(completed, [&*b.url("/1"), &*b.url("/2")].into());
    let kept = told(&folder.path().join("spool/broker.refused.jsonl"));
    assert_eq!((kept.len(), &kept[0]["data"]["dst_url"]), (1, &json!(b.url("/poison"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_sources_and_hops_say_what_they_are() {
    // Receivers take the failure of one source for the failure of the file, unless the message says that others follow.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let lab = Lab::start_with(|config| config.events = Some(events(folder.path()))).await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"known content");
    let sources = json!([{ "sources": [a.url("/nothing"), a.url("/f"), a.url("/never")], "destinations": [b.url("/f")],
        "selection_strategy": "orderly" }]);
    let job = lab.submit(sources, json!({})).await;
    assert_eq!(lab.wait(&job).await, "FINISHED");
    let states_of_second = |seen: &[Value]| -> Vec<String> {
        of(seen, "state")
            .iter()
            .filter(|data| data["src_url"] == a.url("/f"))
            .filter_map(|data| Some(data["file_state"].as_str()?.to_owned()))
            .collect()
    };
    // Its last state is told after the end of its copy.
    let all = |seen: &[Value]| {
        of(seen, "complete").len() == 2 && states_of_second(seen).last().is_some_and(|state| state == "FINISHED")
    };
    let seen = until("messages", || ready(told(&path)), |seen| all(seen)).await;
    let told_of = |seen: &[Value], keys: &[&str]| -> Vec<Value> {
        let complete = of(seen, "complete");
        complete
            .iter()
            .map(|data| keys.iter().map(|key| data[*key].clone()).collect())
            .collect()
    };
    let keys = ["t_final_transfer_state", "job_m_replica", "job_state", "job_multihop"];
    assert_eq!(
        told_of(&seen, &keys),
        [
            json!(["Error", true, "ACTIVE", false]),
            json!(["Ok", true, "FINISHED", false])
        ]
    );
    let submitted: Vec<&str> = states(&seen).into_iter().filter(|state| *state == "NOT_USED").collect();
    assert!(!submitted.is_empty(), "{:?}", states(&seen));
    assert_eq!(states_of_second(&seen), ["NOT_USED", "SUBMITTED", "ACTIVE", "FINISHED"]);

    let hops = json!([
        { "sources": [a.url("/f")], "destinations": [b.url("/way")] },
        { "sources": [b.url("/way")], "destinations": [a.url("/end")] },
    ]);
    let job = lab.submit(hops, json!({ "multihop": true })).await;
    assert_eq!(lab.wait(&job).await, "FINISHED");
    let seen = until(
        "messages",
        || ready(told(&path)),
        |seen| of(seen, "complete").len() == 4,
    )
    .await;
    let end = a.url("/end");
    let keys = [
        "job_multihop",
        "transfer_lasthop",
        "job_m_replica",
        "job_state",
        "final_destination",
    ];
    assert_eq!(
        told_of(&seen, &keys)[2..],
        [
            json!([true, false, false, "UNKNOWN", end]),
            json!([true, true, false, "UNKNOWN", end])
        ]
    );
}
