//! Small things in which FTS3's door is copied, because a client or FTS REST's own tests rely on them.

use http::{Method, Request, StatusCode, header};
use serde_json::json;
use weir_http::body;

use crate::{
    lab::{Answer, Lab},
    stub::Stub,
};

async fn still() -> Lab {
    Lab::start_with(|config| config.limits.link = 0).await
}

/// A request that every other HTTP server answers, and that browsers send first, would be 405.
#[tokio::test(flavor = "multi_thread")]
async fn options_are_told() {
    let lab = still().await;
    for (path, methods) in [
        ("/jobs", ["GET", "POST"]),
        ("//jobs/00000000-0000-0000-0000-000000000000", ["DELETE", "GET"]),
        ("/ban/se", ["POST", "DELETE"]),
    ] {
        let told = lab.ask("", Method::OPTIONS, path, None).await;
        assert_eq!((told.status, told.text.as_str()), (StatusCode::OK, ""), "{path}");
        let allow = told.headers["allow"].to_str().unwrap();
        assert!(methods.iter().all(|method| allow.contains(method)), "{path}: {allow}");
    }
    let unknown = lab.ask("", Method::OPTIONS, "/nonsense", None).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let other = lab.ask("root", Method::PATCH, "/jobs", None).await;
    assert_eq!(other.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!other.message().is_empty());
}

/// Paths that FTS3 has with a slash at their end would be 404.
#[tokio::test(flavor = "multi_thread")]
async fn a_slash_at_the_end_changes_nothing_where_fts3_has_it() {
    let lab = still().await;
    for path in ["/jobs/", "/files/", "/archive/", "/archive/?limit=1"] {
        let answer = lab.get(path).await;
        assert_eq!((answer.status, &answer.json), (StatusCode::OK, &json!([])), "{path}");
    }
}

/// Old scripts send forms, which hold texts only: a ban that lets wait what comes would be refused.
#[tokio::test(flavor = "multi_thread")]
async fn bans_come_as_forms_too() {
    let lab = still().await;
    let ban = async |form: &str| {
        let token = lab.token("root").await;
        let request = Request::post(format!("{}/ban/se", lab.url()))
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose()))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body::full(form.to_owned()));
        Answer::read(lab.client.send(request.unwrap()).await.unwrap()).await
    };
    let storage = "storage=https%3A%2F%2Fa.example.org&status=wait";
    for (allow, status) in [("true", "WAIT_AS"), ("false", "WAIT"), ("1", "WAIT_AS")] {
        let taken = ban(&format!("{storage}&allow_submit={allow}")).await;
        assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
        let bans = lab.ask("root", Method::GET, "/ban/se", None).await.json;
        assert_eq!(bans[0]["status"], status, "{allow}: {bans}");
    }
    assert_eq!(
        ban(&format!("{storage}&allow_submit=perhaps")).await.status,
        StatusCode::BAD_REQUEST
    );
}

