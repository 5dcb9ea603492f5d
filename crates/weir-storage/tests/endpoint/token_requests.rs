//! Tokens of the endpoint's own, asked for as macaroons are and as OAuth 2.0 has it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_auth::StorageAction::{Create, Modify, Read};
use weir_http::body;
use weir_storage::{AreaConfig, Durability, StorageConfig, TokensConfig};

use super::{
    certificates::{Guest, rule, with_people},
    lab::{Answer, Endpoint, Lab, noise},
};

const MACAROON: (&str, &str) = ("content-type", "application/macaroon-request");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// People as in [`with_people`], and tokens.
fn with_tokens(lab: &Lab, name: &str) -> impl FnOnce(&mut StorageConfig) {
    let (people, key) = (with_people(lab), lab.dir.path().join(format!("{name}.token")));
    |config| {
        people(config);
        config.tokens = Some(TokensConfig::new(key));
    }
}

/// The claims of an answer's token.
fn claims(token: &str) -> Value {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

fn macaroon(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    body["macaroon"].as_str().unwrap().to_owned()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn with(at: &Endpoint, token: &str, method: &str, path: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    let content = if method == "PUT" { "x" } else { "" };
    at.ask(method, path, &[("authorization", &bearer)], content)
        .await
        .status
        .as_u16()
}

/// A token would allow more than its holder may, for longer, or elsewhere.
#[tokio::test]
async fn a_token_allows_what_was_asked_for_and_what_its_holder_may() {
    let lab = Lab::new();
    let at = lab.endpoint("a", with_tokens(&lab, "a")).await;
    at.put("/d/f", noise(100)).await.expect(201);
    let guest = |name: &str| Guest {
        at: &at,
        client: lab.client_of(name),
    };
    let (ada, bob, eve) = (guest("Ada"), guest("Bob"), guest("Eve"));

    let body = r#"{"caveats": ["activity:LIST,DOWNLOAD"], "validity": "PT60M"}"#;
    let token = macaroon(&ada.ask("POST", "/d", &[MACAROON], body).await.expect(200));
    let said = claims(&token);
    assert_eq!(
        (&said["scope"], &said["sub"]),
        (&json!("storage.read:/d"), &json!("/O=Weir/CN=Ada"))
    );
    assert!(
        (now() + 3590..=now() + 3600).contains(&said["exp"].as_u64().unwrap()),
        "{said}"
    );
    for (method, path, expected) in [
        ("GET", "/d/f", 200),
        ("PUT", "/d/g", 403),
        ("DELETE", "/d/f", 403),
        ("GET", "/e", 403),
    ] {
        assert_eq!(with(&at, &token, method, path).await, expected, "{method} {path}");
    }

    // As gfal2 asks for a file that is to be written: Bob may only read.
    let body = r#"{"caveats": ["activity:LIST,DOWNLOAD,MANAGE,UPLOAD,DELETE"], "validity": "PT60M"}"#;
    let scope = |answer: Answer| claims(&macaroon(&answer))["scope"].as_str().unwrap().to_owned();
    let asked = ada.ask("POST", "/d/new", &[MACAROON], body).await.expect(200);
    assert_eq!(scope(asked), "storage.read:/d/new storage.modify:/d/new");
    let asked = bob.ask("POST", "/d/new", &[MACAROON], body).await.expect(200);
    assert_eq!(scope(asked), "storage.read:/d/new");
    let asked = ada
        .ask("POST", "/d/new", &[MACAROON], r#"{"caveats": ["activity:UPLOAD"]}"#)
        .await
        .expect(200);
    let create = macaroon(&asked);
    assert_eq!(claims(&create)["scope"], "storage.create:/d/new");
    assert_eq!(with(&at, &create, "PUT", "/d/new").await, 201);
    assert_eq!(with(&at, &create, "PUT", "/d/new").await, 403);

    let refused = eve.ask("POST", "/d", &[MACAROON], body).await.expect(403);
    assert!(
        refused.text().contains("you have none of the requested rights"),
        "{}",
        refused.text()
    );
    bob.ask("POST", "/d", &[MACAROON], r#"{"caveats": ["activity:UPLOAD"]}"#)
        .await
        .expect(403);
    let nobody = Guest {
        at: &at,
        client: lab.client.clone(),
    };
    nobody.ask("POST", "/d", &[MACAROON], body).await.expect(401);
    for bad in ["x", r#"{"caveats": ["ip:192.0.2.1"]}"#, r#"{"validity": "PT0S"}"#] {
        ada.ask("POST", "/d", &[MACAROON], bad).await.expect(400);
    }
    ada.ask("POST", "/d", &[MACAROON], "x".repeat(100_000))
        .await
        .expect(413);

    // Elsewhere it is a stranger's, also where somebody has the same name for themselves.
    let other = lab.endpoint("b", with_tokens(&lab, "b")).await;
    assert_eq!(with(&other, &token, "GET", "/d/f").await, 401);
    let twin = lab.endpoint("c", |config| {
        with_tokens(&lab, "c")(config);
        config.url = Some(at.running.url().to_owned());
    });
    let twin = twin.await;
    let bearer = format!("Bearer {token}");
    let mut request = at.request("GET", "/d/f", &[("authorization", &bearer)], body::empty());
    *request.uri_mut() = format!("https://{}/d/f", twin.running.address()).parse().unwrap();
    assert_eq!(lab.client.send(request).await.unwrap().status(), 401);
}

/// A token could be renewed for ever, or outlive what it was made from.
#[tokio::test]
async fn a_token_ends_with_what_it_was_made_from() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            with_tokens(&lab, "a")(config);
            config.tokens.as_mut().unwrap().lifetime = Duration::from_secs(7200);
        })
        .await;
    let ada = Guest {
        at: &at,
        client: lab.client_of("Ada"),
    };
    let long = ada
        .ask("POST", "/d", &[MACAROON], r#"{"validity": "P7D"}"#)
        .await
        .expect(200);
    let end = claims(&macaroon(&long))["exp"].as_u64().unwrap();
    assert!(
        (now() + 7190..=now() + 7200).contains(&end),
        "no longer than the operator allows"
    );

    let bearer = format!(
        "Bearer {}",
        lab.issuer
            .mint(&json!({"scope": "storage.read:/d", "exp": now() + 300}))
    );
    let asked = ada
        .ask("POST", "/d/e", &[MACAROON, ("authorization", &bearer)], "")
        .await
        .expect(200);
    let first = macaroon(&asked);
    let said = claims(&first);
    assert_eq!(
        (&said["scope"], &said["sub"]),
        (&json!("storage.read:/d/e"), &json!("tester"))
    );
    assert!(said["exp"].as_u64().unwrap() <= now() + 300);
    // Its own tokens may ask for less, and no later end.
    let bearer = format!("Bearer {first}");
    let asked = at
        .ask(
            "POST",
            "/d/e/f",
            &[MACAROON, ("authorization", &bearer)],
            r#"{"validity": "PT2H"}"#,
        )
        .await;
    let second = claims(&macaroon(&asked.expect(200)));
    assert_eq!(second["scope"], "storage.read:/d/e/f");
    assert!(second["exp"].as_u64().unwrap() <= said["exp"].as_u64().unwrap());
    at.ask("POST", "/d", &[MACAROON, ("authorization", &bearer)], "")
        .await
        .expect(403);
}

/// A token would carry the rights of one area into another that lies in it.
#[tokio::test]
async fn no_token_reaches_into_another_area() {
    let lab = Lab::new();
    let inner = lab.dir.path().join("inner");
    let at = lab
        .endpoint("a", |config| {
            with_tokens(&lab, "a")(config);
            let rules = vec![rule(&[Create], |rule| rule.dn = Some("/O=Weir/CN=Eve".into()))];
            config.areas.push(AreaConfig {
                create_root: true,
                rules,
                durability: Durability::Cache,
                ..AreaConfig::new("inner", "/a/inner".parse().unwrap(), inner)
            });
        })
        .await;
    let guest = |name: &str| Guest {
        at: &at,
        client: lab.client_of(name),
    };
    for path in ["/", "/a", "/a/"] {
        let refused = guest("Ada").ask("POST", path, &[MACAROON], "").await.expect(403);
        assert!(refused.text().contains("one storage area"), "{}", refused.text());
    }
    guest("Ada").ask("POST", "/a/inner", &[MACAROON], "").await.expect(403);
    guest("Ada").ask("POST", "/a/other", &[MACAROON], "").await.expect(200);
    guest("Eve")
        .ask("POST", "/a/inner/x", &[MACAROON], "")
        .await
        .expect(200);
    guest("Ada")
        .ask("POST", "/.weir-private", &[MACAROON], "")
        .await
        .expect(403);
}

/// A token would count for less than its holder's own, where only some issuers do, or a VO be lost on the way.
#[tokio::test]
async fn an_own_token_counts_where_it_was_made() {
    let lab = Lab::new();
    let other = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            with_tokens(&lab, "a")(config);
            config.issuers.push(weir_storage::IssuerConfig::new(&other.issuer.url));
            config.areas[0].issuers = vec![other.issuer.url.clone()];
            config.areas[0]
                .rules
                .push(rule(&[Read, Modify], |rule| rule.group = Some("/ops".into())));
        })
        .await;
    let ada = Guest {
        at: &at,
        client: lab.client_of("Ada"),
    };
    let token = macaroon(&ada.ask("POST", "/d", &[MACAROON], "").await.expect(200));
    assert_eq!(with(&at, &token, "PUT", "/d/f").await, 201);
    let lines = at.log_lines(2).await;
    assert_eq!(
        (&lines[1]["vo"], &lines[1]["issuer"]),
        (&json!("dune"), &json!(at.running.url()))
    );
    // A client whose own token does not count gets none.
    for claims in [
        json!({"scope": "storage.read:/"}),
        json!({"scope": "", "wlcg.groups": ["/ops"]}),
    ] {
        let bearer = format!("Bearer {}", lab.issuer.mint(&claims));
        at.ask("POST", "/d", &[MACAROON, ("authorization", &bearer)], "")
            .await
            .expect(403);
    }
    for line in lines {
        assert!(!line.to_string().contains(token.rsplit('.').next().unwrap()));
    }
}

