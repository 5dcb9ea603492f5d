//! Tokens that expire before their transfers start.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use weir_auth::{Secret, ca::CertificateAuthority};
use weir_fts::TransferConfig;
use weir_transfer::config::{BrokerConfig, IssuerConfig};

use crate::{
    granter::{Form, Granter, NEVER, Reply, refusal, turning, unsigned},
    lab::Lab,
    stub::{Fault, Stub},
};

/// Seconds that a token lives which expires in the queue.
const LIFE: i64 = 5;

/// A lab whose service renews tokens of a second issuer, with one slot for each link. Alice, of the first one, is a broker there.
struct Scene {
    lab: Lab,
    granter: Granter,
    source: Stub,
    destination: Stub,
}

impl Scene {
    async fn start(said: impl FnMut(&Form) -> Reply + Send + 'static) -> Self {
        let mut granter = None;
        let manage = |config: &mut TransferConfig, authority: &CertificateAuthority, folder: &std::path::Path| {
            let started = Granter::start(authority, said);
            let secret_file = folder.join("client.secret");
            weir_auth::files::write_private(&secret_file, b"the secret of the client").unwrap();
            config.issuers.push(IssuerConfig {
                client_id: Some("fts".into()),
                secret_file: Some(secret_file),
                ..IssuerConfig::new(&started.url, "testvo")
            });
            config.brokers = vec![BrokerConfig::by_token(&config.issuers[0].url, "alice")];
            config.limits.link = 1;
            config.tokens.refresh_margin = Duration::from_secs(1);
            config.tokens.exchange_ahead = Duration::from_secs(2);
            config.tokens.issuer_pause = Duration::from_secs(1);
            config.tokens.request_timeout = Duration::from_secs(4);
            granter = Some(started);
        };
        let lab = Lab::start_managed(manage).await;
        Self {
            lab,
            granter: granter.unwrap(),
            source: Stub::start(),
            destination: Stub::start(),
        }
    }

    fn file(&self, name: &str, token: &Secret) -> Value {
        json!({
            "sources": [self.source.url(name)], "destinations": [self.destination.url(name)],
            "source_tokens": [token.expose()], "destination_tokens": [token.expose()]
        })
    }

    /// Takes the slot of the link until [`Stub::release`].
    async fn block(&self) -> String {
        self.source.put("/blocker", b"x");
        self.destination.fault("COPY", "/blocker", Fault::Held);
        let token = Secret::new("opaque");
        let blocker = self.lab.submit(json!([self.file("/blocker", &token)]), json!({})).await;
        self.lab.until(&blocker, |job| job["job_state"] == "ACTIVE").await;
        while self.destination.seen("COPY", "/blocker").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        blocker
    }

    /// Has a job wait until its token was exchanged ahead, and has expired.
    async fn outlast(&self) -> String {
        self.block().await;
        self.source.put("/f", b"bytes");
        let token = self.granter.token("alice", LIFE);
        // Waiting costs no retry: there is none.
        let params = json!({ "retry": -1 });
        let id = self.lab.submit(json!([self.file("/f", &token)]), params).await;
        tokio::time::sleep(Duration::from_secs(LIFE as u64) + Duration::from_millis(200)).await;
        assert_eq!(self.granter.asked(), ["token-exchange"]);
        id
    }
}

