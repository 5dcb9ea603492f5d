//! Rights of a subject that may only create files on the files of others.

use std::time::Duration;

use serde_json::json;

use super::lab::{Answer, Endpoint, Lab};

async fn moves(at: &Endpoint, token: &str, from: &str, to: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let to = at.url(to);
    at.ask(
        "MOVE",
        from,
        &[("authorization", bearer.as_str()), ("destination", to.as_str())],
        "",
    )
    .await
}

async fn puts(at: &Endpoint, token: &str, path: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    at.ask("PUT", path, &[("authorization", bearer.as_str())], "other bytes")
        .await
}

/// A worker node's token for its output could swap every file of the VO.
#[tokio::test]
async fn a_create_only_token_does_not_swap_what_others_stored() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let of = |subject: &str| {
        lab.issuer
            .mint(&json!({ "scope": "storage.create:/foo", "sub": subject }))
    };
    let (alice, eve) = (of("alice"), of("eve"));
    puts(&at, &alice, "/foo/a").await.expect(201);
    // Step by step: the file out of the way, then another one in its place.
    let refused = moves(&at, &eve, "/foo/a", "/foo/stolen").await.expect(403);
    assert!(refused.text().contains("storage.modify:/foo/a"), "{}", refused.text());
    puts(&at, &eve, "/foo/a").await.expect(403);
    assert_eq!(at.get("/foo/a").await.text(), "other bytes");
    // Files that came there by other ways have no creator.
    std::fs::write(at.root.join("foo/planted"), "x").unwrap();
    moves(&at, &alice, "/foo/planted", "/foo/mine").await.expect(403);
    // Nor is it hers any more when its content was changed behind the endpoint's back.
    puts(&at, &alice, "/foo/changed").await.expect(201);
    std::fs::write(at.root.join("foo/changed"), "longer than before").unwrap();
    moves(&at, &alice, "/foo/changed", "/foo/mine").await.expect(403);
    // Her own she may move, again and again, and write anew; a checksum that is added later does not change whose it is.
    moves(&at, &alice, "/foo/a", "/foo/b").await.expect(201);
    at.ask("HEAD", "/foo/b", &[("want-digest", "md5")], "")
        .await
        .expect(200);
    moves(&at, &alice, "/foo/b", "/foo/c").await.expect(201);
    puts(&at, &alice, "/foo/a").await.expect(201);
    moves(&at, &eve, "/foo/c", "/foo/d").await.expect(403);
    // The same subject of nobody who signs here would not come so far; the right to modify needs no record.
    let manager = lab
        .issuer
        .mint(&json!({ "scope": "storage.modify:/foo", "sub": "eve" }));
    moves(&at, &manager, "/foo/c", "/foo/d").await.expect(201);
}

/// Tools of before could rename at once what another credential of theirs wrote.
#[tokio::test]
async fn an_operator_may_let_new_files_be_moved_for_a_while() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| config.areas[0].movable_for = Duration::from_secs(3600))
        .await;
    let token = lab
        .issuer
        .mint(&json!({ "scope": "storage.create:/foo", "sub": "eve" }));
    at.put("/foo/new", "x").await.expect(201);
    at.put("/foo/old", "x").await.expect(201);
    let file = std::fs::File::options()
        .write(true)
        .open(at.root.join("foo/old"))
        .unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(7200))
        .unwrap();
    moves(&at, &token, "/foo/new", "/foo/a").await.expect(201);
    moves(&at, &token, "/foo/old", "/foo/b").await.expect(403);
}