/// A client of OAuth 2.0, gfal2 with a named issuer among them, would not find its way or not understand the answer.
#[tokio::test]
async fn forms_are_answered_as_oauth_has_it() {
    let lab = Lab::new();
    let at = lab.endpoint("a", with_tokens(&lab, "a")).await;
    let ada = Guest {
        at: &at,
        client: lab.client_of("Ada"),
    };
    let body = |answer: Answer| serde_json::from_slice::<Value>(&answer.body).unwrap();
    let mut endpoints = Vec::new();
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ] {
        let metadata = body(ada.ask("GET", path, &[], "").await.expect(200));
        assert_eq!(metadata["issuer"], at.running.url());
        endpoints.push(metadata["token_endpoint"].as_str().unwrap().to_owned());
    }
    let endpoint = endpoints[0].strip_prefix(at.running.url()).unwrap();

    let form = "grant_type=client_credentials&expire_in=600&scopes=LIST%3A%2Fd+DOWNLOAD%3A%2Fd+UPLOAD%3A%2Fe";
    let answer = body(ada.ask("POST", endpoint, &[FORM], form).await.expect(200));
    assert_eq!(
        (&answer["token_type"], &answer["scope"]),
        (&json!("Bearer"), &json!("storage.read:/d storage.create:/e"))
    );
    assert!(
        (590..=600).contains(&answer["expires_in"].as_u64().unwrap()),
        "{answer}"
    );
    assert_eq!(
        with(&at, answer["access_token"].as_str().unwrap(), "PUT", "/e/f").await,
        201
    );

    for (form, error) in [
        ("grant_type=client_credentials", "invalid_scope"),
        ("grant_type=client_credentials&scope=storage.stage:/d", "invalid_scope"),
        ("grant_type=password&scope=storage.read:/d", "unsupported_grant_type"),
        (
            "grant_type=client_credentials&scope=DOWNLOAD:/d&expire_in=soon",
            "invalid_request",
        ),
        ("grant_type=client_credentials&scope=LIST:/d", "invalid_scope"),
        ("grant_type=client_credentials&scope=DELETE:/d", "invalid_scope"),
    ] {
        let answer = ada.ask("POST", endpoint, &[FORM], form).await.expect(400);
        assert_eq!(body(answer)["error"], error, "{form}");
    }
    ada.ask("POST", endpoint, &[], form).await.expect(415);
    let nobody = Guest {
        at: &at,
        client: lab.client.clone(),
    };
    nobody.ask("POST", endpoint, &[FORM], form).await.expect(401);
}

