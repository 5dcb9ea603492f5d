//! The WLCG token profile at the storage's door, as curl meets it: the requests that the community's own compliance suite
//! makes, and those between them. Each line of a table is a token, a request and the status that the profile asks for.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};
use weir_tests::{Answer, Services, StorageSettings, run};

/// As the suite wants an endpoint: its issuer speaks for one VO, whose members read everything; members of one group have
/// all of `/wlcg/protected`.
const AREAS: &str = r#"
prefixes = ["/wlcg"]
vo = "wlcg"
[[area]]
name = "wlcg"
prefix = "/wlcg"
root = "wlcg"
create_root = true
[[area.rule]]
vo = "wlcg"
may = ["read"]
[[area]]
name = "protected"
prefix = "/wlcg/protected"
root = "protected"
create_root = true
[[area.rule]]
vo = "wlcg"
may = ["read"]
[[area.rule]]
group = "/wlcg/test"
may = ["read", "modify"]
"#;

struct Lab(Services);

/// A request: method, path, further headers.
type Ask<'a> = (&'a str, &'a str, &'a [&'a str]);

impl Lab {
    fn up() -> Result<Self> {
        let mut services = Services::start(&[StorageSettings::new("se")], "")?;
        services.storage_mut("se").stop(Duration::from_secs(60))?;
        let file = services.file("se.toml");
        let text = fs::read_to_string(&file)?;
        let (before, rest) = text.split_once("[[area]]").unwrap();
        let (_, after) = rest.split_once("[tpc]").unwrap();
        fs::write(&file, format!("{before}{}\n[tpc]{after}", AREAS.trim_start()))?;
        services.storage_mut("se").start()?;
        Ok(Self(services))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.storage("se").url)
    }

    /// A token with these claims beside the usual; null takes one away.
    fn token(&self, claims: &Value) -> Result<String> {
        self.0.token_with(claims)
    }

    fn ask(&self, token: &str, (method, path, headers): Ask<'_>) -> Result<Answer> {
        let mut curl = self.0.bare_curl();
        // The path is sent as written: curl would resolve `..` by itself.
        curl.args([
            "--path-as-is",
            "-L",
            "-X",
            method,
            "-H",
            &format!("Authorization: Bearer {token}"),
        ]);
        for header in headers {
            curl.args(["-H", header]);
        }
        if method == "PUT" {
            curl.args(["--data-binary", "content"]);
        }
        if method == "HEAD" {
            curl.arg("--head");
        }
        Ok(Answer::of(&run(curl.arg(self.url(path)))?))
    }

    fn check(&self, claims: &Value, ask: Ask<'_>, expected: u16) -> Result<()> {
        let answer = self.ask(&self.token(claims)?, ask)?;
        assert_eq!(answer.status, expected, "{claims}: {ask:?}: {}", answer.body);
        Ok(())
    }

    /// By scope.
    fn check_all(&self, table: &[(&str, &str, &str, u16)]) -> Result<()> {
        for (scope, method, path, expected) in table {
            self.check(&json!({"scope": scope}), (method, path, &[]), *expected)?;
        }
        Ok(())
    }

    fn copy(&self, scope: &str, path: &str, headers: &[&str]) -> Result<Answer> {
        self.ask(&self.token(&json!({"scope": scope}))?, ("COPY", path, headers))
    }
}

