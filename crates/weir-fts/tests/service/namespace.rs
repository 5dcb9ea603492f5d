//! `/dm`: changes of storages' namespaces by users, through the service.

use std::{net::SocketAddr, time::Duration};

use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use weir_auth::Secret;
use weir_http::body;

use crate::{
    lab::{Answer, Lab},
    storages::Endpoint,
    stub::{Fault, Stub},
};

/// A real storage that takes the tokens of calls, and one user's token.
async fn storage() -> (Lab, Endpoint, Secret) {
    let lab = Lab::start().await;
    let service = lab.url();
    let storage = Endpoint::start(&lab, "a", |config| config.audiences = vec![service]).await;
    let (scopes, here) = ("storage.read:/ storage.modify:/", lab.url());
    let token = lab.token_for("mover", scopes, &here).await;
    (lab, storage, token)
}

async fn ask(lab: &Lab, token: &Secret, method: Method, path: &str, body: Option<Value>) -> Answer {
    let mut request = Request::new(body.map_or_else(body::empty, |body| body::full(body.to_string())));
    *request.method_mut() = method;
    *request.uri_mut() = format!("{}{path}", lab.url()).parse().unwrap();
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    let token = format!("Bearer {}", token.expose());
    headers.insert(header::AUTHORIZATION, token.parse().unwrap());
    Answer::read(lab.client.send(request).await.unwrap()).await
}

