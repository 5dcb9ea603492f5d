//! GET without TLS, where the kernel sends files by itself.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::lab::{Endpoint, Lab, noise, until};

async fn plain(lab: &Lab) -> Endpoint {
    lab.endpoint("plain", |config| config.tls = None).await
}

/// A window that is sent twice, left out or taken from another file damages what arrives.
#[tokio::test]
async fn files_and_parts_come_as_they_are() {
    let lab = Lab::new();
    let at = plain(&lab).await;
    let (mib, block) = (1 << 20, 256 << 10);
    for size in [
        1,
        block - 1,
        block,
        block + 1,
        block + mib,
        block + mib + 1,
        5 * mib + 77,
    ] {
        let content = noise(size);
        at.put("/file", content.clone()).await;
        for _ in 0..2 {
            assert!(at.get("/file").await.expect(200).body == content, "{size} bytes");
        }
        for (first, last) in [
            (0, size - 1),
            (size / 3, size - 1),
            (size / 2, size / 2),
            (1.min(size - 1), size - 1),
        ] {
            let range = format!("bytes={first}-{last}");
            let part = at.ask("GET", "/file", &[("range", &range)], "").await.expect(206);
            assert!(part.body == content[first..=last], "{range} of {size}");
        }
        assert!(at.ask("HEAD", "/file", &[], "").await.expect(200).body.is_empty());
    }
    let traffic = at.running.counters()["data"].traffic;
    assert_eq!(traffic.sent_failed, 0);
}

/// A file that came by other means has no checksums until it was read once, by us and not by the kernel.
#[tokio::test]
async fn the_first_reading_takes_the_checksums_and_the_second_gives_them() {
    let lab = Lab::new();
    let at = plain(&lab).await;
    let content = noise(4 << 20);
    std::fs::write(at.root.join("file"), &content).unwrap();
    assert!(at.get("/file").await.expect(200).body == content);
    let mut answer = at.get("/file").await;
    for _ in 0..100 {
        if answer.headers.contains_key("digest") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        answer = at.get("/file").await;
    }
    assert!(answer.body == content);
    assert!(answer.header("digest").contains("adler32="));
}

/// A reader that leaves would be counted as one that was served, or spoil what others read.
#[tokio::test]
async fn a_reader_that_leaves_in_the_middle_harms_nobody() {
    let lab = Lab::new();
    let at = plain(&lab).await;
    let content = noise(40 << 20);
    at.put("/file", content.clone()).await.expect(201);
    let address = at.url("").strip_prefix("http://").unwrap().to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "GET /file HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\r\n",
        lab.all()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.read_exact(&mut vec![0; 100_000]).await.unwrap();
    let others = at.get("/file");
    drop(stream);
    assert!(others.await.body == content);
    until("the one that left is counted", || {
        at.running.counters()["data"].traffic.sent_failed > 0
    })
    .await;
}

/// The memory of large heads would be a stranger's for as long as the body is awaited; but an answer is not to be lost over it.
#[tokio::test]
async fn a_refusal_of_a_large_head_does_not_wait_for_the_body() {
    let lab = Lab::new();
    let at = plain(&lab).await;
    let address = at.url("").strip_prefix("http://").unwrap().to_owned();
    let refused_after = async |padding: usize| {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let padding = "x".repeat(padding);
        let head =
            format!("PUT /file HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000\r\nx-padding: {padding}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.write_all(&[b'x'; 500]).await.unwrap();
        let all = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        (all.is_ok_and(|read| read.is_ok()), answer.contains("connection: close"))
    };
    assert_eq!(refused_after(20_000).await, (true, true));
    assert_eq!(
        refused_after(20).await,
        (false, false),
        "what is on its way is let come"
    );
}

/// A file that is cut short under its reader would be filled up, or never end.
#[tokio::test]
async fn a_file_that_becomes_shorter_breaks_off() {
    let lab = Lab::new();
    let at = plain(&lab).await;
    at.put("/file", noise(40 << 20)).await.expect(201);
    let mut response = at.begin("GET", "/file", &[], weir_http::body::empty()).await;
    let file = std::fs::File::options().write(true).open(at.root.join("file")).unwrap();
    file.set_len(1 << 20).unwrap();
    let mut got = 0;
    let ended = loop {
        match http_body_util::BodyExt::frame(response.body_mut()).await {
            Some(Ok(frame)) => got += frame.into_data().unwrap().len(),
            outcome => break outcome,
        }
    };
    assert!(matches!(ended, Some(Err(_))), "it ended well after {got} bytes");
    assert!(got < 40 << 20);
}