#[test]
fn scopes_allow_what_the_profile_says() -> Result<()> {
    // A job with a token for one file could change others; or one that may do its work would be refused it.
    let lab = Lab::up()?;
    lab.check_all(&[
        // The suite's basic table.
        ("openid", "GET", "/wlcg/missing", 404),
        ("openid", "PUT", "/wlcg/denied", 403),
        ("storage.modify:/", "PUT", "/wlcg/d/f", 201),
        ("storage.modify:/", "PUT", "/wlcg/gone", 201),
        ("storage.modify:/", "DELETE", "/wlcg/gone", 204),
        ("storage.modify:/", "MKCOL", "/wlcg/made", 201),
        ("storage.read:/", "PUT", "/wlcg/denied", 403),
        ("storage.modify:/", "GET", "/wlcg/d/f", 403),
        ("storage.create:/", "GET", "/wlcg/d/f", 403),
        ("storage.create:/", "PUT", "/wlcg/d/f", 403),
        ("storage.create:/", "DELETE", "/wlcg/d/f", 403),
        ("storage.read:/", "GET", "/wlcg/d/f", 200),
        // Paths: below the issuer's prefix, by whole names, whatever is there.
        ("storage.read:/compliance", "GET", "/wlcg/missing", 403),
        ("storage.read:/compliance", "GET", "/wlcg/compliance/missing", 404),
        ("storage.modify:/compliance", "PUT", "/wlcg/denied", 403),
        ("storage.modify:/compliance", "PUT", "/wlcg/compliance/new", 201),
        ("storage.read:/d", "GET", "/wlcg/d/f", 200),
        ("storage.read:/d/", "GET", "/wlcg/d/f", 200),
        ("storage.read:/d/f", "GET", "/wlcg/d/f", 200),
        ("storage.read:/wlcg/d", "GET", "/wlcg/d/f", 403),
        ("storage.read:/foo", "GET", "/wlcg/foobar", 403),
        ("storage.create:/foo", "MKCOL", "/wlcg/foobar", 403),
        ("storage.read:/foo storage.read:/d", "GET", "/wlcg/d/f", 200),
        ("storage.read:/", "GET", "/elsewhere", 403),
        ("storage.read:/", "GET", "/wlcgx", 403),
        // Ways out of a path.
        ("storage.read:/d", "GET", "/wlcg/d/../made", 400),
        ("storage.modify:/d", "PUT", "/wlcg/d/../out", 400),
        ("storage.modify:/d", "PUT", "/wlcg/d/%2e%2e/out", 400),
        ("storage.modify:/d", "PUT", "/wlcg/d%2Fout", 400),
        ("storage.read:/d", "GET", "/wlcg//d///f", 200),
        ("storage.read:/d", "GET", "/wlcg/%64/f", 200),
        // Making and changing, each as far as its scope.
        ("storage.create:/", "PUT", "/wlcg/new", 201),
        ("storage.create:/", "MKCOL", "/wlcg/dir", 201),
        ("storage.create:/", "MKCOL", "/wlcg/dir", 405),
        ("storage.create:/", "MKCOL", "/wlcg/none/dir", 409),
        ("storage.create:/", "PUT", "/wlcg/deep/er/f", 201),
        ("storage.modify:/", "PUT", "/wlcg/new", 204),
        ("storage.read:/", "MKCOL", "/wlcg/denied", 403),
        ("storage.read:/", "DELETE", "/wlcg/d/f", 403),
        ("storage.create:/a/b/c", "MKCOL", "/wlcg/a", 201),
        ("storage.create:/a/b/c", "MKCOL", "/wlcg/a/b", 201),
        ("storage.create:/a/b/c", "MKCOL", "/wlcg/a/x", 403),
        ("storage.create:/a/b/c", "PUT", "/wlcg/a/b/c", 201),
        ("storage.create:/a/b/c", "PUT", "/wlcg/a/b/d", 403),
        ("storage.modify:/a/b/c", "DELETE", "/wlcg/a/b", 403),
        ("storage.modify:/a/b/c", "DELETE", "/wlcg/a/b/c", 204),
        ("storage.stage:/", "GET", "/wlcg/d/f", 403),
        ("storage.poll:/", "GET", "/wlcg/d/f", 403),
    ])
}