fn encoded(url: &str) -> String {
    percent_encoding::utf8_percent_encode(url, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A user with a token, at a service.
struct User<'a>(&'a Lab, &'a Secret);

impl User<'_> {
    async fn look(&self, what: &str, url: &str) -> Answer {
        let path = format!("/dm/{what}?surl={}", encoded(url));
        ask(self.0, self.1, Method::GET, &path, None).await
    }

    async fn change(&self, what: &str, body: Value) -> Answer {
        ask(self.0, self.1, Method::POST, &format!("/dm/{what}"), Some(body)).await
    }

    async fn done(&self, what: &str, body: Value) {
        let answer = self.change(what, body).await;
        assert_eq!(
            (answer.status, &answer.json),
            (StatusCode::OK, &json!(0)),
            "{what}: {}",
            answer.text
        );
    }

    async fn refused(&self, what: &str, body: Value, status: u16, number: &str) {
        let answer = self.change(what, body).await;
        assert_eq!(answer.status.as_u16(), status, "{what}: {}", answer.text);
        assert!(answer.message().starts_with(number), "{what}: {}", answer.text);
    }
}

/// Clients of FTS3 would not find what they wrote, or lose what they did not mean.
#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_is_done_at_a_real_storage() {
    let (lab, storage, token) = storage().await;
    let (user, at) = (User(&lab, &token), |path: &str| storage.url(path));
    for (path, content) in [("/top", "1234"), ("/dir/odd%20%26%C3%A9", "12"), ("/dir/inner/f", "1")] {
        let put = storage.send(&lab, Method::PUT, path, content.as_bytes()).await;
        assert_eq!(put.0, StatusCode::CREATED, "{path}");
    }
    let before = std::time::SystemTime::now() - Duration::from_secs(600);
    let recent = |time: &Value| {
        let since = before.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        time.as_u64().is_some_and(|time| time > since && time < since + 1200)
    };

    let root = user.look("list", &at("/")).await;
    assert_eq!(root.status, StatusCode::OK, "{}", root.text);
    let names = root.json.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names, ["dir/", "top"]);
    for dir in ["/dir", "/dir/"] {
        let listed = user.look("list", &at(dir)).await.json;
        let (file, inner) = (&listed["odd &é"], &listed["inner/"]);
        assert_eq!(
            (&file["size"], &file["mode"]),
            (&json!(2), &json!(0o100_644)),
            "{listed}"
        );
        assert_eq!(
            (&inner["size"], &inner["mode"]),
            (&json!(0), &json!(0o040_755)),
            "{listed}"
        );
        assert!(recent(&file["mtime"]) && recent(&inner["mtime"]), "{listed}");
        assert_eq!(listed.as_object().unwrap().len(), 2);
    }
    let stat = user.look("stat", &at("/top")).await.json;
    assert!(recent(&stat["mtime"]) && recent(&stat["ctime"]), "{stat}");
    for (key, value) in [("size", 4), ("mode", 0o100_644), ("nlink", 1), ("atime", 0)] {
        assert_eq!(stat[key], value, "{stat}");
    }
    assert_eq!(user.look("stat", &at("/dir")).await.json["mode"], 0o040_755);
    assert_eq!(user.look("stat", &at("/")).await.json["mode"], 0o040_755);

    for (what, path, status, number) in [
        ("list", "/none", 404, "[2] "),
        ("stat", "/none", 404, "[2] "),
        ("list", "/top", 400, "[20] "),
    ] {
        let answer = user.look(what, &at(path)).await;
        let expected = (status, true);
        let found = (answer.status.as_u16(), answer.message().starts_with(number));
        assert_eq!(found, expected, "{what} {path}: {}", answer.text);
    }

    let surl = |path: &str| json!({ "surl": at(path) });
    user.done("mkdir", surl("/new")).await;
    user.refused("mkdir", surl("/new"), 409, "[17] ").await;
    user.refused("mkdir", surl("/top"), 409, "[17] ").await;
    user.refused("mkdir", surl("/none/new"), 404, "[2] ").await;
    let rename = |old: &str, new: &str| json!({ "old": at(old), "new": at(new) });
    user.done("rename", rename("/top", "/new/f g")).await;
    user.refused("rename", rename("/top", "/new/g"), 404, "[2] ").await;
    user.refused("rename", rename("/dir/inner/f", "/new/f g"), 409, "[17] ")
        .await;
    user.refused("rename", rename("/dir", "/new"), 409, "[17] ").await;
    user.refused("rename", rename("/dir", "/none/dir"), 404, "[2] ").await;
    user.done("rename", rename("/dir", "/new/dir")).await;

    user.refused("unlink", surl("/new/dir"), 400, "[21] ").await;
    user.refused("rmdir", surl("/new/dir"), 409, "[39] ").await;
    user.refused("rmdir", surl("/new/f g"), 400, "[20] ").await;
    user.refused("rmdir", surl("/none"), 404, "[2] ").await;
    // Names that listings do not show are there all the same.
    let odd_dir = lab.directory.path().join("a/area/odd");
    std::fs::create_dir(&odd_dir).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", odd_dir.join("link")).unwrap();
    let odd = user.look("list", &at("/odd")).await;
    assert_eq!((odd.status, odd.json), (StatusCode::OK, json!({})));
    user.refused("rmdir", surl("/odd"), 409, "[39] ").await;
    assert!(odd_dir.join("link").is_symlink());
    user.refused("unlink", surl("/none"), 404, "[2] ").await;
    assert_eq!(storage.send(&lab, Method::GET, "/new/f%20g", b"").await.1, b"1234");
    user.done("unlink", surl("/new/f g")).await;
    user.done("unlink", surl("/new/dir/inner/f")).await;
    user.done("rmdir", surl("/new/dir/inner")).await;
    let left = user.look("list", &at("/new/dir")).await.json;
    assert_eq!(left.as_object().unwrap().keys().collect::<Vec<_>>(), ["odd &é"]);
}

