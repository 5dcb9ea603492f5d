//! `dav = "full"`: dead properties, and COPY and MOVE of and over directories.

use rustix::io::Errno;
use weir_storage::{Dav, StorageConfig};

use super::{
    faulty::{Call, Fault, Faults, FaultyAreas},
    lab::{Answer, Endpoint, Lab, noise},
    namespace::balanced,
};

fn full(config: &mut StorageConfig) {
    config.areas.iter_mut().for_each(|area| area.dav = Dav::Full);
}

fn set(name: &str, value: &str) -> String {
    format!("<D:set><D:prop><z:{name}>{value}</z:{name}></D:prop></D:set>")
}

fn update(instructions: &str) -> String {
    format!("<D:propertyupdate xmlns:D=\"DAV:\" xmlns:z=\"urn:z\">{instructions}</D:propertyupdate>")
}

/// COPY or MOVE.
async fn onto(at: &Endpoint, method: &str, from: &str, to: &str) -> Answer {
    at.ask(method, from, &[("destination", &at.url(to))], "").await
}

async fn change(at: &Endpoint, path: &str, instructions: &str) -> String {
    at.ask("PROPPATCH", path, &[], update(instructions))
        .await
        .expect(207)
        .text()
}

/// The value that PROPFIND gives of the property `a`.
async fn told(at: &Endpoint, path: &str) -> Option<String> {
    let asked = "<propfind xmlns=\"DAV:\"><prop><a xmlns=\"urn:z\"/></prop></propfind>";
    let text = at
        .ask("PROPFIND", path, &[("depth", "0")], asked)
        .await
        .expect(207)
        .text();
    let (_, value) = text.split_once("<z:a ")?;
    let (_, value) = value.split_once('>').unwrap();
    Some(value.split_once("</z:a>").unwrap().0.to_owned())
}

/// A property that gets lost when its file gets another name or content was not kept.
#[tokio::test]
async fn properties_stay_with_what_they_were_given_to() {
    let lab = Lab::new();
    let at = lab.endpoint("a", full).await;
    at.put("/d/f", "x").await.expect(201);
    for path in ["/d/f", "/d/", "/"] {
        assert_eq!(told(&at, path).await, None);
        let answer = change(&at, path, &set("a", "1 &amp; 2")).await;
        assert!(
            answer.contains("<X:a xmlns:X=\"urn:z\"/></D:prop><D:status>HTTP/1.1 200 OK<"),
            "{answer}"
        );
        assert_eq!(told(&at, path).await.as_deref(), Some("1 &amp; 2"), "{path}");
    }
    let etag = at.get("/d/f").await.header("etag").to_owned();
    change(&at, "/d/f", &set("a", "new")).await;
    assert_eq!(at.get("/d/f").await.header("etag"), etag, "a property is no content");
    // RFC 4918 sections 9.7.1, 9.9.1 and 9.8.2.
    at.put("/d/f", "other").await.expect(204);
    assert_eq!(told(&at, "/d/f").await.as_deref(), Some("new"));
    onto(&at, "MOVE", "/d/f", "/d/g").await.expect(201);
    onto(&at, "COPY", "/d/g", "/h").await.expect(201);
    at.put("/i", "without").await.expect(201);
    onto(&at, "COPY", "/i", "/d/g").await.expect(204);
    assert_eq!(told(&at, "/h").await.as_deref(), Some("new"));
    assert_eq!(told(&at, "/d/g").await, None, "what was copied has none");
    onto(&at, "COPY", "/h", "/d/g").await.expect(204);
    assert_eq!(told(&at, "/d/g").await.as_deref(), Some("new"));
    onto(&at, "COPY", "/d", "/e").await.expect(201);
    assert_eq!(told(&at, "/e/").await.as_deref(), Some("1 &amp; 2"));
    assert_eq!(told(&at, "/e/g").await.as_deref(), Some("new"));
    onto(&at, "MOVE", "/e", "/d").await.expect(204);
    assert_eq!(told(&at, "/d").await.as_deref(), Some("1 &amp; 2"));
    // In listings, by name and where all is asked for.
    let all = at.ask("PROPFIND", "/d", &[("depth", "1")], "").await.expect(207).text();
    assert_eq!(all.matches("<z:a ").count(), 2, "{all}");
    let names = "<propfind xmlns=\"DAV:\"><propname/></propfind>";
    let names = at.ask("PROPFIND", "/d", &[("depth", "1")], names).await.expect(207);
    assert_eq!(names.text().matches("<X:a xmlns:X=\"urn:z\"/>").count(), 2);
    change(&at, "/d/g", "<D:remove><D:prop><z:a/><z:none/></D:prop></D:remove>").await;
    assert_eq!(told(&at, "/d/g").await, None);
}