#[test]
fn groups_and_audiences_count() -> Result<()> {
    // A group would open what it is not for, a token for another service be taken, or one for us and others be refused.
    let lab = Lab::up()?;
    let own = lab.0.storage("se").url.clone();
    let (member, tester) = (json!(["/wlcg"]), json!(["/wlcg", "/wlcg/test"]));
    let file = "/wlcg/protected/f";
    for (claims, method, path, expected) in [
        (json!({"scope": "wlcg.groups", "wlcg.groups": member}), "GET", file, 404),
        (json!({"scope": "wlcg.groups", "wlcg.groups": member}), "PUT", file, 403),
        (
            json!({"scope": "wlcg.groups:/wlcg/test", "wlcg.groups": tester}),
            "PUT",
            file,
            201,
        ),
        (
            json!({"scope": "wlcg.groups:/wlcg/test", "wlcg.groups": tester}),
            "GET",
            file,
            200,
        ),
        (
            json!({"scope": "wlcg.groups:/wlcg/test", "wlcg.groups": tester}),
            "PUT",
            "/wlcg/f",
            403,
        ),
        // A capability decides alone, whatever groups there are beside it.
        (
            json!({"scope": "storage.read:/", "wlcg.groups": tester}),
            "DELETE",
            file,
            403,
        ),
        (
            json!({"scope": "storage.read:/other", "wlcg.groups": tester}),
            "GET",
            file,
            403,
        ),
        (
            json!({"scope": "openid", "wlcg.groups": ["/wlcg/test/below"]}),
            "DELETE",
            file,
            403,
        ),
        (json!({"scope": "openid", "wlcg.groups": tester}), "DELETE", file, 204),
        // Audiences.
        (
            json!({"scope": "openid", "aud": "a-random-one"}),
            "GET",
            "/wlcg/missing",
            401,
        ),
        (json!({"scope": "openid", "aud": own}), "GET", "/wlcg/missing", 404),
        (
            json!({"scope": "openid", "aud": [own, "a-random-one"]}),
            "GET",
            "/wlcg/missing",
            404,
        ),
        (
            json!({"scope": "openid", "aud": ["https://fake.audience:8443", "b"]}),
            "GET",
            "/wlcg/missing",
            401,
        ),
        (
            json!({"scope": "openid", "aud": "https://wlcg.cern.ch/jwt/v1/any"}),
            "GET",
            "/wlcg/missing",
            404,
        ),
        (
            json!({"scope": "openid", "aud": format!("{own}/")}),
            "GET",
            "/wlcg/missing",
            404,
        ),
        (json!({"scope": "openid", "aud": []}), "GET", "/wlcg/missing", 401),
        (json!({"scope": "openid", "aud": null}), "GET", "/wlcg/missing", 401),
    ] {
        lab.check(&claims, (method, path, &[]), expected)?;
    }
    Ok(())
}

#[test]
fn tokens_that_are_no_good_are_401_and_the_header_says_why() -> Result<()> {
    // A client that is told 403 does not fetch a new token; one that is told 401 does it for ever.
    let lab = Lab::up()?;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::SystemTime::UNIX_EPOCH)?
        .as_secs();
    let all = "storage.read:/ storage.modify:/";
    for (what, claims, expected) in [
        ("good", json!({}), 404),
        ("expired", json!({"exp": now - 1}), 401),
        ("no end", json!({"exp": null}), 401),
        ("not yet", json!({"nbf": now + 3600}), 401),
        (
            "a clock that is a little ahead",
            json!({"nbf": now + 20, "iat": now + 20}),
            404,
        ),
        ("no version", json!({"wlcg.ver": null}), 401),
        ("another version", json!({"wlcg.ver": "2.0"}), 401),
        ("another issuer", json!({"iss": "https://elsewhere.example.org/"}), 401),
        (
            "the issuer with a slash",
            json!({"iss": format!("{}/", lab.0.issuer())}),
            401,
        ),
        ("a scope without its path", json!({"scope": "storage.read"}), 401),
        ("a scope that leads out", json!({"scope": "storage.read:/d/../.."}), 401),
        ("a scope that is no path", json!({"scope": "storage.read:d"}), 401),
    ] {
        let mut with = json!({"scope": all});
        with.as_object_mut()
            .unwrap()
            .extend(claims.as_object().unwrap().clone());
        let answer = lab.ask(&lab.token(&with)?, ("GET", "/wlcg/missing", &["X-What: x"]))?;
        assert_eq!(answer.status, expected, "{what}: {}", answer.body);
    }
    let mut nobody = lab.0.bare_curl();
    nobody.args(["-i"]).arg(lab.url("/wlcg/missing"));
    let answer = Answer::of(&run(&mut nobody)?);
    assert!(
        answer.status == 401 && answer.body.to_lowercase().contains("www-authenticate: bearer"),
        "{answer:?}"
    );
    let mut refused = lab.0.bare_curl();
    let bearer = format!(
        "Authorization: Bearer {}",
        lab.token(&json!({"scope": "storage.read:/d"}))?
    );
    refused.args(["-i", "-H", &bearer]).arg(lab.url("/wlcg/missing"));
    let answer = Answer::of(&run(&mut refused)?);
    let challenge = "error=\"insufficient_scope\"";
    assert!(answer.status == 403 && answer.body.contains(challenge), "{answer:?}");
    assert!(
        answer.body.contains("storage.read:/wlcg/missing") || answer.body.contains("storage.read:/missing"),
        "{answer:?}"
    );
    Ok(())
}

