//! Clients that show a certificate instead of a token: whom the endpoint takes them for, and what that allows.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::json;
use weir_auth::{Rule, StorageAction, x509::DoorConfig};
use weir_http::{Body, Client, body};
use weir_storage::StorageConfig;

use super::lab::{Answer, Endpoint, Lab, noise};

/// A client without a token.
pub(crate) struct Guest<'a> {
    pub(crate) at: &'a Endpoint,
    pub(crate) client: Client,
}

impl Guest<'_> {
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        content: impl Into<Bytes>,
    ) -> Answer {
        self.send(method, path, headers, body::full(content.into())).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], content: Body) -> Answer {
        let mut request = self.at.request(method, path, headers, content);
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request.headers_mut().remove("authorization");
        }
        let (parts, incoming) = self.client.send(request).await.unwrap().into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: incoming.collect().await.unwrap().to_bytes(),
        }
    }
}

pub(crate) fn rule(may: &[StorageAction], set: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule {
        may: may.to_vec(),
        ..Rule::default()
    };
    set(&mut rule);
    rule
}

/// Ada and Bob are of dune by the grid-mapfile, and may read; Ada may write as well.
pub(crate) fn with_people(lab: &Lab) -> impl FnOnce(&mut StorageConfig) {
    let gridmap = lab.dir.path().join("grid-mapfile");
    std::fs::write(&gridmap, "\"/O=Weir/CN=Ada\" .dune\n\"/O=Weir/CN=Bob\" .dune\n").unwrap();
    let x509 = DoorConfig {
        gridmap: Some(gridmap),
        ..DoorConfig::new(lab.authorities())
    };
    |config| {
        config.x509 = Some(x509);
        config.areas[0].rules = vec![
            rule(&[StorageAction::Read], |rule| rule.vo = Some("dune".into())),
            rule(&[StorageAction::Modify], |rule| rule.dn = Some("/O=Weir/CN=Ada".into())),
        ];
    }
}

/// Every client with a certificate would be let in, or an allowed one would not be.
#[tokio::test]
async fn rights_are_those_of_the_rules() {
    let lab = Lab::new();
    let at = lab.endpoint("a", with_people(&lab)).await;
    let guest = |name: &str| Guest {
        at: &at,
        client: lab.client_of(name),
    };
    let (ada, bob, eve) = (guest("Ada"), guest("Bob"), guest("Eve"));
    ada.ask("PUT", "/d/f", &[], noise(70_000)).await.expect(201);
    ada.ask("PUT", "/d/f", &[], noise(70_001)).await.expect(204);
    assert_eq!(bob.ask("GET", "/d/f", &[], "").await.expect(200).body, noise(70_001));
    bob.ask("PROPFIND", "/d", &[("depth", "1")], "").await.expect(207);
    let refused = bob.ask("PUT", "/d/g", &[], "x").await.expect(403);
    let reason = "this certificate may not create /d/g: no rule gives its holder this right";
    assert!(refused.text().contains(reason), "{}", refused.text());
    assert_eq!(refused.header("www-authenticate"), "");
    bob.ask("DELETE", "/d/f", &[], "").await.expect(403);
    let refused = eve.ask("GET", "/d/f", &[], "").await.expect(403);
    assert!(refused.text().contains("a rule with \"read\""), "{}", refused.text());

    ada.ask("MKCOL", "/e", &[], "").await.expect(201);
    let to = at.url("/e/f");
    bob.ask("MOVE", "/d/f", &[("destination", &to)], "").await.expect(403);
    ada.ask("MOVE", "/d/f", &[("destination", &to)], "").await.expect(201);
    ada.ask("DELETE", "/e", &[], "").await.expect(204);

    let lines = at.log_lines(11).await;
    let put = &lines[0];
    assert_eq!(
        (&put["subject"], &put["vo"]),
        (&json!("/O=Weir/CN=Ada"), &json!("dune"))
    );
    assert!(put["issuer"].as_str().unwrap().starts_with('/') && put["token_id"].is_null());
}