/// The tokens that were shown with this method for this file.
fn shown(stub: &Stub, method: &str, path: &str) -> Vec<String> {
    let seen = stub.seen(method, path);
    let bearer = |seen: &crate::stub::Seen| seen.headers["authorization"].to_str().unwrap().replace("Bearer ", "");
    seen.iter().map(bearer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_tokens_expire_in_the_queue_completes() {
    let mut scene = Scene::start(turning(3600)).await;
    let id = scene.outlast().await;
    // And after a restart nobody is asked again.
    scene.granter.says(|_| refusal("invalid_grant"));
    scene.lab.down().await;
    scene.destination.heal("COPY", "/blocker");
    scene.lab.up().await;
    assert_eq!(scene.lab.wait(&id).await, "FINISHED");
    assert_eq!(
        (scene.granter.asked(), scene.granter.at_once()),
        (vec!["token-exchange".to_owned()], 1)
    );
    assert_eq!(shown(&scene.destination, "COPY", "/f"), ["access-1"]);
    assert!(
        shown(&scene.source, "HEAD", "/f")
            .iter()
            .all(|token| token == "access-1")
    );
    let copy = &scene.destination.seen("COPY", "/f")[0];
    assert_eq!(copy.headers["transferheaderauthorization"], "Bearer access-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_issuer_is_silent_others_run_and_the_reason_is_told() {
    let scene = Scene::start(turning(1)).await;
    let id = scene.outlast().await;
    scene.granter.says(|_| (200, String::new(), NEVER));
    scene.source.put("/other", b"bytes");
    let other = scene.granter.token("bob", 3600);
    let other = scene.lab.submit(json!([scene.file("/other", &other)]), json!({})).await;
    scene.destination.release();
    assert_eq!(scene.lab.wait(&other).await, "FINISHED");
    let waits = scene
        .lab
        .until(&id, |job| job["files"][0]["reason"].as_str().is_some())
        .await;
    let reason = waits["files"][0]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains(&scene.granter.url) && reason.contains("waits for the token issuer"),
        "{reason}"
    );
    let why = scene.lab.get(&format!("/why/jobs/{id}")).await;
    let told = &why.json[0]["reasons"][0];
    assert_eq!(told["reason"], "issuer", "{}", why.text);
    assert!(
        told["text"].as_str().unwrap().contains(&scene.granter.url),
        "{}",
        why.text
    );
    let metrics = scene.lab.get("/.well-known/weir/metrics").await.text;
    let waits = format!("weir_transfer_token_waits_total{{issuer=\"{}\"}}", scene.granter.url);
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with(&waits) && !line.ends_with(" 0")),
        "{metrics}"
    );
    // It comes back: its refresh token is the one that was granted last.
    scene.granter.says(|form| {
        assert_eq!(form["refresh_token"], "refresh-1");
        (
            200,
            json!({ "access_token": "late", "expires_in": 3600 }).to_string(),
            Duration::ZERO,
        )
    });
    assert_eq!(scene.lab.wait(&id).await, "FINISHED");
    assert_eq!(shown(&scene.destination, "COPY", "/f"), ["late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_refused_value_is_in_the_error() {
    let scene = Scene::start(turning(1)).await;
    let id = scene.outlast().await;
    scene.granter.says(|_| refusal("invalid_scope"));
    scene.destination.release();
    assert_eq!(scene.lab.wait(&id).await, "FAILED");
    let file = scene.lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    let reason = file["reason"].as_str().unwrap();
    for part in [
        "invalid_scope",
        "storage.read:/a",
        "https://storage",
        &scene.granter.url,
    ] {
        assert!(reason.contains(part), "{part} in {reason}");
    }
    assert!(scene.destination.seen("COPY", "/f").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn unmanaged_tokens_are_used_as_they_are() {
    let scene = Scene::start(turning(3600)).await;
    scene.block().await;
    scene.source.put("/f", b"bytes");
    let token = scene.granter.token("alice", 2);
    let params = json!({ "unmanaged_tokens": true });
    let id = scene.lab.submit(json!([scene.file("/f", &token)]), params).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    scene.destination.release();
    assert_eq!(scene.lab.wait(&id).await, "FAILED");
    let file = scene.lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    assert!(file["reason"].as_str().unwrap().contains("expired"), "{file}");
    assert!(scene.granter.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_finder_of_a_token_does_not_get_its_successors() {
    // In each copy a storage sees the token for the other one. Its owner submitted a job with a token of alice's, and had the
    // service show each fresh one to a host of his own.
    let scene = Scene::start(turning(60)).await;
    scene.source.fault("HEAD", "/a", Fault::Status(503, "come again"));
    scene.source.fault("HEAD", "/alice", Fault::Status(503, "come again"));
    let token = scene.granter.token("alice", LIFE);
    let mut body = json!({ "files": [scene.file("/a", &token)], "params": { "retry": 50, "retry_delay": 1 } });
    let theft = scene.lab.ask("bob", Method::POST, "/jobs", Some(&body)).await;
    assert_eq!(
        theft.status,
        StatusCode::OK,
        "a token that lives may be used: {}",
        theft.text
    );
    // Beside it, a job of a broker's with the same token: fresh ones are kept for it.
    body["files"] = json!([scene.file("/alice", &token)]);
    let honest = scene.lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
    let path = format!(
        "/jobs/{}?files=file_state,reason",
        theft.json["job_id"].as_str().unwrap()
    );
    let failed = scene
        .lab
        .settled(async || scene.lab.ask("bob", Method::GET, &path, None).await.json)
        .await;
    let reason = failed["files"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("expired") && reason.contains("submitter"), "{failed}");
    // The honest job has come to a fresh one before the thief's is judged.
    let fresh = || {
        shown(&scene.source, "HEAD", "/alice")
            .iter()
            .any(|token| token.starts_with("access-"))
    };
    while !fresh() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = shown(&scene.source, "HEAD", "/a");
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen == token.expose()),
        "{seen:?}"
    );
    let honest = format!("/jobs/{}", honest.json["job_id"].as_str().unwrap());
    assert_eq!(
        scene.lab.ask("alice", Method::DELETE, &honest, None).await.status,
        StatusCode::OK
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_no_storage_would_take_are_refused_at_submission() {
    let scene = Scene::start(turning(60)).await;
    let of = |claims: Value| unsigned(&claims);
    for (token, unmanaged, word) in [
        (scene.granter.token("alice", -5), false, "has expired"),
        (scene.granter.token("alice", -5), true, "has expired"),
        (
            of(json!({ "iss": "https://nobody", "exp": 1 })),
            false,
            "A token of https://nobody has expired",
        ),
        (
            of(json!({ "iss": "https://nobody", "exp": "never" })),
            false,
            "malformed: its exp",
        ),
        (Secret::new("e30.bm8.c2ln"), false, "malformed: its payload"),
    ] {
        let body = json!({ "files": [scene.file("/f", &token)], "params": { "unmanaged_tokens": unmanaged } });
        let answer = scene.lab.ask("alice", Method::POST, "/jobs", Some(&body)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        assert!(answer.message().contains(word), "{}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_token_is_not_shown_to_its_issuer() {
    let scene = Scene::start(turning(60)).await;
    scene.block().await;
    scene.source.put("/f", b"bytes");
    let end = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 3;
    let forged = unsigned(&json!({ "iss": scene.granter.url, "sub": "alice", "exp": end, "scope": "storage.read:/a" }));
    let id = scene.lab.submit(json!([scene.file("/f", &forged)]), json!({})).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.destination.release();
    assert_eq!(scene.lab.wait(&id).await, "FAILED");
    let file = scene.lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
    assert!(file["reason"].as_str().unwrap().contains("signature"), "{file}");
    assert!(scene.granter.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tape_is_polled_with_the_token_of_the_moment() {
    // Hours pass until a file comes from tape: the token that asked for it is long void.
    let scene = Scene::start(turning(3600)).await;
    scene.source.put("/f", b"from tape");
    scene.source.library().delivers(Some(4));
    let token = scene.granter.token("alice", LIFE);
    let id = scene
        .lab
        .submit(json!([scene.file("/f", &token)]), json!({ "bring_online": 60 }))
        .await;
    assert_eq!(scene.lab.wait(&id).await, "FINISHED");
    let polls = shown(&scene.source, "GET", "/api/v1/stage/request-1");
    assert!(polls.len() >= 4, "{polls:?}");
    assert_eq!(
        (polls[0].as_str(), polls.last().unwrap().as_str()),
        (token.expose(), "access-1")
    );
    assert_eq!(scene.granter.asked(), ["token-exchange"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_an_open_secret_does_not_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::start().await;
    let secret_file = lab.directory.path().join("open.secret");
    std::fs::write(&secret_file, "anybody reads this").unwrap();
    std::fs::set_permissions(&secret_file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut config = TransferConfig::new(crate::lab::loopback());
    config.store = Some(lab.directory.path().join("other.db"));
    config.issuers.push(IssuerConfig {
        client_id: Some("fts".into()),
        secret_file: Some(secret_file),
        ..IssuerConfig::new("https://issuer.example.org", "vo")
    });
    let error = weir_fts::TransferService::start(config).await.unwrap_err();
    let text = weir_auth::error_chain(&error);
    assert!(text.contains("0644") && !text.contains("anybody"), "{text}");
    assert_eq!(lab.get("/whoami").await.status, StatusCode::OK);
}
