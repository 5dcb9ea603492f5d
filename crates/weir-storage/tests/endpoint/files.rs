//! PUT, GET, HEAD: bytes in, bytes out.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Request;
use weir_http::body;
use weir_units::Algorithm;

use super::{
    faults::private_bytes,
    lab::{Answer, Lab, digest, noise, pieces, until},
};

/// Bytes that come back changed, or a size that is wrong, are the end of all trust.
#[tokio::test]
async fn bytes_come_out_as_they_went_in() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    // Around the edges of the blocks that are read and the batches that are written.
    for size in [
        0,
        1,
        9_999,
        (512 << 10) - 1,
        512 << 10,
        (512 << 10) + 1,
        1 << 20,
        (3 << 20) + 7,
    ] {
        let content = noise(size);
        let path = format!("/new/folder/{size}");
        at.put(&path, content.clone()).await.expect(201);
        let answer = at.get(&path).await.expect(200);
        assert_eq!(answer.header("content-length"), size.to_string());
        assert!(answer.body == content, "{size} bytes differ");
        assert_eq!(answer.header("accept-ranges"), "bytes");
    }
    let again = at.put("/new/folder/1", noise(2)).await.expect(204);
    assert_eq!(at.get("/new/folder/1").await.header("etag"), again.header("etag"));
    let counted = at.running.counters()["data"].clone();
    assert_eq!(counted.files, 8);
    let at_rest: u64 = at
        .names()
        .iter()
        .map(|name| std::fs::metadata(at.root.join(name)).unwrap().len())
        .sum();
    assert_eq!(counted.used, at_rest);
    assert_eq!(counted.traffic.received_completed, at_rest + 1);
}

/// A chunked body has no size beforehand; it must arrive all the same, and break off without a trace.
#[tokio::test]
async fn chunked_bodies_arrive_or_leave_nothing() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let content = noise(2_500_000);
    let whole: Vec<_> = content
        .chunks(70_001)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    at.send("PUT", "/f", &[], pieces(stream::iter(whole))).await.expect(201);
    assert!(at.get("/f").await.body == content);
    let root = at.root.clone();
    let broken = stream::once(std::future::ready(Ok(content.clone()))).chain(stream::once(async move {
        until("bytes on the disk", || private_bytes(&root) > 0).await;
        Err("the client breaks off".into())
    }));
    let outcome = lab.client.send(at.request("PUT", "/g", &[], pieces(broken))).await;
    assert!(outcome.is_err());
    at.until_clean().await;
    assert_eq!(at.names(), ["f"]);
    assert_eq!(at.running.counters()["data"].files, 1);
    until("the failed bytes are counted apart", || {
        at.running.counters()["data"].traffic.received_failed > 0
    })
    .await;
}

/// A client that waits for `100 Continue` must get it after the permission, and never before a refusal.
#[tokio::test]
async fn a_body_is_invited_only_when_it_is_welcome() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| config.areas[0].quota = Some("1 MB".parse().unwrap()))
        .await;
    let patience = Duration::from_secs(60);
    let content = noise(300_000);
    let request =
        |path: &str, headers: &[(&str, &str)], content: Bytes| at.request("PUT", path, headers, body::full(content));
    // With a minute's patience, only a 100 can start this body in time.
    let answer = lab
        .client
        .send_expecting(request("/f", &[], content.clone()), patience, patience / 2)
        .await
        .unwrap();
    assert_eq!(answer.status(), 201);
    let reader = format!("Bearer {}", lab.token("storage.read:/"));
    for (path, headers, size, expected) in [
        ("/f", vec![("authorization", reader.as_str())], 300_000, 403),
        ("/f", vec![("authorization", "Bearer x")], 300_000, 401),
        ("/f/g", vec![], 300_000, 409),
        ("/f", vec![("if-none-match", "*")], 300_000, 412),
        ("/g", vec![], 900_000, 507),
        ("/g/", vec![], 10, 409),
    ] {
        let answer = lab
            .client
            .send_expecting(request(path, &headers, noise(size)), patience, patience / 2)
            .await
            .unwrap();
        assert_eq!(answer.status(), expected, "{path} {headers:?}");
    }
    assert_eq!(at.names(), ["f"]);
}