/// Half an update, or one that nobody may make.
#[tokio::test]
async fn an_update_is_carried_out_as_a_whole_or_not_at_all() {
    let lab = Lab::new();
    let at = lab.endpoint("a", full).await;
    at.put("/f", "x").await.expect(201);
    let protected = "<D:set><D:prop><D:getetag>1</D:getetag><D:owner>me</D:owner></D:prop></D:set>";
    let answer = change(&at, "/f", &(set("a", "1") + protected)).await;
    for part in [
        "<D:prop><D:getetag/><X:owner xmlns:X=\"DAV:\"/></D:prop><D:status>HTTP/1.1 403 Forbidden</D:status><D:error>",
        "<X:a xmlns:X=\"urn:z\"/></D:prop><D:status>HTTP/1.1 424 Failed Dependency</D:status>",
    ] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
    assert_eq!(told(&at, "/f").await, None);
    let long = set("a", "1") + &set("b", &"x".repeat(20_000));
    let answer = change(&at, "/f", &long).await;
    assert!(answer.matches("507 Insufficient Storage").count() == 1, "{answer}");
    assert_eq!(told(&at, "/f").await, None);
    let if_match = [("if-match", "\"other\"")];
    at.ask("PROPPATCH", "/f", &if_match, update(&set("a", "1")))
        .await
        .expect(412);
    for scope in ["storage.read:/", "storage.create:/"] {
        let bearer = format!("Bearer {}", lab.token(scope));
        let who = [("authorization", bearer.as_str())];
        at.ask("PROPPATCH", "/f", &who, update(&set("a", "1")))
            .await
            .expect(403);
    }
    assert_eq!(told(&at, "/f").await, None);
    // A property that others have written there is no answer of ours.
    let file = std::fs::File::open(at.root.join("f")).unwrap();
    for text in [
        "<D:x",
        "",
        "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><D:getetag>x</D:getetag></D:prop></D:set></D:propertyupdate>",
    ] {
        rustix::fs::fsetxattr(
            &file,
            "user.weir.properties",
            text.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        let shown = at.ask("PROPFIND", "/f", &[("depth", "0")], "").await.expect(207).text();
        assert!(
            shown.matches("getetag").count() == 2 && !shown.contains(">x<"),
            "{shown}"
        );
        change(&at, "/f", &set("a", "1")).await;
        assert_eq!(told(&at, "/f").await.as_deref(), Some("1"));
    }
}

/// A disk that fails must not make a client believe that something is kept.
#[tokio::test]
async fn an_update_that_the_disk_does_not_take_is_refused() {
    let lab = Lab::new();
    let faults = Faults::default();
    let areas = FaultyAreas::new(&faults);
    let durable = |config: &mut StorageConfig| {
        full(config);
        config.areas[0].durability = weir_storage::Durability::Full;
    };
    let at = lab.endpoint_on("a", areas, durable).await;
    at.put("/f", "x").await.expect(201);
    for (errno, word) in [(Errno::NOSPC, "507 Insufficient"), (Errno::DQUOT, "507 Insufficient")] {
        faults.arm(Call::KeepProperties, 0, Fault::Error(errno));
        let answer = change(&at, "/f", &set("a", "1")).await;
        faults.release();
        assert!(answer.contains(word) && !answer.contains("200 OK"), "{answer}");
        assert_eq!(told(&at, "/f").await, None);
    }
    for call in [Call::Properties, Call::KeepProperties, Call::Flush] {
        faults.arm(call, 0, Fault::Error(Errno::IO));
        let answer = at.ask("PROPPATCH", "/f", &[], update(&set("a", "1"))).await;
        assert_eq!(
            (answer.status.as_u16(), faults.fired()),
            (500, 1),
            "{call:?}: {answer:?}"
        );
        faults.release();
    }
    change(&at, "/f", &set("a", "2")).await;
    assert_eq!(told(&at, "/f").await.as_deref(), Some("2"));
}

/// A copy that is visible in part, or what it replaces in part: a person who sees that does not know what is theirs.
#[tokio::test]
async fn directories_are_copied_as_a_whole() {
    let lab = Lab::new();
    let at = lab.endpoint("a", full).await;
    at.put("/d/e/f", noise(100_000)).await.expect(201);
    at.put("/d/g", "g").await.expect(201);
    at.ask("MKCOL", "/d/empty", &[], "").await.expect(201);
    let copy = async |from: &str, to: &str, more: &[(&str, &str)]| {
        let to = at.url(to);
        let mut headers = vec![("destination", to.as_str())];
        headers.extend(more);
        at.ask("COPY", from, &headers, "").await
    };
    copy("/d", "/c", &[]).await.expect(201);
    copy("/d/", "/c/", &[("overwrite", "F")]).await.expect(412);
    copy("/d", "/s", &[("depth", "0")]).await.expect(201);
    copy("/d", "/s", &[("depth", "1")]).await.expect(400);
    copy("/d", "/none/c", &[]).await.expect(409);
    copy("/none", "/c", &[]).await.expect(404);
    copy("/d", "/d/e/d", &[]).await.expect(403);
    copy("/d/e", "/d", &[]).await.expect(409);
    copy("/d", "/d", &[]).await.expect(403);
    copy("/d", "/", &[]).await.expect(403);
    copy("/d", "/t", &[("if-match", "\"x\"")]).await.expect(412);
    let names = |under: &str| -> Vec<String> {
        let names = at.names().into_iter();
        names.filter(|name| name.starts_with(under)).collect()
    };
    assert_eq!(names("c"), ["c/e/f", "c/g"]);
    assert!(at.root.join("c/empty").is_dir() && at.root.join("s").is_dir());
    assert_eq!(at.get("/c/e/f").await.body, noise(100_000));
    // Not merged: the former content is gone (RFC 4918 section 9.8.4).
    at.put("/c/old", "old").await.expect(201);
    copy("/d/", "/c/", &[]).await.expect(204);
    assert_eq!(names("c"), ["c/e/f", "c/g"]);
    // A file in the place of a directory, and the other way round.
    copy("/d/g", "/s/", &[]).await.expect(204);
    assert_eq!(at.get("/s").await.text(), "g");
    copy("/d", "/s", &[]).await.expect(204);
    assert_eq!(names("s"), ["s/e/f", "s/g"]);
    onto(&at, "MOVE", "/d/g", "/c/").await.expect(204);
    assert_eq!(at.get("/c").await.text(), "g");
    balanced(&at).await;
    at.until_clean().await;
}

/// A subject that may write a directory may not thereby remove another, nor read one.
#[tokio::test]
async fn copies_of_directories_need_every_right() {
    let lab = Lab::new();
    let at = lab.endpoint("a", full).await;
    at.put("/d/f", "x").await.expect(201);
    at.put("/t/old", "old").await.expect(201);
    let ask = async |scopes: &str, method: &str, from: &str, to: &str| {
        let bearer = format!("Bearer {}", lab.token(scopes));
        let to = at.url(to);
        let headers = [("authorization", bearer.as_str()), ("destination", to.as_str())];
        at.ask(method, from, &headers, "").await.status.as_u16()
    };
    assert_eq!(ask("storage.create:/ storage.modify:/", "COPY", "/d", "/c").await, 403);
    assert_eq!(
        ask("storage.read:/d storage.create:/other", "COPY", "/d", "/c").await,
        403
    );
    assert_eq!(ask("storage.read:/", "COPY", "/d", "/c").await, 403);
    assert_eq!(ask("storage.read:/ storage.create:/", "COPY", "/d", "/t").await, 403);
    assert_eq!(ask("storage.read:/ storage.create:/", "COPY", "/d/f", "/t").await, 403);
    // The right to what is in a directory is no right to a file of its name.
    assert_eq!(
        ask("storage.read:/ storage.modify:/t/", "COPY", "/d/f", "/t/").await,
        403
    );
    assert_eq!(at.names(), ["d/f", "t/old"]);
    assert_eq!(ask("storage.read:/d storage.create:/c", "COPY", "/d", "/c").await, 201);
    assert_eq!(ask("storage.read:/d storage.modify:/t", "COPY", "/d", "/t").await, 204);
    at.until_clean().await;
    assert_eq!(at.names(), ["c/f", "d/f", "t/f"]);
}

/// A tree that is too large is refused before any of it is copied, and a copy that a quota ends leaves nothing.
#[tokio::test]
async fn a_tree_that_is_too_large_is_not_copied_in_part() {
    let lab = Lab::new();
    let limited = |config: &mut StorageConfig| {
        full(config);
        config.areas[0].quota = Some(weir_units::Bytes(250_000));
    };
    let at = lab.endpoint("a", limited).await;
    at.put("/d/a", noise(60_000)).await.expect(201);
    at.put("/d/b", noise(70_000)).await.expect(201);
    let answer = onto(&at, "COPY", "/d", "/c").await.expect(507);
    assert!(answer.text().contains("quota"), "{}", answer.text());
    for number in 0..100 {
        std::fs::create_dir_all(at.root.join(format!("many/{number}"))).unwrap();
        (0..100).for_each(|name| std::fs::create_dir(at.root.join(format!("many/{number}/{name}"))).unwrap());
    }
    let answer = onto(&at, "COPY", "/many", "/c").await.expect(403);
    assert!(
        answer.text().contains("/many holds more than 10000"),
        "{}",
        answer.text()
    );
    // Longer than any request's path, and deeper.
    for (from, names, length) in [("/long", 18, 200), ("/deep", 250, 3)] {
        let folder = (0..names).fold(at.root.join(&from[1..]), |path, _| path.join("n".repeat(length)));
        std::fs::create_dir_all(&folder).unwrap();
        onto(&at, "COPY", from, &format!("/{}", "t".repeat(100)))
            .await
            .expect(201);
        let below = format!("/{}", vec!["p".repeat(60); 10].join("/"));
        std::fs::create_dir_all(at.root.join(&below[1..])).unwrap();
        let to = format!("{below}/q");
        onto(&at, "COPY", from, &to).await.expect(400);
        onto(&at, "DELETE", &format!("/{}", "t".repeat(100)), "/")
            .await
            .expect(204);
    }
    at.until_clean().await;
    balanced(&at).await;
    assert_eq!(at.names(), ["d/a", "d/b"]);
}

/// Elsewhere nothing changes: a program that means a file never loses a directory.
#[tokio::test]
async fn areas_without_it_refuse_and_say_so() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/d/f", "x").await.expect(201);
    at.put("/g", "g").await.expect(201);
    let answer = onto(&at, "COPY", "/d", "/c").await.expect(403);
    assert!(
        answer.text().contains("only files are copied here"),
        "{}",
        answer.text()
    );
    for method in ["COPY", "MOVE"] {
        onto(&at, method, "/g", "/d").await.expect(409);
    }
    let answer = change(&at, "/g", &set("a", "1")).await;
    assert!(answer.contains("403 Forbidden"), "{answer}");
    assert_eq!(at.names(), ["d/f", "g"]);
}