/// The service would lend its users rights, or take those of one for another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_sees_the_user_s_own_token_and_decides() {
    let (lab, storage, token) = storage().await;
    let reader = lab.token("alice").await;
    let (writer, reader) = (User(&lab, &token), User(&lab, &reader));
    writer.done("mkdir", json!({ "surl": storage.url("/d") })).await;
    assert_eq!(reader.look("list", &storage.url("/")).await.json["d/"]["size"], 0);
    for (what, body) in [
        ("mkdir", json!({ "surl": storage.url("/e") })),
        ("rmdir", json!({ "surl": storage.url("/d") })),
        ("rename", json!({ "old": storage.url("/d"), "new": storage.url("/e") })),
    ] {
        reader.refused(what, body, 403, "[13] ").await;
    }
    assert_eq!(
        writer
            .look("list", &storage.url("/"))
            .await
            .json
            .as_object()
            .unwrap()
            .len(),
        1
    );

    // A storage that does not take tokens of this service: its answer is not about the call.
    let stub = Stub::start();
    stub.fault("PROPFIND", "/d", Fault::Status(401, "who are you?"));
    let refused = reader.look("stat", &stub.url("/d")).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(refused.message().contains("401"), "{}", refused.text);
    let seen = &stub.seen("PROPFIND", "/d")[0].headers;
    assert_eq!(seen["authorization"], format!("Bearer {}", reader.1.expose()));
    assert!(!refused.text.contains(reader.1.expose()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_meaningless_command_is_refused_before_a_request() {
    let lab = Lab::start_with(|config| config.plain_http = false).await;
    let stub = Stub::start();
    let get = async |path: &str| lab.ask("alice", Method::GET, path, None).await;
    assert_eq!(lab.ask("", Method::GET, "/dm/list", None).await.status.as_u16(), 401);
    let mkdir = json!({ "surl": "https://b.example.org/f" });
    let nobody = lab.ask("", Method::POST, "/dm/mkdir", Some(&mkdir)).await;
    assert_eq!(nobody.status.as_u16(), 401);
    let long = format!("https://a/{}", "n".repeat(8192));
    for (surl, why) in [
        ("", "Missing surl parameter"),
        ("file:///etc/passwd", "Can not transfer local files"),
        ("root://a//f", "Unsupported scheme"),
        ("gsiftp://a/f", "Unsupported scheme"),
        ("/etc/passwd", "Missing scheme"),
        ("https://a", "Missing path"),
        ("https://alice:pw@a/f", "Malformed URL"),
        (&stub.url("/d"), "Unencrypted transfers are not allowed here"),
        (&long, "a URL has"),
    ] {
        for what in ["list", "stat"] {
            let answer = get(&format!("/dm/{what}?surl={}", encoded(surl))).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{surl}: {}", answer.text);
            assert!(answer.message().contains(why), "{surl}: {}", answer.text);
        }
        let body = json!({ "surl": surl });
        let answer = lab.ask("alice", Method::POST, "/dm/rmdir", Some(&body)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{surl}: {}", answer.text);
    }
    assert_eq!(get("/dm/list").await.message(), "Missing surl parameter");
    for (what, body, why) in [
        ("unlink", json!({}), "Missing parameter: 'surl'"),
        ("unlink", json!({ "surl": "" }), "No parameter \"surl\" specified"),
        ("unlink", json!({ "surl": 1 }), "Malformed request"),
        ("unlink", json!(["https://a/f"]), "Malformed request"),
        ("rename", json!({ "old": "https://a/f" }), "Missing parameter: 'new'"),
        (
            "rename",
            json!({ "old": "https://a/f", "new": "https://b/f" }),
            "Both names must be at one storage",
        ),
    ] {
        let answer = lab
            .ask("alice", Method::POST, &format!("/dm/{what}"), Some(&body))
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}: {}", answer.text);
        assert!(answer.message().starts_with(why), "{body}: {}", answer.text);
    }
    // A form is what a page in the user's browser could send.
    let mut request = Request::new(body::full("surl=https%3A%2F%2Fa%2Ff"));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = format!("{}/dm/unlink", lab.url()).parse().unwrap();
    let token = format!("Bearer {}", lab.token("alice").await.expose());
    let headers = request.headers_mut();
    headers.insert(header::AUTHORIZATION, token.parse().unwrap());
    headers.insert(
        header::CONTENT_TYPE,
        "application/x-www-form-urlencoded".parse().unwrap(),
    );
    let form = Answer::read(lab.client.send(request).await.unwrap()).await;
    assert_eq!(form.status, StatusCode::BAD_REQUEST, "{}", form.text);
    assert!(stub.all_seen().is_empty());
}

/// A storage could hold a request for ever, fill the memory, or have tokens carried elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn storages_that_misbehave_are_let_go() {
    let lab = Lab::start().await;
    let (stub, elsewhere) = (Stub::start(), Stub::start());
    let token = lab.token("alice").await;
    let user = User(&lab, &token);
    let html = "<!DOCTYPE html><p>Welcome";
    let start = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/endless";
    let own = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/many</D:href></D:response>";
    let child = "<D:response><D:href>/many/f</D:href></D:response>";
    let foreign = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/x</D:href></D:response></D:multistatus>";
    for (path, fault, status, number) in [
        ("/busy", Fault::Status(503, "later"), 503, "[16] "),
        ("/locked", Fault::Status(423, ""), 503, "[16] "),
        ("/forbidden", Fault::Status(403, "not yours"), 403, "[13] "),
        ("/broken", Fault::Status(500, "a defect"), 502, "[70] "),
        ("/html", Fault::Status(207, html), 502, "[70] "),
        ("/page", Fault::Status(200, html), 502, "[70] "),
        ("/empty", Fault::Status(207, ""), 502, "[70] "),
        ("/foreign", Fault::Status(207, foreign), 502, "[70] "),
        ("/endless", Fault::Endless(207, start, "xxxxxxxx"), 502, "[70] "),
        ("/spaces", Fault::Endless(207, "", "        \n"), 502, "[70] "),
        ("/many", Fault::Endless(207, own, child), 413, "[27] "),
        ("/circle", Fault::Redirect(stub.url("/circle")), 502, "[70] "),
        ("/out", Fault::Redirect("http://127.0.0.1:1/f".into()), 502, "[70] "),
        ("/plain", Fault::Status(405, ""), 502, "[70] "),
    ] {
        stub.fault("PROPFIND", path, fault);
        let answer = user.look("list", &stub.url(path)).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
        assert!(answer.message().starts_with(number), "{path}: {}", answer.text);
        assert!(answer.message().len() < 1200, "{path}");
        let retry = answer.headers.contains_key("retry-after");
        assert_eq!(retry, status == 503, "{path}");
    }
    assert!(stub.seen("PROPFIND", "/circle").len() <= 6);

    // Another name for it; but a token is for the host that it was given to.
    elsewhere.make_directory("/d");
    elsewhere.put("/d/f", b"12");
    stub.fault(
        "PROPFIND",
        "/d",
        Fault::Redirect(elsewhere.url("/d").replace("127.0.0.1", "localhost")),
    );
    let listed = user.look("list", &stub.url("/d")).await;
    assert_eq!(listed.json["f"]["size"], 2, "{}", listed.text);
    assert!(stub.seen("PROPFIND", "/d")[0].headers.contains_key("authorization"));
    assert!(
        !elsewhere.seen("PROPFIND", "/d")[0]
            .headers
            .contains_key("authorization")
    );

    // One without WebDAV still tells of its files.
    stub.put("/file", b"12345");
    stub.fault("PROPFIND", "/file", Fault::Status(405, ""));
    let stat = user.look("stat", &stub.url("/file")).await.json;
    assert_eq!((&stat["size"], &stat["mode"]), (&json!(5), &json!(0o100_777)), "{stat}");
    assert!(stat["mtime"].as_u64() > Some(1_700_000_000), "{stat}");

    // Deletes would take along what is there.
    stub.make_directory("/full");
    stub.put("/full/f", b"precious");
    let unsaid = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/unsaid</D:href></D:response></D:multistatus>";
    stub.fault("PROPFIND", "/unsaid", Fault::Status(207, unsaid));
    user.refused("rmdir", json!({ "surl": stub.url("/full") }), 409, "[39] ")
        .await;
    user.refused("unlink", json!({ "surl": stub.url("/full") }), 400, "[21] ")
        .await;
    user.refused("unlink", json!({ "surl": stub.url("/unsaid") }), 502, "[70] ")
        .await;
    let over = json!({ "old": stub.url("/file"), "new": stub.url("/full") });
    user.refused("rename", over, 409, "[17] ").await;
    // Nor where the storage cannot be looked at that way, shows only what is in a directory, or does not remove as it is asked to.
    stub.fault("PROPFIND", "/full/", Fault::Status(405, ""));
    user.refused("unlink", json!({ "surl": stub.url("/full/") }), 400, "[21] ")
        .await;
    stub.fault("PROPFIND", "/full/f", Fault::Status(405, ""));
    let over = json!({ "old": stub.url("/file"), "new": stub.url("/full/f") });
    user.refused("rename", over, 409, "[17] ").await;
    let child = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/same/same/</D:href><D:propstat><D:prop><D:resourcetype>\
        <D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>";
    stub.fault("PROPFIND", "/same", Fault::Status(207, child));
    user.refused("rmdir", json!({ "surl": stub.url("/same") }), 409, "[39] ")
        .await;
    stub.fault("PROPFIND", "/hidden", Fault::Status(403, ""));
    let over = json!({ "old": stub.url("/file"), "new": stub.url("/hidden") });
    user.refused("rename", over, 403, "[13] ").await;
    assert!(stub.get("/full/f").is_some());
    assert!(
        !stub
            .all_seen()
            .iter()
            .any(|seen| ["DELETE", "MOVE"].contains(&seen.method.as_str()))
    );
    stub.make_directory("/left");
    stub.fault("DELETE", "/left/", Fault::Status(400, "Depth can only be infinity"));
    user.refused("rmdir", json!({ "surl": stub.url("/left") }), 502, "[70] ")
        .await;
    assert_eq!(stub.seen("DELETE", "/left/").len(), 1, "nor with less care");
    // Part of it went wrong.
    stub.fault("DELETE", "/file", Fault::Status(207, foreign));
    user.refused("unlink", json!({ "surl": stub.url("/file") }), 504, "[110] ")
        .await;
    stub.heal("DELETE", "/file");
    user.done("unlink", json!({ "surl": stub.url("/file") })).await;
    assert!(stub.get("/file").is_none());
}

/// A caller would not know whether it was done, and do it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_is_told_from_one_that_was_not_made() {
    let lab = Lab::start().await;
    let token = lab.token("alice").await;
    let user = User(&lab, &token);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let times = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = times.clone();
    let hangs_up = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            if socket.read(&mut [0; 4096]).await.unwrap_or_default() > 0 {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    let at = |path: &str| format!("http://{address}{path}");
    user.refused("mkdir", json!({ "surl": at("/d") }), 504, "[110] ").await;
    assert_eq!(
        times.load(std::sync::atomic::Ordering::Relaxed),
        1,
        "it is not sent twice"
    );
    let looked = user.look("stat", &at("/d")).await;
    assert_eq!(looked.status, StatusCode::BAD_GATEWAY, "{}", looked.text);
    hangs_up.abort();
    let _ = hangs_up.await;
    user.refused("mkdir", json!({ "surl": at("/d") }), 502, "[70] ").await;
    let nowhere = "https://nowhere.invalid/d";
    assert_eq!(user.look("list", nowhere).await.status, StatusCode::BAD_GATEWAY);
}

/// Anybody with a token could look around this host's network.
#[tokio::test(flavor = "multi_thread")]
async fn this_host_and_its_neighbours_are_not_asked() {
    let lab = Lab::start_with(|config| config.copy.allow = Vec::new()).await;
    let stub = Stub::start();
    stub.make_directory("/d");
    let token = lab.token("alice").await;
    let user = User(&lab, &token);
    let named = stub.url("/d").replace("127.0.0.1", "localhost");
    for url in [
        stub.url("/d"),
        named,
        "https://10.0.0.1/d".into(),
        "http://169.254.169.254/x".into(),
    ] {
        let refused = user.look("list", &url).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{url}: {}", refused.text);
        assert!(refused.message().contains("may not connect"), "{}", refused.text);
        user.refused("unlink", json!({ "surl": url }), 403, "[13] ").await;
        user.refused("mkdir", json!({ "surl": url }), 403, "[13] ").await;
    }
    assert!(stub.all_seen().is_empty());
}

/// Signatures in URLs would stand in errors, which people send around.
#[tokio::test(flavor = "multi_thread")]
async fn the_query_of_a_url_goes_to_its_storage_alone() {
    let lab = Lab::start().await;
    let stub = Stub::start();
    stub.make_directory("/d");
    let token = lab.token("alice").await;
    let user = User(&lab, &token);
    let url = stub.url("/d?authz=needle-in-a-url");
    assert_eq!(user.look("list", &url).await.json, json!({}));
    let seen = stub.seen("PROPFIND", "/d");
    assert_eq!(seen[0].query.as_deref(), Some("authz=needle-in-a-url"));
    for method in ["PROPFIND", "MKCOL", "MOVE"] {
        stub.fault(method, if method == "MKCOL" { "/d/" } else { "/d" }, Fault::Echoes(403));
    }
    let new = stub.url("/e?sig=needle-of-another");
    for answer in [
        user.look("list", &url).await,
        user.change("unlink", json!({ "surl": url })).await,
        user.change("mkdir", json!({ "surl": url })).await,
        user.change("rename", json!({ "old": url, "new": new })).await,
    ] {
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
        assert!(!answer.text.contains("needle"), "{}", answer.text);
    }
    let moved = &stub.seen("MOVE", "/d")[0].headers;
    assert_eq!(
        (&moved["destination"], &moved["overwrite"]),
        (&new.parse().unwrap(), &"F".parse().unwrap())
    );
}

/// A storage that is being looked after, or one that does not answer, would be asked by everybody all the same.
#[tokio::test(flavor = "multi_thread")]
async fn banned_storages_and_crowds_are_turned_away() {
    let lab = Lab::start().await;
    let stub = Stub::start();
    stub.make_directory("/d");
    stub.fault("PROPFIND", "/silent", Fault::Silent);
    let list = |path: &str| format!("/dm/list?surl={}", stub.url(path));
    let silent = (0..2).map(|_| {
        let (client, url) = (lab.client.clone(), format!("{}{}", lab.url(), list("/silent")));
        let token = lab.token("alice");
        async move {
            let request = Request::get(url).header("authorization", format!("Bearer {}", token.await.expose()));
            client.send(request.body(body::empty()).unwrap()).await
        }
    });
    let waiting = async {
        while stub.seen("PROPFIND", "/silent").len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let crowded = lab.get(&list("/d")).await;
        assert_eq!(crowded.status, StatusCode::SERVICE_UNAVAILABLE, "{}", crowded.text);
        assert!(crowded.headers.contains_key("retry-after"));
        let other = lab.ask("bob", Method::GET, &list("/d"), None).await;
        assert_eq!(other.status, StatusCode::OK, "{}", other.text);
    };
    tokio::select! {
        _ = futures_util::future::join_all(silent) => panic!("silence has answered"),
        () = waiting => {}
    }
    // A caller who left has given the place back.
    let freed = async {
        while lab.get(&list("/d")).await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.unwrap();

    let ban = json!({ "storage": "http://127.0.0.1", "status": "wait" });
    assert_eq!(
        lab.ask("root", Method::POST, "/ban/se", Some(&ban)).await.status,
        StatusCode::OK
    );
    let banned = lab.get(&list("/d")).await;
    assert_eq!(
        (banned.status, banned.message()),
        (StatusCode::FORBIDDEN, "http://127.0.0.1 is banned")
    );
}
