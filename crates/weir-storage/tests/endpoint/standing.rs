//! The endpoint's own state: alive, ready, and how full.

use std::time::Duration;

use serde_json::{Value, json};
use weir_auth::StorageAction::Read;
use weir_storage::{AreaConfig, Durability, IssuerConfig};
use weir_units::Bytes;

use super::{
    certificates::rule,
    lab::{Answer, Endpoint, Lab, noise},
};

const READY: &str = "/.well-known/weir/ready";
const REPORT: &str = "/.well-known/weir/srr";

fn body(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-type"), "application/json");
    serde_json::from_slice(&answer.body).unwrap()
}

/// Asks until the answer has this status: a finding counts for two seconds.
async fn until_ready(at: &Endpoint, status: u16) -> Value {
    for _ in 0..100 {
        let answer = at.ask("GET", READY, &[("authorization", "")], "").await;
        if answer.status.as_u16() == status {
            return body(&answer);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never {status}")
}

/// Load would be sent to an endpoint that cannot take it, or kept from one that can.
#[tokio::test]
async fn an_endpoint_that_takes_no_files_is_not_ready() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let alive = at
        .ask("GET", "/.well-known/weir/health", &[("authorization", "")], "")
        .await;
    assert_eq!(body(&alive.expect(200)), json!({"status": "ok"}));
    let ready = until_ready(&at, 200).await;
    assert_eq!(ready, json!({"status": "ok", "troubles": [], "warnings": []}));

    let private = at.root.join(".weir-private");
    std::fs::remove_dir_all(&private).unwrap();
    let trouble = until_ready(&at, 503).await;
    assert!(
        trouble["troubles"][0].as_str().unwrap().starts_with("area data: "),
        "{trouble}"
    );
    at.ask("GET", "/.well-known/weir/health", &[], "").await.expect(200);
}

/// A client that asks at once would be told that the issuer is away, although it was not asked yet.
#[tokio::test]
async fn a_started_endpoint_asks_its_issuer_before_it_answers() {
    let lab = Lab::new();
    // On a busy machine one of them may wait in vain.
    for name in ["a", "b", "c", "d", "e"] {
        lab.issuer.answers.send_replace(false);
        let at = lab.endpoint(name, |_| {}).await;
        let asks = at.ask("GET", READY, &[("authorization", "")], "");
        let answers = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            lab.issuer.answers.send_replace(true);
        };
        if tokio::join!(asks, answers).0.status == 200 {
            return;
        }
    }
    panic!("never ready at once");
}

/// An issuer that is away would take the endpoint down for the users of all others, or nobody would be told.
#[tokio::test]
async fn an_issuer_that_is_away_is_told() {
    let lab = Lab::new();
    let gone = || IssuerConfig::new("https://127.0.3.255:1");
    let one = lab.endpoint("a", |config| config.issuers.push(gone())).await;
    let ready = until_ready(&one, 200).await;
    assert_eq!(
        ready["warnings"],
        json!(["the keys of issuer https://127.0.3.255:1 are not known"])
    );
    let all = lab.endpoint("b", |config| config.issuers = vec![gone()]).await;
    until_ready(&all, 503).await;
    // A client that may not see metrics learns no names.
    let strange = lab.endpoint("c", |config| {
        config.issuers = vec![gone()];
        config.metrics_allow = Vec::new();
    });
    assert_eq!(until_ready(&strange.await, 503).await, json!({"status": "trouble"}));
}

/// Experiments would be told of space that is not there, or not of theirs.
#[tokio::test]
async fn the_space_report_tells_what_is_there() {
    let lab = Lab::new();
    let second = lab.dir.path().join("second");
    let at = lab
        .endpoint("a", |config| {
            config.srr.name = Some("EXAMPLE-T2".into());
            config.issuers[0].vo = Some("dune".into());
            config.issuers[0].prefixes = vec!["/dune".parse().unwrap()];
            config.areas[0].prefix = "/dune".parse().unwrap();
            config.areas[0].quota = Some(Bytes(1_000_000));
            config.areas.push(AreaConfig {
                create_root: true,
                rules: vec![rule(&[Read], |rule| rule.vo = Some("cms".into()))],
                read_only: true,
                durability: Durability::Cache,
                ..AreaConfig::new("second", "/second".parse().unwrap(), second)
            });
        })
        .await;
    at.put("/dune/f", noise(70_000)).await.expect(201);
    let report = body(&at.ask("GET", REPORT, &[("authorization", "")], "").await.expect(200));
    let service = &report["storageservice"];
    assert_eq!(
        (
            &service["name"],
            &service["qualitylevel"],
            &service["storageendpoints"][0]["endpointurl"]
        ),
        (&json!("EXAMPLE-T2"), &json!("production"), &json!(at.running.url()))
    );
    let share = |name: &str| {
        let mut shares = service["storageshares"].as_array().unwrap().iter();
        shares.find(|share| share["name"] == name).unwrap().clone()
    };
    let (dune, second) = (share("data"), share("second"));
    assert_eq!(
        (
            &dune["totalsize"],
            &dune["usedsize"],
            &dune["numberoffiles"],
            &dune["path"],
            &dune["vos"],
            &dune["servingstate"]
        ),
        (
            &json!(1_000_000),
            &json!(70_000),
            &json!(1),
            &json!(["/dune"]),
            &json!(["dune"]),
            &json!("open")
        )
    );
    assert_eq!(
        (&second["vos"], &second["servingstate"]),
        (&json!(["cms"]), &json!("draining"))
    );
    assert!(
        second["totalsize"].as_u64().unwrap() > 1_000_000,
        "without a quota: what the file system has"
    );
    let online = &service["storagecapacity"]["online"];
    assert_eq!(online["usedsize"], 70_000);

    let closed = lab.endpoint("b", |config| config.srr.allow = Vec::new()).await;
    closed.ask("GET", REPORT, &[], "").await.expect(403);
}
