//! The record of each transfer: an operator reads it when a copy was slow, or wrong.

use serde_json::{Value, json};
use weir_units::Algorithm;

use super::lab::{Endpoint, Lab, digest, noise, until};

/// The one line of this kind of transfer and path, once it is there.
async fn line(at: &Endpoint, kind: &str, path: &str) -> Value {
    let find = || {
        let text = std::fs::read_to_string(&at.log).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let fits = |line: &Value| line["transfer"]["kind"] == kind && line["path"] == path;
        lines.filter(fits).collect::<Vec<_>>()
    };
    until("the line", || !find().is_empty()).await;
    let mut found = find();
    assert_eq!(found.len(), 1, "one line for each transfer: {found:?}");
    found.remove(0)
}

/// An operator would have to guess by how many streams a slow copy ran, and whether anybody compared its checksum.
#[tokio::test]
async fn a_transfer_leaves_all_that_is_known_of_it() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let b = lab.endpoint("b", |_| {}).await;
    let content = noise(5_000_000);
    let good = digest(Algorithm::Adler32, &content);
    let headers = [("scitag", "66"), ("digest", good.as_str())];
    a.ask("PUT", "/f", &headers, content.clone()).await.expect(201);
    a.put("/g", content.clone()).await.expect(201);
    a.ask("PUT", "/h", &[("digest", "adler32=00000001")], content.clone())
        .await
        .expect(400);
    a.get("/f").await.expect(200);
    let tagged = [("X-Number-Of-Streams", "3"), ("scitag", "67")];
    b.pull("/pulled", &a.url("/f"), &tagged).await.copied();
    b.pull("/other", &a.url("/f"), &[("digest", "adler32=00000001")])
        .await
        .failed(&["checksum"]);
    a.push("/f", &b.url("/pushed"), &[]).await.copied();

    let put = line(&a, "put", "/f").await;
    assert_eq!((&put["http"], &put["tls"]), (&json!("1.1"), &json!(true)));
    let moved = &put["transfer"];
    assert_eq!(
        (&moved["compared"], &moved["scitag"], &moved["streams"], &moved["area"]),
        (&json!("same"), &json!(66), &json!(1), &json!("data"))
    );
    let milliseconds = moved["first_byte_ms"].as_u64().unwrap();
    assert!(milliseconds <= put["duration_ms"].as_u64().unwrap(), "{put}");
    assert!(
        moved["rate"].as_u64().unwrap() > 0 && moved["markers"].is_null(),
        "{put}"
    );
    assert_eq!(line(&a, "put", "/g").await["transfer"]["compared"], "none");
    let broken = &line(&a, "put", "/h").await["transfer"];
    assert_eq!(
        (&broken["compared"], &broken["completed"]),
        (&json!("different"), &json!(false))
    );
    let push = &line(&a, "push", "/f").await["transfer"];
    assert_eq!((&push["compared"], &push["streams"]), (&json!("same"), &json!(1)));

    let pulled = &line(&b, "pull", "/pulled").await["transfer"];
    assert_eq!(
        (&pulled["compared"], &pulled["streams"], &pulled["scitag"]),
        (&json!("same"), &json!(3), &json!(67))
    );
    assert!(
        pulled["markers"].as_u64().unwrap() >= 1 && pulled["rate"].as_u64().unwrap() > 0,
        "{pulled}"
    );
    let refused = &line(&b, "pull", "/other").await["transfer"];
    assert_eq!(
        (&refused["compared"], &refused["first_byte_ms"]),
        (&json!("different"), &Value::Null)
    );
}
