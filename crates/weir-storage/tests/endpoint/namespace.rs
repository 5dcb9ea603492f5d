//! MKCOL, DELETE, MOVE, COPY within the endpoint; several areas.

use super::lab::{Endpoint, Lab, noise, until};

/// gfal2 makes directories one by one and expects to be told which exist.
#[tokio::test]
async fn directories_are_made_and_removed() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.ask("MKCOL", "/d", &[], "").await.expect(201);
    at.ask("MKCOL", "/d/", &[], "").await.expect(405);
    at.ask("MKCOL", "/", &[], "").await.expect(405);
    at.ask("MKCOL", "/x/y", &[], "").await.expect(409);
    at.ask("MKCOL", "/e", &[], "body").await.expect(415);
    at.put("/d/e/f", noise(10)).await.expect(201);
    at.put("/d/g", noise(20)).await.expect(201);
    at.ask("MKCOL", "/d/g", &[], "").await.expect(405);
    at.ask("MKCOL", "/d/g/h", &[], "").await.expect(409);
    assert_eq!(at.running.counters()["data"].used, 30);
    at.ask("DELETE", "/d/g/", &[], "").await.expect(404);
    at.ask("DELETE", "/d", &[("depth", "1")], "").await.expect(400);
    at.ask("DELETE", "/d", &[("depth", "0")], "").await.expect(409);
    at.ask("MKCOL", "/empty", &[], "").await.expect(201);
    at.ask("DELETE", "/empty", &[("depth", "0")], "").await.expect(204);
    at.ask("DELETE", "/d", &[], "").await.expect(204);
    at.ask("DELETE", "/d", &[], "").await.expect(404);
    at.ask("DELETE", "/", &[], "").await.expect(403);
    balanced(&at).await;
    assert!(at.names().is_empty());
}

/// A move that loses either file, or miscounts, cannot be undone.
#[tokio::test]
async fn files_and_directories_move() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let to = |path: &str| at.url(path);
    at.put("/f", "one").await.expect(201);
    at.put("/g", "second").await.expect(201);
    at.ask("MOVE", "/f", &[("destination", &to("/h%20i"))], "")
        .await
        .expect(201);
    at.ask("MOVE", "/h%20i", &[("destination", "/f")], "").await.expect(201);
    at.ask("MOVE", "/f", &[("destination", &to("/g")), ("overwrite", "F")], "")
        .await
        .expect(412);
    at.ask("MOVE", "/f", &[("destination", &to("/g"))], "")
        .await
        .expect(204);
    assert_eq!(at.get("/g").await.text(), "one");
    assert_eq!(
        (at.running.counters()["data"].used, at.running.counters()["data"].files),
        (3, 1)
    );
    at.put("/d/e/f", "x").await.expect(201);
    at.ask("MOVE", "/d", &[("destination", &to("/d/e/d"))], "")
        .await
        .expect(403);
    at.ask("MOVE", "/d/e", &[("destination", &to("/d"))], "")
        .await
        .expect(409);
    at.ask("MOVE", "/d", &[("destination", &to("/d2/"))], "")
        .await
        .expect(201);
    at.ask("MOVE", "/d2", &[("destination", &to("/g"))], "")
        .await
        .expect(204);
    balanced(&at).await;
    assert_eq!(at.names(), ["g/e/f"]);
    at.ask("MOVE", "/g", &[("destination", &to("/g"))], "")
        .await
        .expect(403);
    at.ask("MOVE", "/missing", &[("destination", &to("/y"))], "")
        .await
        .expect(404);
    at.ask("MOVE", "/g", &[("destination", &to("/no/such/y"))], "")
        .await
        .expect(409);
    at.ask("MOVE", "/g", &[("destination", "https://other.example.org/y")], "")
        .await
        .expect(502);
    at.ask("MOVE", "/g", &[], "").await.expect(400);
    at.ask("MOVE", "/g", &[("destination", &to("/%2e%2e/y"))], "")
        .await
        .expect(400);
}

/// A refused move that has already removed what it would replace loses both.
#[tokio::test]
async fn a_refused_move_changes_nothing() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/f", "file").await.expect(201);
    at.put("/d/e/g", "precious").await.expect(201);
    let to = |path: &str| at.url(path);
    at.ask("MOVE", "/f", &[("destination", &to("/d"))], "")
        .await
        .expect(409);
    at.ask("MOVE", "/f", &[("destination", &to("/new/"))], "")
        .await
        .expect(409);
    at.ask("MOVE", "/f/", &[("destination", &to("/new"))], "")
        .await
        .expect(404);
    at.ask("MOVE", "/d", &[("destination", &to("/f")), ("overwrite", "F")], "")
        .await
        .expect(412);
    assert_eq!(at.names(), ["d/e/g", "f"]);
    // Onto an empty directory there is nothing to lose.
    at.ask("MKCOL", "/empty", &[], "").await.expect(201);
    at.ask("MOVE", "/f", &[("destination", &to("/empty"))], "")
        .await
        .expect(204);
    assert_eq!(at.get("/empty").await.text(), "file");
    at.ask("DELETE", "/empty", &[], "").await.expect(204);
    at.until_clean().await;
    // While others write into it, the destination either stays as it is or is replaced as a whole.
    for round in 0..50 {
        at.put("/src/new", "new").await.expect(201);
        at.put("/dst/old", "old").await;
        let (live, destination) = (format!("/dst/live{round}"), to("/dst"));
        let headers = [("destination", destination.as_str())];
        let (moved, _) = tokio::join!(at.ask("MOVE", "/src", &headers, ""), at.put(&live, "x"));
        moved.expect(204);
        assert_eq!(at.get("/dst/new").await.expect(200).text(), "new");
        at.get("/dst/old").await.expect(404);
        at.get("/src").await.expect(404);
    }
    balanced(&at).await;
}