/// A body on its way when the refusal comes: the client must read the refusal, not a reset.
#[tokio::test]
async fn early_bodies_do_not_drown_the_refusal() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let reader = format!("Bearer {}", lab.token("storage.read:/"));
    for _ in 0..5 {
        let answer = at
            .ask("PUT", "/f", &[("authorization", &reader)], noise(8 << 20))
            .await
            .expect(403);
        assert!(
            answer.text().contains("storage.create:/f") || answer.text().contains("storage.modify:/f"),
            "{}",
            answer.text()
        );
    }
    at.ask("PUT", "/f", &[("content-range", "bytes 0-9/20")], noise(10))
        .await
        .expect(400);
}

/// A range of the wrong bytes goes unnoticed into somebody's analysis.
#[tokio::test]
async fn ranges_and_conditions() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let content = noise(2_000_003);
    at.put("/f", content.clone()).await.expect(201);
    for (asked, first, last) in [
        ("0-0", 0, 0),
        ("5-1500000", 5, 1_500_000),
        ("1999990-", 1_999_990, 2_000_002),
        ("-7", 1_999_996, 2_000_002),
    ] {
        let answer = at
            .ask("GET", "/f", &[("range", &format!("bytes={asked}"))], "")
            .await
            .expect(206);
        assert!(answer.body == content[first..=last], "{asked}");
        assert_eq!(answer.header("content-range"), format!("bytes {first}-{last}/2000003"));
    }
    let answer = at
        .ask("GET", "/f", &[("range", "bytes=2000003-")], "")
        .await
        .expect(416);
    assert_eq!(answer.header("content-range"), "bytes */2000003");
    let etag = at
        .ask("HEAD", "/f", &[], "")
        .await
        .expect(200)
        .header("etag")
        .to_owned();
    at.ask("GET", "/f", &[("if-none-match", &etag)], "").await.expect(304);
    at.ask("GET", "/f", &[("if-match", "\"other\"")], "").await.expect(412);
    at.ask("GET", "/f", &[("range", "bytes=0-0"), ("if-range", &etag)], "")
        .await
        .expect(206);
    at.ask("GET", "/f", &[("range", "bytes=0-0"), ("if-range", "\"other\"")], "")
        .await
        .expect(200);
    at.ask("PUT", "/f", &[("if-match", "\"other\"")], "x").await.expect(412);
    at.ask("DELETE", "/f", &[("if-match", "\"other\"")], "")
        .await
        .expect(412);
    assert!(at.get("/f").await.body == content);
    at.get("/missing").await.expect(404);
    // Below a file there is nothing: a client that is told of a conflict would try to resolve it.
    for method in ["GET", "HEAD", "PROPFIND", "DELETE", "COPY"] {
        let destination = at.url("/h");
        let more = [("depth", "0"), ("destination", destination.as_str())];
        at.ask(method, "/f/g", &more[..if method == "COPY" { 2 } else { 1 }], "")
            .await
            .expect(404);
    }
}

/// Checksums are served in both dialects, without reading the file where they are known.
#[tokio::test]
async fn checksums_are_told_as_asked() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let content = noise(1_200_000);
    at.put("/f", content.clone()).await.expect(201);
    let metrics = async || at.get("/.well-known/weir/metrics").await.expect(200).text();
    let head = async |name: &str, value: &str| at.ask("HEAD", "/f", &[(name, value)], "").await.expect(200);
    assert_eq!(
        head("want-digest", "ADLER32").await.header("digest"),
        digest(Algorithm::Adler32, &content)
    );
    assert_eq!(
        head("want-digest", "crc32c").await.header("digest"),
        digest(Algorithm::Crc32c, &content)
    );
    assert!(
        head("want-repr-digest", "crc32c=9")
            .await
            .header("repr-digest")
            .starts_with("crc32c=:")
    );
    assert!(metrics().await.contains("weir_storage_checksums_read_total 0"));
    assert_eq!(
        head("want-digest", "md5").await.header("digest"),
        digest(Algorithm::Md5, &content)
    );
    assert_eq!(
        head("want-digest", "md5").await.header("digest"),
        digest(Algorithm::Md5, &content)
    );
    assert!(
        metrics().await.contains("weir_storage_checksums_read_total 1"),
        "the second answer is kept"
    );
    let get = at
        .ask("GET", "/f", &[("want-digest", "md5;q=0.1,adler32")], "")
        .await
        .expect(200);
    assert!(get.header("digest").contains(&digest(Algorithm::Adler32, &content)));
    // Changed behind our back: the stored checksum counts no more.
    std::fs::write(at.root.join("f"), "other").unwrap();
    assert_eq!(
        head("want-digest", "adler32").await.header("digest"),
        digest(Algorithm::Adler32, b"other")
    );
}