/// Administrators name a storage by its host, whatever scheme its users write.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_stands_for_its_storage_elements_of_every_scheme() {
    let lab = Lab::start_with(|config| config.copy.allow.clear()).await;
    let root = async |method: Method, path: &str, body: serde_json::Value| {
        let answer = lab.ask("root", method, path, Some(&body)).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        answer.json
    };
    let info = json!({ "b.example.org": { "se_info": { "inbound_max_active": 3 } } });
    root(Method::POST, "/config/se", info).await;
    let kept = lab
        .ask("root", Method::GET, "/config/se?se=B.example.org", None)
        .await
        .json;
    assert_eq!(kept["b.example.org"]["se_info"]["inbound_max_active"], 3, "{kept}");
    let link = json!({ "symbolicname": "ab", "source": "a.example.org", "destination": "b.example.org",
                       "max_active": 0, "optimizer_mode": 7, "nostreams": 4 });
    root(Method::POST, "/config/links", link).await;
    let link = lab.ask("root", Method::GET, "/config/links/ab", None).await.json;
    assert_eq!(
        (&link["source"], &link["optimizer_mode"]),
        (&json!("a.example.org"), &json!(7))
    );
    for [from, to] in [["https", "https"], ["davs", "https"], ["davs", "davs"]] {
        let files = json!([{ "sources": [format!("{from}://a.example.org/f")], "destinations": [format!("{to}://b.example.org/f")] }]);
        lab.submit(files, json!({})).await;
        let query = format!("?source_se={from}://a.example.org&dest_se={to}://b.example.org");
        let why = lab
            .ask("root", Method::GET, &format!("/why/link{query}"), None)
            .await
            .json;
        assert_eq!((&why["limit"], &why["queued"]), (&json!(0), &json!(1)), "{why}");
        let current = lab
            .ask("root", Method::GET, &format!("/optimizer/current{query}"), None)
            .await
            .json;
        assert_eq!(current[0]["nostreams"], 4, "{current}");
    }
    root(
        Method::POST,
        "/ban/se",
        json!({ "storage": "b.example.org", "status": "cancel" }),
    )
    .await;
    let file = json!([{ "sources": ["https://a.example.org/f"], "destinations": ["davs://b.example.org/f"] }]);
    let refused = lab
        .ask("alice", Method::POST, "/jobs", Some(&json!({ "files": file })))
        .await;
    assert_eq!(
        (refused.status, refused.message()),
        (StatusCode::FORBIDDEN, "davs://b.example.org is banned")
    );
    assert_eq!(lab.get("/jobs").await.json, json!([]), "what waited is taken back");
    let lifted = lab
        .ask("root", Method::DELETE, "/ban/se?storage=b.example.org", None)
        .await;
    assert_eq!(lifted.status, StatusCode::NO_CONTENT);
    let taken = lab
        .ask("alice", Method::POST, "/jobs", Some(&json!({ "files": file })))
        .await;
    assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
}

/// FTS REST takes a value without its algorithm.
#[tokio::test(flavor = "multi_thread")]
async fn a_checksum_may_lack_its_algorithm() {
    let lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    // Adler-32 of "abc" is 024d0127.
    a.put("/f", b"abc");
    let params = |checksum: &str| json!({ "checksum": checksum, "verify_checksum": "both", "retry": -1 });
    let file = lab.transfer(&a.url("/f"), &b.url("/f"), params("24d0127")).await;
    assert_eq!(
        (&file["file_state"], &file["checksum"]),
        (&json!("FINISHED"), &json!("ADLER32:024d0127"))
    );
    let file = lab.transfer(&a.url("/f"), &b.url("/g"), params("1234F")).await;
    let reason = file["reason"].as_str().unwrap();
    assert!(
        reason.contains("SOURCE CHECKSUM MISMATCH Source and user-defined"),
        "{reason}"
    );
    let wrong =
        json!({ "files": [{ "sources": [a.url("/f")], "destinations": [b.url("/h")], "checksum": "12345678901" }] });
    assert_eq!(
        lab.ask("alice", Method::POST, "/jobs", Some(&wrong)).await.status,
        StatusCode::BAD_REQUEST
    );
}

/// The optimiser's pages show the measured figures of a link.
#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_streams_of_a_link_are_what_they_are() {
    let lab = Lab::start().await;
    let (a, b) = (Stub::start(), Stub::start());
    a.put("/f", &[7; 3000]);
    a.put("/g", &[7; 1000]);
    for name in ["/f", "/g"] {
        assert_eq!(
            lab.transfer(&a.url(name), &b.url(name), json!({})).await["file_state"],
            "FINISHED"
        );
    }
    let current = lab.ask("root", Method::GET, "/optimizer/current", None).await.json;
    assert_eq!(current[0]["nostreams"], json!(null), "nobody set any: {current}");
    let file = lab.get("/archive?limit=1").await.json[0]["job_id"].clone();
    let files = lab.get(&format!("/jobs/{}/files", file.as_str().unwrap())).await.json;
    assert_eq!(files[0]["transfer_host"], lab.host());
}