/// The books say what lies on the disk, and nothing else is left of what was deleted.
pub(crate) async fn balanced(at: &Endpoint) {
    at.until_clean().await;
    let on_disk: Vec<u64> = at
        .names()
        .iter()
        .map(|name| std::fs::metadata(at.root.join(name)).unwrap().len())
        .collect();
    let on_disk = (on_disk.len() as u64, on_disk.iter().sum());
    until("the books are right", || {
        let counted = at.running.counters()["data"].clone();
        (counted.files, counted.used) == on_disk
    })
    .await;
}

/// A PUT into a tree that is being deleted comes before or after it, and the deletion is done when its name is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_removers_do_not_fail_each_other() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let writer = async |number: u32| {
        for round in 0..100 {
            let path = format!("/t/{number}/{}/f", round % 3);
            let status = at.put(&path, noise(100)).await.status.as_u16();
            assert!(matches!(status, 201 | 204), "PUT {path}: {status}");
        }
    };
    let remover = async || {
        for round in 0..100 {
            let path = ["/t", "/t/1", "/t/2/1"][round % 3];
            let answer = at.ask("DELETE", path, &[], "").await;
            assert!(matches!(answer.status.as_u16(), 204 | 404), "DELETE {path}: {answer:?}");
        }
    };
    tokio::join!(writer(1), writer(2), writer(3), remover(), remover());
    balanced(&at).await;
}

/// A client that waits while a million files go has given up long before.
#[tokio::test]
async fn large_trees_go_behind_the_answer() {
    let lab = Lab::new();
    let root = lab.dir.path().join("a");
    for number in 0..4000 {
        let folder = root.join(format!("tree/{}", number % 40));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(number.to_string()), "12345").unwrap();
    }
    let at = lab.endpoint("a", |_| {}).await;
    assert_eq!(at.running.counters()["data"].files, 4000);
    at.ask("DELETE", "/tree", &[], "").await.expect(204);
    at.get("/tree").await.expect(404);
    let metrics = at.get("/.well-known/weir/metrics").await.text();
    assert!(
        metrics.contains("weir_storage_removals_waiting{area=\"data\"} "),
        "{metrics}"
    );
    until("the tree is gone", || at.running.counters()["data"].files == 0).await;
    balanced(&at).await;
}

/// A directory deeper than any real one could be made, and then not be named to remove it.
#[tokio::test]
async fn paths_have_a_depth() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let deep = |names: usize| "/d".repeat(names);
    at.put(&deep(256), "x").await.expect(201);
    at.put(&deep(257), "x").await.expect(400);
    at.ask("MKCOL", &deep(257), &[], "").await.expect(400);
    at.ask("COPY", &deep(256), &[("destination", &at.url(&deep(300)))], "")
        .await
        .expect(400);
    at.put("/t/1/2/3/f", "x").await.expect(201);
    // The file would be the 257th name.
    at.ask(
        "MOVE",
        "/t",
        &[("destination", &at.url(&format!("{}/t", deep(252))))],
        "",
    )
    .await
    .expect(400);
    at.ask(
        "MOVE",
        "/t",
        &[("destination", &at.url(&format!("{}/t", deep(251))))],
        "",
    )
    .await
    .expect(201);
    assert_eq!(at.get(&format!("{}/t/1/2/3/f", deep(251))).await.text(), "x");
    at.ask("DELETE", "/d", &[], "").await.expect(204);
    balanced(&at).await;
}

/// rclone copies on the server's side where it can.
#[tokio::test]
async fn files_are_copied_within_the_endpoint() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let content = noise(1_500_000);
    at.put("/f", content.clone()).await.expect(201);
    // WebDAV's own COPY makes no directories.
    at.ask("COPY", "/f", &[("destination", &at.url("/d/g"))], "")
        .await
        .expect(409);
    at.ask("MKCOL", "/d", &[], "").await.expect(201);
    at.ask("COPY", "/f", &[("destination", &at.url("/d/g"))], "")
        .await
        .expect(201);
    assert!(at.get("/d/g").await.body == content);
    at.ask(
        "COPY",
        "/f",
        &[("destination", &at.url("/d/g")), ("overwrite", "F")],
        "",
    )
    .await
    .expect(412);
    at.ask("COPY", "/f", &[("destination", &at.url("/d/g"))], "")
        .await
        .expect(204);
    at.ask("COPY", "/f", &[("destination", &at.url("/f"))], "")
        .await
        .expect(403);
    at.ask("COPY", "/d", &[("destination", &at.url("/e"))], "")
        .await
        .expect(403);
    assert_eq!(at.running.counters()["data"].files, 2);
}