#[test]
fn copies_need_the_scopes_of_both_their_sides() -> Result<()> {
    // A third party could be made to fetch or to give away what its client may not.
    let lab = Lab::up()?;
    let all = lab.token(&json!({"scope": "storage.read:/ storage.modify:/"}))?;
    assert_eq!(lab.ask(&all, ("PUT", "/wlcg/d/f", &[]))?.status, 201);
    let source = format!("Source: {}", lab.url("/wlcg/d/f"));
    let forward = |scope: &str| -> Result<String> {
        Ok(format!(
            "TransferHeaderAuthorization: Bearer {}",
            lab.token(&json!({"scope": scope}))?
        ))
    };
    let (reads, writes, other) = (
        forward("storage.read:/d")?,
        forward("storage.create:/")?,
        forward("storage.read:/x")?,
    );
    let to = |path: &str| format!("Destination: {}", lab.url(path));
    for (scope, path, headers, expected) in [
        (
            "storage.create:/p",
            "/wlcg/p/f",
            [source.as_str(), &reads],
            Ok("success"),
        ),
        ("storage.create:/p", "/wlcg/p/f", [&source, &reads], Err(403)),
        ("storage.modify:/p", "/wlcg/p/f", [&source, &reads], Ok("success")),
        ("storage.modify:/p", "/wlcg/q", [&source, &reads], Err(403)),
        ("storage.read:/", "/wlcg/q", [&source, &reads], Err(403)),
        (
            "storage.create:/",
            "/wlcg/q",
            [&source, &other],
            Ok("failure: permission (source"),
        ),
        (
            "storage.read:/d",
            "/wlcg/d/f",
            [&to("/wlcg/r/f"), &writes],
            Ok("success"),
        ),
        ("storage.modify:/", "/wlcg/d/f", [&to("/wlcg/r/g"), &writes], Err(403)),
        ("storage.read:/x", "/wlcg/d/f", [&to("/wlcg/r/g"), &writes], Err(403)),
        (
            "storage.read:/",
            "/wlcg/d/f",
            [&to("/wlcg/r/f"), &writes],
            Ok("failure: permission (destination"),
        ),
    ] {
        let answer = lab.copy(scope, path, &[headers[0], headers[1], "Credential: none"])?;
        match expected {
            Err(status) => assert_eq!(answer.status, status, "{scope} {path}: {}", answer.body),
            Ok(word) => {
                let last = answer.body.lines().last().unwrap_or_default();
                assert!(
                    answer.status == 202 && last.starts_with(word),
                    "{scope} {path}: {}",
                    answer.body
                );
            }
        }
    }
    Ok(())
}