/// A certificate that is no good would be taken, or its holder be told to get a token.
#[tokio::test]
async fn certificates_that_are_no_good_are_turned_away() {
    let lab = Lab::new();
    let at = lab.endpoint("a", with_people(&lab)).await;
    at.put("/f", "x").await.expect(201);
    let stranger = Lab::new();
    let known = |name: &str, from: &Lab| Guest {
        at: &at,
        // Trusts our endpoint, and shows what its own authority signed.
        client: lab.client.showing(&from.certificate(name)).unwrap(),
    };
    let refused = known("Ada", &stranger).ask("GET", "/f", &[], "").await.expect(401);
    assert!(refused.text().contains("is not trusted"), "{}", refused.text());
    known("Ada", &lab).ask("GET", "/f", &[], "").await.expect(200);
    let nobody = Guest {
        at: &at,
        client: lab.client.clone(),
    };
    let refused = nobody.ask("GET", "/f", &[], "").await.expect(401);
    assert_eq!(refused.header("www-authenticate"), "Bearer");

    let open = lab.endpoint("b", |config| {
        with_people(&lab)(config);
        config.areas[0].anonymous_read = true;
    });
    let open = open.await;
    open.put("/f", "x").await.expect(201);
    let guest = Guest {
        at: &open,
        client: lab.client.showing(&stranger.certificate("Ada")).unwrap(),
    };
    guest.ask("GET", "/f", &[], "").await.expect(200);
    guest.ask("PUT", "/f", &[], "").await.expect(401);
}

/// A token that was cut down to little would gain what its bearer's certificate may.
#[tokio::test]
async fn a_token_decides_alone() {
    let lab = Lab::new();
    let at = lab.endpoint("a", with_people(&lab)).await;
    at.put("/d/f", "x").await.expect(201);
    let ada = Guest {
        at: &at,
        client: lab.client_of("Ada"),
    };
    let little = format!("Bearer {}", lab.token("storage.read:/e"));
    ada.ask("GET", "/d/f", &[("authorization", &little)], "")
        .await
        .expect(403);
    ada.ask("GET", "/d/f", &[("authorization", "Bearer x.y.z")], "")
        .await
        .expect(401);
    let eve = Guest {
        at: &at,
        client: lab.client_of("Eve"),
    };
    let enough = format!("Bearer {}", lab.token("storage.read:/d"));
    eve.ask("GET", "/d/f", &[("authorization", &enough)], "")
        .await
        .expect(200);
}

/// A client with a certificate could not have a file copied, or would have it sent anywhere.
#[tokio::test]
async fn third_party_copies_are_for_them_too() {
    let lab = Lab::new();
    let (from, at) = (
        lab.endpoint("from", |_| {}).await,
        lab.endpoint("at", with_people(&lab)).await,
    );
    from.put("/f", noise(100_000)).await.expect(201);
    let (source, token) = (from.url("/f"), format!("Bearer {}", lab.token("storage.read:/f")));
    let pull = [("Source", source.as_str()), ("TransferHeaderAuthorization", &token)];
    let guest = |name: &str| Guest {
        at: &at,
        client: lab.client_of(name),
    };
    guest("Bob").ask("COPY", "/g", &pull, "").await.expect(403);
    guest("Ada").ask("COPY", "/g", &pull, "").await.copied();

    let (destination, token) = (from.url("/h"), format!("Bearer {}", lab.token("storage.create:/h")));
    let push = [
        ("Destination", destination.as_str()),
        ("TransferHeaderAuthorization", &token),
    ];
    guest("Eve").ask("COPY", "/g", &push, "").await.expect(403);
    guest("Bob").ask("COPY", "/g", &push, "").await.copied();
    assert_eq!(from.get("/h").await.expect(200).body, noise(100_000));
}