/// Areas of one endpoint must not leak into each other, and what lies above them must be there to look at.
#[tokio::test]
async fn areas_stay_apart() {
    let lab = Lab::new();
    let dir = lab.dir.path().to_owned();
    let at = lab
        .endpoint("a", |config| {
            config.areas[0].prefix = "/vo/atlas".parse().unwrap();
            let mut second = config.areas[0].clone();
            second.name = "cms".into();
            second.prefix = "/vo/cms".parse().unwrap();
            second.root = dir.join("second");
            second.anonymous_read = true;
            config.areas.push(second);
        })
        .await;
    at.put("/vo/atlas/f", "atlas").await.expect(201);
    at.put("/vo/cms/f", "cms!").await.expect(201);
    at.put("/vo/lhcb/f", "x").await.expect(403);
    at.put("/f", "x").await.expect(403);
    at.get("/vo/lhcb/f").await.expect(404);
    at.ask("MKCOL", "/vo", &[], "").await.expect(405);
    at.ask("MKCOL", "/vo/atlas", &[], "").await.expect(405);
    at.ask("DELETE", "/vo/atlas", &[], "").await.expect(403);
    at.ask("DELETE", "/vo", &[], "").await.expect(403);
    at.ask("MOVE", "/vo/atlas/f", &[("destination", &at.url("/vo/cms/g"))], "")
        .await
        .expect(502);
    at.ask("COPY", "/vo/atlas/f", &[("destination", &at.url("/vo/cms/g"))], "")
        .await
        .expect(201);
    let listing = at
        .ask("PROPFIND", "/vo", &[("depth", "1")], "")
        .await
        .expect(207)
        .text();
    for href in [
        "<D:href>/vo/</D:href>",
        "<D:href>/vo/atlas/</D:href>",
        "<D:href>/vo/cms/</D:href>",
    ] {
        assert!(listing.contains(href), "{href}: {listing}");
    }
    at.ask("PROPFIND", "/", &[("depth", "0")], "").await.expect(207);
    let counters = at.running.counters();
    assert_eq!((counters["data"].used, counters["cms"].used), (5, 9));
    // Where reading is for all, a token is not needed, and a bad one does no harm.
    assert_eq!(
        at.ask("GET", "/vo/cms/f", &[("authorization", "none")], "")
            .await
            .expect(200)
            .text(),
        "cms!"
    );
    at.ask("PROPFIND", "/vo/cms", &[("authorization", "none"), ("depth", "1")], "")
        .await
        .expect(207);
    at.ask("GET", "/vo/atlas/f", &[("authorization", "none")], "")
        .await
        .expect(401);
    at.ask("PUT", "/vo/cms/h", &[("authorization", "none")], "x")
        .await
        .expect(401);
    // Reading is not having it sent to a third party: that would be an upload cannon for strangers.
    let elsewhere = at.url("/vo/atlas/cannon");
    at.push("/vo/cms/f", &elsewhere, &[("authorization", "none")])
        .await
        .expect(401);
    let writer = format!("Bearer {}", lab.token("storage.modify:/vo/atlas"));
    at.push("/vo/cms/f", &elsewhere, &[("authorization", &writer)])
        .await
        .expect(403);
    at.push("/vo/cms/f", &elsewhere, &[]).await.copied();
}

/// A token for the outer area would read, and replace, files of the inner one.
#[tokio::test]
async fn areas_inside_one_another_are_refused_wherever_links_lead() {
    use weir_storage::{StartError, Storage, config::AreaConfig};
    let lab = Lab::new();
    let (folder, link) = (lab.dir.path().join("big"), lab.dir.path().join("link"));
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    for (ours, theirs, word) in [
        (folder.join("inner"), folder.clone(), "holds"),
        (folder.clone(), folder.join("inner/new"), "lies inside"),
        (folder.clone(), link.join("inner"), "lies inside"),
        (folder.clone(), link.clone(), "is taken by"),
        (link.join("a/b"), folder.clone(), "holds"),
    ] {
        let mut config = lab.config("a", "127.0.0.1:0".parse().unwrap());
        config.areas[0].root.clone_from(&ours);
        config
            .areas
            .push(AreaConfig::new("more", "/more".parse().unwrap(), &theirs));
        let error = Storage::start(config).await.map(drop).unwrap_err();
        assert!(matches!(error, StartError::Config(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("area[1].root") && text.contains(word),
            "{ours:?}, {theirs:?}: {text}"
        );
    }
}
