//! The view of users of one VO of another one's links, queues and names.

use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use weir_auth::{Secret, ca::San, client::TokenSource};
use weir_fts::TransferConfig;
use weir_http::body;
use weir_issuer::{Client, Issuer, IssuerConfig};
use weir_transfer::config::IssuerConfig as Trusted;

use crate::{
    lab::{Answer, Lab, SECRET, loopback},
    stub::{Fault, Stub},
};

/// A lab with a second VO, of another issuer.
struct Scene {
    lab: Lab,
    issuer: weir_issuer::Running,
}

impl Scene {
    async fn start(change: impl FnOnce(&mut TransferConfig)) -> Self {
        let mut issuer = None;
        let lab = Lab::start_managed(|config, authority, folder| {
            let identity = authority.issue(&[San::from("127.0.0.1")], "other").unwrap();
            let eve = Client::with_secret("eve", &Secret::new(SECRET), &["storage.read:/", "fts"], &["*"]);
            let started = Issuer::start(
                &IssuerConfig::new(loopback(), folder.join("other-keys"), vec![eve]),
                &identity,
            );
            let started = started.unwrap();
            config.issuers.push(Trusted::new(started.url(), "othervo"));
            change(config);
            issuer = Some(started);
        })
        .await;
        Self {
            lab,
            issuer: issuer.unwrap(),
        }
    }

    /// As a user of the other VO.
    async fn eve(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let source = TokenSource::client_credentials(
            self.lab.client.clone(),
            self.issuer.token_url(),
            "eve",
            &Secret::new(SECRET),
        );
        let token = source.token("storage.read:/ fts", &self.lab.url()).await.unwrap();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.lab.url()))
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose()))
            .header(header::CONTENT_TYPE, "application/json");
        let body = body.map_or_else(body::empty, |body| body::full(body.to_string()));
        Answer::read(self.lab.client.send(request.body(body).unwrap()).await.unwrap()).await
    }

    async fn submit_as_eve(&self, file: Value) -> String {
        let body = json!({ "files": [file] });
        let answer = self.eve(Method::POST, "/jobs", Some(&body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        answer.json["job_id"].as_str().unwrap().to_owned()
    }
}

fn file(link: &str) -> Value {
    let url = |end: &str| format!("https://{link}-{end}.example.org/f");
    json!({ "sources": [url("from")], "destinations": [url("to")] })
}

#[tokio::test(flavor = "multi_thread")]
async fn links_queues_and_names_of_other_vos_are_shown_to_administrators_only() {
    let scene = Scene::start(|config| config.limits.link = 0).await;
    scene.lab.submit(json!([file("hers"), file("both")]), json!({})).await;
    scene.submit_as_eve(file("eves")).await;
    scene.submit_as_eve(file("both")).await;
    for path in [
        "/optimizer/current",
        "/autocomplete/source?term=",
        "/autocomplete/storage?term=",
        "/.well-known/weir/queue",
        "/why/waits",
    ] {
        let seen = scene.eve(Method::GET, path, None).await;
        assert_eq!(seen.status, StatusCode::OK, "{path}: {}", seen.text);
        assert!(
            seen.text.contains("eves-from") && seen.text.contains("both-from"),
            "{path}: {}",
            seen.text
        );
        assert!(
            !seen.text.contains("hers") && !seen.text.contains("testvo"),
            "{path}: {}",
            seen.text
        );
        let all = scene.lab.ask("root", Method::GET, path, None).await;
        for link in ["hers", "eves", "both"] {
            assert!(all.text.contains(link), "{path}: {}", all.text);
        }
    }
    let evolution = scene.eve(Method::GET, "/optimizer/evolution", None).await;
    assert!(
        evolution.status == StatusCode::OK && !evolution.text.contains("hers"),
        "{}",
        evolution.text
    );
    let vos = scene.eve(Method::GET, "/autocomplete/vo?term=", None).await;
    assert_eq!(vos.json, json!(["othervo"]));
    let why = |link: &str| {
        format!("/why/link?source_se=https://{link}-from.example.org&dest_se=https://{link}-to.example.org")
    };
    for (link, status) in [("hers", 404), ("eves", 200), ("both", 200), ("nobodys", 404)] {
        let seen = scene.eve(Method::GET, &why(link), None).await;
        assert_eq!(seen.status.as_u16(), status, "{link}: {}", seen.text);
    }
    assert_eq!(scene.lab.ask("root", Method::GET, &why("hers"), None).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_of_slots_are_named_without_links_of_others() {
    let scene = Scene::start(|config| config.limits.inbound = 1).await;
    let (from, to) = (Stub::start(), Stub::start());
    from.put("/f", b"bytes");
    to.fault("COPY", "/f", Fault::Held);
    let theirs = from.url("/f").replace("127.0.0.1", "localhost");
    let held = scene
        .lab
        .submit(
            json!([{ "sources": [theirs], "destinations": [to.url("/f")] }]),
            json!({}),
        )
        .await;
    scene.lab.until(&held, |job| job["job_state"] == "ACTIVE").await;
    let waits = json!({ "sources": [from.url("/f")], "destinations": [to.url("/g")] });
    let id = scene.submit_as_eve(waits).await;
    let seen = scene.eve(Method::GET, &format!("/why/jobs/{id}"), None).await;
    assert_eq!(seen.json[0]["reasons"][0]["reason"], "full", "{}", seen.text);
    assert!(!seen.text.contains("localhost"), "{}", seen.text);
    let path = "/why/link?source_se=http://127.0.0.1&dest_se=http://127.0.0.1";
    let link = scene.eve(Method::GET, path, None).await;
    assert!(
        link.status == StatusCode::OK && !link.text.contains("localhost"),
        "{}",
        link.text
    );
    let all = scene.lab.ask("root", Method::GET, path, None).await;
    assert!(all.text.contains("held by http://localhost"), "{}", all.text);
    to.release();
}
