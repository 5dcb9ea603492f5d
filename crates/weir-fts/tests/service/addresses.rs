//! Where users can make the service connect to.

use http::Method;
use serde_json::json;

use crate::{
    lab::Lab,
    stub::{Fault, Stub},
};

async fn reaching(ranges: &[&str]) -> Lab {
    let allow = ranges.iter().map(|range| range.parse().unwrap()).collect();
    Lab::start_with(|config| config.copy.allow = allow).await
}

/// Fails at once and for good, and says what to do.
async fn refused(lab: &Lab, source: &str, destination: &str, why: &str) {
    let params = json!({ "retry": 3, "copy_mode": "pull" });
    let file = lab.transfer(source, destination, params).await;
    let reason = file["reason"].as_str().unwrap_or_default();
    assert_eq!(file["file_state"], "FAILED", "{file:#}");
    assert!(reason.contains(why), "{reason}");
    assert!(reason.contains("`allow` of [copy]"), "{reason}");
    assert_eq!(
        (&file["recoverable"], &file["weir"]["attempts"]),
        (&json!(false), &json!(1)),
        "{reason}"
    );
}

/// Anybody with a token could read what is meant for this host and its neighbours alone.
#[tokio::test(flavor = "multi_thread")]
async fn this_host_and_its_neighbours_are_no_storages_unless_somebody_says_so() {
    let lab = reaching(&[]).await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", b"secret of this host");
    let named = a.url("/f").replace("127.0.0.1", "localhost");
    refused(&lab, &a.url("/f"), &b.url("/f"), "127.0.0.1, a loopback address").await;
    refused(&lab, &named, &b.url("/f"), "a loopback address").await;
    let mapped = a.url("/f").replace("127.0.0.1", "[::ffff:127.0.0.1]");
    refused(&lab, &mapped, &b.url("/f"), "a loopback address").await;
    let metadata = "http://169.254.169.254/latest/meta-data";
    refused(&lab, metadata, &b.url("/f"), "a link-local address").await;
    refused(&lab, "https://10.0.0.1/f", &b.url("/f"), "a private address").await;
    assert!(a.all_seen().is_empty() && b.all_seen().is_empty());
}

/// A storage could send us where its owner cannot go.
#[tokio::test(flavor = "multi_thread")]
async fn no_redirect_leads_where_nobody_may_go() {
    let lab = reaching(&["127.0.0.1"]).await;
    let (a, b) = (Stub::start(), Stub::start());
    for name in ["/f", "/g", "/h"] {
        a.put(name, b"known content");
    }
    let done = lab.transfer(&a.url("/h"), &b.url("/h"), json!({})).await;
    assert_eq!(done["file_state"], "FINISHED", "{done:#}");
    let elsewhere = "http://127.0.0.2:1/f";
    a.fault("HEAD", "/f", Fault::Redirect(elsewhere.into()));
    refused(&lab, &a.url("/f"), &b.url("/f"), "127.0.0.2, a loopback address").await;
    b.fault("COPY", "/g", Fault::Redirect("http://169.254.169.254/g".into()));
    refused(
        &lab,
        &a.url("/g"),
        &b.url("/g"),
        "169.254.169.254, a link-local address",
    )
    .await;
    let health = lab.ask("root", Method::GET, "/.well-known/weir/health", None).await;
    assert_eq!(health.status, 200, "{}", health.text);
}

/// Both tokens of a copy would go to whatever host a storage names.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_do_not_follow_a_redirect_to_another_port() {
    let lab = reaching(&["127.0.0.1"]).await;
    let (a, b, elsewhere) = (Stub::start(), Stub::start(), Stub::start());
    let sends_credentials = |stub: &Stub| {
        let sent = stub.all_seen();
        assert!(!sent.is_empty(), "nothing came there");
        let headers = ["authorization", "transferheaderauthorization"];
        sent.iter()
            .any(|seen| headers.iter().any(|name| seen.headers.contains_key(*name)))
    };
    a.put("/f", b"known content");
    b.fault("COPY", "/f", Fault::Redirect(elsewhere.url("/f")));
    let params = || json!({ "copy_mode": "pull", "retry": -1 });
    lab.transfer(&a.url("/f"), &b.url("/f"), params()).await;
    assert!(sends_credentials(&b) && !sends_credentials(&elsewhere));
    // The credential in the URL of a side is none of theirs either.
    let other = Stub::start();
    a.put("/g", b"known content");
    b.fault("COPY", "/g", Fault::Redirect(other.url("/g")));
    let file = lab.transfer(&a.url("/g?authz=secret"), &b.url("/g"), params()).await;
    assert!(file["reason"].as_str().unwrap().contains("redirect_hosts"), "{file}");
    assert!(other.all_seen().is_empty(), "{file}");
    // A namespace operation and a look at a file.
    let last = Stub::start();
    last.put("/h", b"known content");
    a.fault("HEAD", "/h", Fault::Redirect(last.url("/h")));
    lab.transfer(&a.url("/h"), &b.url("/h"), params()).await;
    assert!(!sends_credentials(&last));
}