/// A file that came by other means gets its checksums from the first whole read.
#[tokio::test]
async fn the_first_whole_read_yields_checksums() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let content = noise(1_700_000);
    std::fs::write(at.root.join("f"), &content).unwrap();
    assert!(at.get("/f").await.body == content);
    let attribute = || {
        let mut buffer = [0_u8; 1024];
        let read = rustix::fs::getxattr(at.root.join("f"), "user.weir.checksums", &mut buffer[..]);
        read.is_ok_and(|length| String::from_utf8_lossy(&buffer[..length]).contains("adler32:"))
    };
    until("checksums are kept", attribute).await;
    let answer = at.ask("HEAD", "/f", &[("want-digest", "adler32")], "").await;
    assert_eq!(answer.header("digest"), digest(Algorithm::Adler32, &content));
    assert!(
        at.get("/.well-known/weir/metrics")
            .await
            .text()
            .contains("weir_storage_checksums_read_total 0")
    );
}

/// A body that is not what its sender announced must not become a file.
#[tokio::test]
async fn announced_checksums_are_verified() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let content = noise(1_100_000);
    let good = [
        digest(Algorithm::Adler32, &content),
        digest(Algorithm::Sha256, &content),
    ];
    for value in &good {
        at.ask("PUT", "/good", &[("digest", value)], content.clone()).await;
    }
    assert!(at.get("/good").await.body == content);
    for (name, value) in [
        ("digest", digest(Algorithm::Adler32, b"other")),
        ("digest", format!("{},{}", good[0], digest(Algorithm::Md5, b"other"))),
        ("repr-digest", "crc32c=:AAAAAQ==:".into()),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==".into()),
        ("oc-checksum", "ADLER32:00000001".into()),
    ] {
        let answer = at
            .ask("PUT", "/bad", &[(name, &value)], content.clone())
            .await
            .expect(400);
        assert!(answer.text().contains("checksum mismatch"), "{}", answer.text());
    }
    for (name, value) in [
        ("digest", "adler32=zz"),
        ("repr-digest", "sha-256=:AAAA:"),
        ("content-md5", "x"),
    ] {
        let answer = at.ask("PUT", "/bad", &[(name, value)], "x").await.expect(400);
        assert!(answer.text().contains("is no checksum"), "{}", answer.text());
    }
    at.until_clean().await;
    assert_eq!(at.names(), ["good"]);
    assert!(
        at.get("/.well-known/weir/metrics")
            .await
            .text()
            .contains("weir_storage_checksum_mismatches_total 5")
    );
}

/// Names with every character a file system takes must lead to the same file in every verb.
#[tokio::test]
async fn names_of_any_kind() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    for (encoded, plain) in [
        ("/a%20b", "a b"),
        ("/a+b", "a+b"),
        ("/%C3%A9%E2%82%AC", "é€"),
        ("/a%25b", "a%b"),
        ("/a%3Fb%23c", "a?b#c"),
        ("/a&b=%22c%22%3C", "a&b=\"c\"<"),
        ("/...", "..."),
        ("//double//slash", "double/slash"),
    ] {
        at.put(encoded, plain).await.expect(201);
        assert_eq!(std::fs::read_to_string(at.root.join(plain)).unwrap(), plain);
        assert_eq!(at.get(encoded).await.expect(200).text(), plain);
        let listing = at
            .ask("PROPFIND", encoded, &[("depth", "0")], "")
            .await
            .expect(207)
            .text();
        let href = listing
            .split("<D:href>")
            .nth(1)
            .unwrap()
            .split('<')
            .next()
            .unwrap()
            .replace("&amp;", "&");
        assert_eq!(at.get(&href).await.expect(200).text(), plain, "{href}");
        at.ask("DELETE", encoded, &[], "").await.expect(204);
    }
    at.put(&format!("/{}", "x".repeat(256)), "x").await.expect(400);
}