/// Where no tokens are made, or for other kinds of POST, a client would read a file as the answer.
#[tokio::test]
async fn any_other_post_is_refused() {
    let lab = Lab::new();
    let (with, without) = (
        lab.endpoint("a", with_tokens(&lab, "a")).await,
        lab.endpoint("b", with_people(&lab)).await,
    );
    with.ask("POST", "/f", &[("content-type", "application/json")], "{}")
        .await
        .expect(405);
    with.ask("POST", "/f", &[], "").await.expect(405);
    without.ask("POST", "/f", &[MACAROON], "{}").await.expect(405);
    without
        .ask("POST", "/.well-known/weir/token", &[FORM], "x")
        .await
        .expect(405);
    without
        .ask("GET", "/.well-known/oauth-authorization-server", &[], "")
        .await
        .expect(404);
}

/// A token of ours would be made for nobody: one whose holder no record could name.
#[tokio::test]
async fn a_nameless_client_gets_no_token() {
    let lab = Lab::new();
    let with_tokens = with_tokens(&lab, "a");
    let at = lab
        .endpoint("a", |config| {
            with_tokens(config);
            config.issuers[0].dialects = vec![weir_auth::Dialect::SciTokens];
        })
        .await;
    let claims = json!({
        "iss": lab.issuer.url, "aud": "ANY", "exp": 99_999_999_999_u64, "ver": "scitoken:2.0", "scope": "read:/",
    });
    let nameless = lab.issuer.sign(&json!({"alg": "ES256"}), &claims);
    let bearer = format!("Bearer {nameless}");
    let headers = [MACAROON, ("authorization", &bearer)];
    let refused = at.ask("POST", "/d", &headers, "").await.expect(403);
    assert!(
        refused.text().contains("your credential has no name"),
        "{}",
        refused.text()
    );
}
