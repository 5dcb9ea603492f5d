//! Tokens: 401 for those that are no good, 403 for those that do not suffice, with the missing scope named.

use serde_json::{Value, json};

use super::lab::{Endpoint, Lab, noise};

/// One of these let in by mistake is a stranger in the storage.
#[tokio::test]
async fn bad_tokens_are_turned_away() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/f", noise(3)).await.expect(201);
    let scope = json!("storage.read:/ storage.modify:/");
    let claims = |name: &str, value: Value| lab.issuer.mint(&json!({"scope": scope, name: value}));
    let payload = json!({"iss": lab.issuer.url, "sub": "x", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0",
        "iat": 1, "nbf": 1, "exp": 99_999_999_999_u64, "jti": "x", "scope": scope});
    let unsigned = lab.issuer.sign(&json!({"alg": "none"}), &payload);
    let unsigned = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
    let mut forged = claims("sub", json!("y"));
    forged.replace_range(forged.len() - 6.., "AAAAAA");
    let stranger = Lab::new();
    for (what, token, expected) in [
        ("expired", claims("exp", json!(1_700_000_000)), "expired"),
        ("not yet", claims("nbf", json!(99_999_999_999_u64)), "not valid"),
        (
            "audience",
            claims("aud", json!("https://elsewhere.example.org")),
            "elsewhere",
        ),
        ("no audience", claims("aud", Value::Null), "aud"),
        ("version", claims("wlcg.ver", json!("2.0")), "wlcg.ver"),
        ("scope without a path", claims("scope", json!("storage.read")), "scope"),
        ("none", unsigned, "none"),
        ("signature", forged, "signature"),
        ("issuer", stranger.all(), "not trusted"),
        ("nonsense", "x.y.z".into(), "JWT"),
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let answer = at
                .ask(method, "/f", &[("authorization", &format!("Bearer {token}"))], "")
                .await
                .expect(401);
            assert!(answer.text().contains(expected), "{what}: {}", answer.text());
            assert!(
                answer
                    .header("www-authenticate")
                    .starts_with("Bearer error=\"invalid_token\"")
            );
        }
    }
    for header in ["", "Basic dXNlcjpwYXNz", "Bearer"] {
        let answer = at.ask("GET", "/f", &[("authorization", header)], "").await.expect(401);
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{header}");
    }
    at.get("/f").await.expect(200);
}

async fn check(lab: &Lab, at: &Endpoint, scope: &str, method: &str, path: &str, expected: u16) {
    let bearer = format!("Bearer {}", lab.token(scope));
    let destination = at.url("/vo/new");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("depth", if method == "LIST" { "1" } else { "0" }),
    ];
    let verb = match method {
        "LIST" => "PROPFIND",
        "MOVE" => {
            headers.push(("destination", &destination));
            "MOVE"
        }
        other => other,
    };
    let answer = at.ask(verb, path, &headers, if verb == "PUT" { "x" } else { "" }).await;
    assert_eq!(
        answer.status.as_u16(),
        expected,
        "{scope}: {method} {path}: {}",
        answer.text()
    );
    if expected == 403 {
        assert!(
            answer.text().contains("needs storage."),
            "the missing scope is named: {}",
            answer.text()
        );
        assert!(answer.header("www-authenticate").contains("insufficient_scope"));
    }
}

/// The operation table of the token profile, at the door.
#[tokio::test]
async fn rights_are_those_of_the_profile() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/vo/f", noise(3)).await.expect(201);
    at.put("/void", noise(3)).await.expect(201);
    for (scope, method, path, expected) in [
        ("storage.read:/vo", "GET", "/vo/f", 200),
        ("storage.read:/vo", "GET", "/void", 403),
        ("storage.read:/vo", "GET", "/vo/missing", 404),
        ("storage.read:/vo", "LIST", "/vo", 207),
        ("storage.read:/vo", "PUT", "/vo/f", 403),
        ("storage.create:/vo", "GET", "/vo/f", 403),
        ("storage.create:/vo", "HEAD", "/vo/f", 200),
        ("storage.create:/vo", "PROPFIND", "/vo/f", 207),
        ("storage.create:/vo", "LIST", "/vo", 403),
        ("storage.create:/vo", "PUT", "/vo/f", 403),
        ("storage.create:/vo", "DELETE", "/vo/f", 403),
        ("storage.create:/vo", "PUT", "/vo/created", 201),
        ("storage.create:/vo", "MOVE", "/vo/created", 201),
        ("storage.create:/vo", "MOVE", "/vo/f", 403),
        ("storage.stage:/vo", "GET", "/vo/f", 403),
        // Parents of what a token may make can be looked at and made, and no more.
        ("storage.create:/vo/a/b", "PROPFIND", "/vo", 207),
        ("storage.create:/vo/a/b", "PROPFIND", "/", 207),
        ("storage.create:/vo/a/b", "LIST", "/vo", 403),
        ("storage.create:/vo/a/b", "MKCOL", "/vo", 405),
        ("storage.create:/vo/a/b", "MKCOL", "/vo/a", 201),
        ("storage.create:/vo/a/b", "MKCOL", "/vo/c", 403),
        ("storage.create:/vo/a/b", "PUT", "/vo/a/c", 403),
        ("storage.modify:/vo/f", "PUT", "/vo/f", 204),
        ("storage.modify:/vo/f", "PROPFIND", "/vo", 207),
        ("storage.modify:/vo", "DELETE", "/void", 403),
        ("storage.modify:/vo", "DELETE", "/vo/f", 204),
        ("openid offline_access", "GET", "/void", 403),
    ] {
        check(&lab, &at, scope, method, path, expected).await;
    }
}

