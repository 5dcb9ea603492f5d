//! Jobs that users see, change and cancel: `user_level`.

use std::{fs, io::Write};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use weir_transfer::config::Level;

use crate::{
    certificates::Grid,
    lab::Answer,
    stub::{Fault, Stub},
};

/// Ada and Bob are of the VO of tokens, Fay is of another one; all have certificates. Alice and Bob have tokens.
struct Scene {
    grid: Grid,
    source: Stub,
}

/// The caller.
#[derive(Debug, Clone, Copy)]
enum Who {
    Token(&'static str),
    Certificate(&'static str),
}

impl Scene {
    async fn start(level: Option<Level>) -> Self {
        let grid = Grid::start_managed(|config, _, folder| {
            if let Some(level) = level {
                config.user_level = level;
            }
            let mut map = fs::OpenOptions::new()
                .append(true)
                .open(folder.join("grid-mapfile"))
                .unwrap();
            writeln!(map, "\"/O=Weir/CN=Fay\" robot").unwrap();
        });
        let source = Stub::start();
        source.put("/f", b"content");
        Self {
            grid: grid.await,
            source,
        }
    }

    async fn ask(&self, who: Who, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let user = match who {
            Who::Token(name) => return self.grid.lab.ask(name, method, path, body).await,
            Who::Certificate(name) => self.grid.user(name),
        };
        match body {
            Some(body) => user.post(path, body).await,
            None if method == Method::DELETE => user.delete(path).await,
            None => user.get(path).await,
        }
    }

    /// A job of Alice's, whose copy does not end by itself.
    async fn submit(&self) -> String {
        let destination = Stub::start();
        destination.fault("COPY", "/f", Fault::Held);
        let files = json!([{ "sources": [self.source.url("/f")], "destinations": [destination.url("/f")] }]);
        self.grid.lab.submit(files, json!({ "copy_mode": "pull" })).await
    }

    /// The rights of these users on a job of Alice's: see it, see it listed, change its priority, cancel it. All or nothing.
    async fn assert(&self, may: &[Who], may_not: &[Who]) {
        for (who, expected) in may
            .iter()
            .map(|who| (*who, true))
            .chain(may_not.iter().map(|who| (*who, false)))
        {
            let id = self.submit().await;
            let path = format!("/jobs/{id}");
            let status = if expected {
                StatusCode::OK
            } else {
                StatusCode::FORBIDDEN
            };
            let seen = self.ask(who, Method::GET, &path, None).await;
            assert_eq!(seen.status, status, "{who:?}: {}", seen.text);
            let listed = self.ask(who, Method::GET, "/jobs", None).await.json;
            let listed = listed.as_array().unwrap().iter().any(|job| job["job_id"] == *id);
            assert_eq!(listed, expected, "{who:?}");
            let change = json!({ "params": { "priority": 5 } });
            let changed = self.ask(who, Method::POST, &path, Some(&change)).await;
            assert_eq!(changed.status, status, "{who:?}: {}", changed.text);
            let cancelled = self.ask(who, Method::DELETE, &path, None).await;
            assert_eq!(cancelled.status, status, "{who:?}: {}", cancelled.text);
            if !expected {
                let state = &self.grid.lab.get(&path).await.json["job_state"];
                assert!(
                    ["SUBMITTED", "ACTIVE"].iter().any(|live| state == live),
                    "{who:?}: {state}"
                );
                self.ask(Who::Token("alice"), Method::DELETE, &path, None).await;
            }
            assert_eq!(self.grid.lab.wait(&id).await, "CANCELED", "{who:?}");
            // No level lets users do what administrators do.
            for path in ["/jobs/all", "/jobs/vo/testvo"] {
                let all = self.ask(who, Method::DELETE, path, None).await;
                assert_eq!(all.status, StatusCode::FORBIDDEN, "{who:?} {path}");
            }
            let settings = self.ask(who, Method::GET, "/config/se", None).await;
            assert_eq!(settings.status, StatusCode::FORBIDDEN, "{who:?}");
        }
    }
}

const ALICE: Who = Who::Token("alice");
const BOB: Who = Who::Token("bob");
const ADA: Who = Who::Certificate("Ada");
const FAY: Who = Who::Certificate("Fay");

#[tokio::test(flavor = "multi_thread")]
async fn users_cancel_jobs_of_their_vo_with_either_credential() {
    // Rucio submits by token and cancels by certificate: transfers of deleted rules went on.
    let scene = Scene::start(None).await;
    scene.assert(&[ALICE, BOB, ADA], &[FAY]).await;
    let level = scene.ask(ADA, Method::GET, "/whoami", None).await.json;
    assert_eq!(level["level"]["transfer"], "vo", "{level}");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_jobs_are_of_their_user_alone() {
    let scene = Scene::start(Some(Level::Private)).await;
    scene.assert(&[ALICE], &[BOB, ADA, FAY]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_reaches_other_vos_even_where_certificates_do() {
    // FTS3 gives every valid token the level "all".
    let scene = Scene::start(Some(Level::All)).await;
    scene.assert(&[ALICE, BOB, ADA, FAY], &[]).await;
    // Fay's VO, and a job of hers, which Alice's token does not reach.
    let fay = scene.grid.user("Fay");
    fay.delegate(&scene.grid.certificate("Fay"), 12).await;
    let held = Stub::start();
    held.fault("PUT", "/f", Fault::Held);
    let files = json!([{ "sources": [scene.source.url("/f")], "destinations": [held.url("/f")] }]);
    let taken = fay.post("/jobs", &json!({ "files": files })).await;
    let path = format!(
        "/jobs/{}",
        taken.json["job_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{}", taken.text))
    );
    for method in [Method::GET, Method::DELETE] {
        let refused = scene.ask(ALICE, method, &path, None).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    }
    let cancelled = scene.ask(ADA, Method::DELETE, &path, None).await;
    assert_eq!(cancelled.status, StatusCode::OK, "{}", cancelled.text);
}