/// HTTP's own corners.
#[tokio::test]
async fn an_unoffered_protocol_is_refused() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let options = at
        .ask("OPTIONS", "/", &[("authorization", "none")], "")
        .await
        .expect(200);
    assert!(options.header("allow").contains("PROPFIND") && options.header("dav") == "1");
    let macaroon = at
        .ask("POST", "/f", &[("content-type", "application/macaroon-request")], "{}")
        .await
        .expect(405);
    assert!(macaroon.header("allow").contains("COPY"));
    for method in ["PATCH", "LOCK", "TRACE", "BREW"] {
        at.ask(method, "/f", &[], "").await.expect(405);
    }
    at.get("/").await.expect(405);
    at.ask("HEAD", "/", &[], "").await.expect(200);
    at.ask("PUT", "/f", &[("transfer-encoding", "gzip, chunked")], "packed")
        .await
        .expect(501);
    let request = Request::put(at.url("/f"))
        .header("authorization", format!("Bearer {}", lab.all()))
        .body(body::empty())
        .unwrap();
    let status = lab.client.send(request).await.unwrap().status();
    assert_eq!(status, 201, "no length and no chunks: an empty file");
}

/// The parts of a multipart answer, as a client reads them: positions and bytes.
fn read_parts(answer: &Answer) -> Vec<(u64, Vec<u8>)> {
    let kind = answer.header("content-type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let (delimiter, mut rest) = (format!("\r\n--{boundary}"), &answer.body[..]);
    let mut parts = Vec::new();
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).unwrap();
        if rest == b"--\r\n" {
            return parts;
        }
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[..end]).unwrap();
        let range = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Range: bytes "))
            .unwrap();
        let (first, last) = range.split_once('/').unwrap().0.split_once('-').unwrap();
        let (first, last) = (first.parse::<u64>().unwrap(), last.parse::<u64>().unwrap());
        let length = (last - first + 1) as usize;
        parts.push((first, rest[end + 4..end + 4 + length].to_vec()));
        rest = &rest[end + 4 + length..];
    }
}

/// A vector read that is answered with the whole file costs gigabytes, and one with the wrong parts a wrong analysis.
#[tokio::test]
async fn several_ranges_are_one_answer_of_several_parts() {
    let lab = Lab::new();
    // In plain text the kernel sends the file by itself.
    for plain in [false, true] {
        let at = if plain {
            lab.endpoint("p", |config| config.tls = None).await
        } else {
            lab.endpoint("a", |_| {}).await
        };
        let content = noise(3_000_000);
        at.put("/f", content.clone()).await.expect(201);
        let wide = (0..2_000)
            .map(|n| (n * 1_400 + 7, n * 1_400 + 7 + n % 50))
            .collect::<Vec<_>>();
        for ranges in [
            vec![(0, 10), (40, 50)],
            vec![(2_000_000, 2_999_999), (5, 5), (0, 1_500_000)],
            vec![(100, 200), (150, 250), (251, 300)],
            wide,
        ] {
            let texts = ranges
                .iter()
                .map(|(first, last)| format!("{first}-{last}"))
                .collect::<Vec<_>>();
            let asked = format!("bytes={},9000000-", texts.join(","));
            let answer = at.ask("GET", "/f", &[("range", &asked)], "").await.expect(206);
            let expected = ranges
                .iter()
                .map(|(first, last)| (*first as u64, content[*first..=*last].to_vec()));
            assert!(read_parts(&answer) == expected.collect::<Vec<_>>(), "{asked}");
        }
        let all = at
            .ask("GET", "/f", &[("range", "bytes=0-,0-,1-")], "")
            .await
            .expect(206);
        assert_eq!(
            all.header("content-range"),
            "bytes 0-2999999/3000000",
            "the same bytes come once"
        );
        let none = at
            .ask("GET", "/f", &[("range", "bytes=3000000-,4000000-")], "")
            .await
            .expect(416);
        assert_eq!(none.header("content-range"), "bytes */3000000");
        let stale = [("range", "bytes=0-1,4-5"), ("if-range", "\"other\"")];
        assert_eq!(at.ask("GET", "/f", &stale, "").await.expect(200).body.len(), 3_000_000);
        let log = at.log_lines(2).await;
        let transfer = |line: &serde_json::Value| line["transfer"]["ranges"] == 2 && line["transfer"]["bytes"] == 22;
        assert!(log.iter().any(transfer), "{log:?}");
        let head = at
            .ask("HEAD", "/f", &[("range", "bytes=0-1,4-5")], "")
            .await
            .expect(200);
        assert_eq!(head.header("content-length"), "3000000");
    }
}