/// A SciToken of an issuer that writes them would be refused, or taken of one that does not.
#[tokio::test]
async fn scitokens_are_taken_where_they_are_named() {
    let lab = Lab::new();
    let sci = |scope: &str| {
        let claims = json!({"iss": lab.issuer.url, "aud": "ANY", "exp": 99_999_999_999_u64, "ver": "scitoken:2.0", "scope": scope});
        format!("Bearer {}", lab.issuer.sign(&json!({"alg": "ES256"}), &claims))
    };
    let at = lab
        .endpoint("a", |config| {
            config.issuers[0].dialects = vec![weir_auth::Dialect::Wlcg, weir_auth::Dialect::SciTokens];
        })
        .await;
    for (scope, method, path, expected) in [
        ("write:/vo", "PUT", "/vo/f", 201),
        ("read:/vo", "GET", "/vo/f", 200),
        ("read", "GET", "/vo/f", 200),
        ("read:/vo", "PUT", "/vo/f", 403),
        ("write:/vo", "DELETE", "/vo/f", 204),
    ] {
        let answer = at
            .ask(method, path, &[("authorization", &sci(scope))], "x")
            .await
            .expect(expected);
        assert!(
            expected != 403 || answer.text().contains("needs write:/vo/f"),
            "{}",
            answer.text()
        );
    }
    let strict = lab.endpoint("b", |_| {}).await;
    let answer = strict
        .ask("GET", "/vo/f", &[("authorization", &sci("read"))], "")
        .await
        .expect(401);
    assert!(answer.text().contains("dialects"), "{}", answer.text());
}

/// An issuer must not speak for more than its prefix.
#[tokio::test]
async fn an_issuer_is_held_to_its_prefix() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| config.issuers[0].prefixes = vec!["/vo".parse().unwrap()])
        .await;
    at.put("/vo/f", "x").await.expect(201);
    let answer = at.put("/f", "x").await.expect(403);
    assert!(answer.text().contains("no say"), "{}", answer.text());
    let bearer = format!("Bearer {}", lab.token("storage.read:/f"));
    at.ask("GET", "/vo/f", &[("authorization", &bearer)], "")
        .await
        .expect(200);
}

/// A token that finds its way into a log can be used by whoever reads it.
#[tokio::test]
async fn no_token_reaches_the_log() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let token = lab.all();
    at.put("/f", noise(70_000)).await.expect(201);
    at.ask(
        "GET",
        "/f",
        &[
            ("user-agent", &format!("curl Bearer {token}")),
            ("clientinfo", "job-id=1; file-id=2; retry=0"),
        ],
        "",
    )
    .await
    .expect(200);
    at.ask("GET", &format!("/f?authz=Bearer%20{token}"), &[], "")
        .await
        .expect(200);
    at.pull("/g", &format!("{}?access_token={token}", at.url("/f")), &[])
        .await
        .copied();
    at.pull("/h", &format!("{}?access_token={token}", at.url("/missing")), &[])
        .await
        .failed(&["not-found"]);
    let lines = at.log_lines(7).await;
    let signature = token.rsplit('.').next().unwrap();
    for line in &lines {
        let text = line.to_string();
        assert!(!text.contains(signature) && !text.contains(&token[..40]), "{text}");
    }
    let put = lines.iter().find(|line| line["method"] == "PUT").unwrap();
    assert_eq!(
        (&put["status"], &put["transfer"]["bytes"], &put["subject"]),
        (&json!(201), &json!(70_000), &json!("tester"))
    );
    let pull = lines
        .iter()
        .find(|line| line["transfer"]["kind"] == "pull" && line["path"] == "/g")
        .unwrap();
    assert_eq!(pull["transfer"]["completed"], json!(true));
    assert_eq!(pull["transfer"]["remote"], json!(at.url("/f")));
    assert!(
        lines
            .iter()
            .any(|line| line["client_info"] == "job-id=1; file-id=2; retry=0")
    );
}
