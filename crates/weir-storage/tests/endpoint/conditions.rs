//! Conditional changes: a condition must hold when the change is made, not only when it is asked for.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Request;
use weir_http::body;

use super::{
    faults::private_bytes,
    lab::{Endpoint, Lab, noise, pieces, until},
};

async fn etag(at: &Endpoint, path: &str) -> String {
    at.ask("HEAD", path, &[], "")
        .await
        .expect(200)
        .header("etag")
        .to_owned()
}

/// Two who saw the same file and both replace it: the first one's change would be lost without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_with_one_condition_one_wins() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/f", "first").await.expect(201);
    for round in 0..30 {
        let etag = etag(&at, "/f").await;
        let headers = [("if-match", etag.as_str())];
        let writers = (0..8).map(|number| at.ask("PUT", "/f", &headers, format!("{round}-{number}")));
        let answers = futures_util::future::join_all(writers).await;
        let won = answers.iter().filter(|answer| answer.status == 204).count();
        let told = answers
            .iter()
            .all(|answer| matches!(answer.status.as_u16(), 204 | 409 | 412));
        assert!(won == 1 && told, "{answers:?}");
    }
}

/// The file may go, or change by other means, while its successor is on its way.
#[tokio::test]
async fn a_condition_holds_to_the_end() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    for changed in ["removed", "replaced"] {
        at.put("/f", "old").await;
        let etag = etag(&at, "/f").await;
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let slow = stream::iter(vec![Ok(noise(2_000_000))]).chain(stream::once(async move {
            held.await.unwrap();
            Ok(Bytes::from_static(b"end"))
        }));
        let headers = [("if-match", etag.as_str())];
        let write = at.send("PUT", "/f", &headers, pieces(slow));
        let meanwhile = async {
            until("the writer is at work", || private_bytes(&at.root) > 0).await;
            if changed == "removed" {
                at.ask("DELETE", "/f", &[], "").await.expect(204);
            } else {
                std::fs::write(at.root.join("f"), "by other means").unwrap();
            }
            release.send(()).unwrap();
        };
        let (answer, ()) = tokio::join!(write, meanwhile);
        answer.expect(412);
        at.until_clean().await;
        assert_eq!(at.root.join("f").exists(), changed == "replaced");
    }
}

/// A condition that a verb passes over lets through what its sender wanted stopped.
#[tokio::test]
async fn every_change_heeds_conditions() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let b = lab.endpoint("b", |_| {}).await;
    a.put("/f", "f").await.expect(201);
    b.put("/g", "g").await.expect(201);
    let (etag, there, here) = (etag(&a, "/f").await, a.url("/h"), a.url("/f"));
    let unreadable = "is no list of entity tags";
    for (name, value, status, reason) in [
        (
            "if-match",
            "\"other\"",
            412,
            "/f: its ETag is not among those of If-Match",
        ),
        (
            "if-none-match",
            "*",
            412,
            "/f: it exists, and the request says If-None-Match: *",
        ),
        (
            "if-none-match",
            etag.as_str(),
            412,
            "/f: its ETag is among those of If-None-Match",
        ),
        ("if-match", "other", 400, unreadable),
        ("if-none-match", "\"open", 400, unreadable),
    ] {
        for (method, more) in [("DELETE", None), ("MOVE", Some(&there)), ("COPY", Some(&there))] {
            let mut headers = vec![(name, value)];
            headers.extend(more.map(|destination| ("destination", destination.as_str())));
            let answer = a.ask(method, "/f", &headers, "").await.expect(status);
            assert!(answer.text().contains(reason), "{method} {name}: {}", answer.text());
        }
        let answer = a.ask("PUT", "/f", &[(name, value)], "x").await.expect(status);
        assert!(answer.text().contains(reason), "PUT {name}: {}", answer.text());
        a.push("/f", &b.url("/h"), &[(name, value)]).await.expect(status);
        if value != etag {
            b.pull("/g", &here, &[(name, value)]).await.expect(status);
        }
    }
    assert_eq!((a.names(), b.names()), (vec!["f".to_owned()], vec!["g".to_owned()]));
    assert_eq!(
        (a.get("/f").await.text(), b.get("/g").await.text()),
        ("f".into(), "g".into())
    );
    // Tags may come on several lines.
    let lines = [("if-match", "\"other\""), ("if-match", etag.as_str())];
    a.push("/f", &b.url("/h"), &lines).await.copied();
    a.ask("MOVE", "/f", &[lines[0], lines[1], ("destination", &there)], "")
        .await
        .expect(201);
    b.pull("/i", &there, &[("if-none-match", "*")]).await.copied();
}

/// A client that is refused before its body, and sends it on the same connection, would have it taken for a request.
#[tokio::test]
async fn a_refusal_that_ends_the_connection_says_so() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/f", "x").await.expect(201);
    let patience = std::time::Duration::from_secs(60);
    let ask = async |headers: &[(&str, &str)], content| {
        let request: Request<_> = at.request("PUT", "/f", headers, content);
        lab.client.send_expecting(request, patience, patience).await.unwrap()
    };
    let answer = ask(&[("if-match", "\"other\"")], body::full("content")).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["connection"]),
        (412, &"close".parse().unwrap())
    );
    let answer = ask(&[], body::full("content")).await;
    assert_eq!(
        (answer.status().as_u16(), answer.headers().get("connection")),
        (204, None)
    );
}
