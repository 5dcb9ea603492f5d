//! Sources that break their promises: they send fewer bytes or more, never end, or have another file meanwhile. By one stream and by
//! several the outcome is the same: the file that was promised, or an error that names the source, and nothing else.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weir_units::Algorithm;

use super::{
    lab::{Answer, Endpoint, Lab, digest, noise, pieces},
    namespace::balanced,
    stripes::{FOUR, Fate, ONE, Source},
};

const SIZE: usize = 8 << 20;

/// An endpoint with little patience, and room for little more than the file.
async fn impatient(lab: &Lab) -> Endpoint {
    lab.endpoint("b", |config| {
        config.tpc.stall_timeout = Duration::from_secs(1);
        config.tpc.stall_bytes = "1 MB".parse().unwrap();
        config.areas[0].quota = Some("30 MB".parse().unwrap());
    })
    .await
}

/// Nothing came of it, and nothing stays.
async fn nothing_of(at: &Endpoint, answer: &Answer, expected: &[&str]) {
    answer.failed(expected);
    balanced(at).await;
    assert!(at.names().is_empty(), "{:?}", at.names());
}

/// A part that is longer than it should be belongs to another file, or its bytes to another place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_more_bytes_than_promised() {
    let lab = Lab::new();
    let b = impatient(&lab).await;
    for fate in [Fate::More(1), Fate::More(3_000_000), Fate::Endless] {
        for wrong in 0..4 {
            let source = Source::new(SIZE, move |number| if number == wrong { fate } else { Fate::Whole });
            let (_source, _server, url) = source.serve(&lab);
            let answer = b.pull("/f", &url, &[FOUR]).await;
            nothing_of(&b, &answer, &["size (source during"]).await;
        }
    }
}

/// A part that ends early is only the beginning of it: the rest is asked for, and the file is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_fewer_bytes_than_promised() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let source = Source::new(
        SIZE,
        |number| if number < 4 { Fate::Fewer(100_000) } else { Fate::Whole },
    );
    let (source, _server, url) = source.serve(&lab);
    b.pull("/f", &url, &[FOUR]).await.copied();
    assert!(b.get("/f").await.body == source.content);
    b.ask("DELETE", "/f", &[], "").await.expect(204);
    // A source that never gives its last byte.
    let source = Source::new(SIZE, |number| {
        if number == 0 || number > 3 {
            Fate::Fewer(1)
        } else {
            Fate::Whole
        }
    });
    let (_source, _server, url) = source.serve(&lab);
    let answer = b.pull("/f", &url, &[FOUR]).await;
    nothing_of(&b, &answer, &["(source during transfer)"]).await;
}

/// A stream that gives a byte now and then is never silent, and holds its place all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_trickle() {
    let lab = Lab::new();
    let b = impatient(&lab).await;
    let trickles = |number| {
        if number == 3 {
            Fate::Trickles(500_000)
        } else {
            Fate::Whole
        }
    };
    let (_source, _server, url) = Source::new(SIZE, trickles).serve(&lab);
    let answer = b.pull("/f", &url, &[FOUR]).await;
    nothing_of(&b, &answer, &["stall (source during transfer)"]).await;
    let whole = Source {
        whole: Fate::Trickles(500_000),
        ..Source::new(SIZE, |_| Fate::Whole)
    };
    let (_source, _server, url) = whole.serve(&lab);
    let answer = b.pull("/f", &url, &[ONE]).await;
    nothing_of(&b, &answer, &["stall (source during transfer)"]).await;
}

/// A file that was replaced while it was read, under the same name for its version or without any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_meanwhile() {
    let lab = Lab::new();
    let b = impatient(&lab).await;
    let mismatch = ["checksum (source during finalization)", "mismatch"];
    // The checksum tells what the tag does not.
    for without in [&[][..], &["etag"]] {
        for wrong in 0..4 {
            let source = Source {
                without,
                ..Source::new(
                    SIZE,
                    move |number| if number == wrong { Fate::Swapped } else { Fate::Whole },
                )
            };
            let (_source, _server, url) = source.serve(&lab);
            let answer = b.pull("/f", &url, &[FOUR]).await;
            nothing_of(&b, &answer, &mismatch).await;
        }
    }
    let whole = |whole, part| Source {
        whole,
        ..Source::new(SIZE, move |_| part)
    };
    let (_source, _server, url) = whole(Fate::Swapped, Fate::Whole).serve(&lab);
    nothing_of(&b, &b.pull("/f", &url, &[ONE]).await, &mismatch).await;
    // A stream that broke is not gone on with in another file.
    let (_source, _server, url) = whole(Fate::Breaks(500_000), Fate::Changed).serve(&lab);
    let changed = ["protocol (source during transfer)", "changed while it was being read"];
    nothing_of(&b, &b.pull("/f", &url, &[ONE]).await, &changed).await;
    let (_source, _server, url) = whole(Fate::Breaks(500_000), Fate::Swapped).serve(&lab);
    nothing_of(&b, &b.pull("/f", &url, &[ONE]).await, &mismatch).await;
}

/// A body without an end fills what it is given: not the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_never_ends() {
    let lab = Lab::new();
    let b = impatient(&lab).await;
    let (_peer, peer) = lab.peer(|_| async { Response::new(pieces(stream::repeat_with(|| Ok(noise(100_000))))) });
    for streams in [ONE, FOUR] {
        let answer = b.pull("/f", &format!("{peer}/f"), &[streams]).await;
        nothing_of(&b, &answer, &["no-space (destination", "quota"]).await;
    }
    // No longer than what is read behind a refusal.
    let endless = pieces(stream::repeat_with(|| Ok(noise(100_000))).take(400));
    b.send("PUT", "/f", &[], endless).await.expect(507);
    balanced(&b).await;
    b.put("/f", noise(29_000_000)).await.expect(201);
}

/// Gives these bytes to whoever comes, whatever is asked.
async fn raw(answer: Vec<u8>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.3.255:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await?);
                }
                socket.write_all(&answer).await?;
                socket.shutdown().await
            });
        }
    });
    format!("http://{address}/f")
}

/// Frames that lie: a length that is too small or too large, chunks without the last one, two lengths at once.
#[tokio::test]
async fn frames_that_lie() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |config| config.tpc.plain_http = true).await;
    let content = noise(300_000);
    let digest = format!("Digest: {}\r\n", digest(Algorithm::Adler32, &content));
    let sent = |head: &str, body: &[u8]| [format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes(), body].concat();
    let chunk = |body: &[u8]| [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat();
    let cases = [
        (
            "too small, and a checksum",
            sent(&format!("Content-Length: 200000\r\n{digest}"), &content),
            "checksum (source",
        ),
        (
            "too large",
            sent(&format!("Content-Length: 400000\r\n{digest}"), &content),
            "network (source",
        ),
        (
            "no last chunk",
            sent("Transfer-Encoding: chunked\r\n", &chunk(&content)),
            "network (source",
        ),
        (
            "a chunk that is cut short",
            sent("Transfer-Encoding: chunked\r\n", &chunk(&content)[..200_000]),
            "network (source",
        ),
        (
            "two lengths",
            sent("Content-Length: 200000\r\nContent-Length: 300000\r\n", &content),
            "(source",
        ),
        (
            "a length that is no number",
            sent("Content-Length: 3e5\r\n", &content),
            "(source",
        ),
    ];
    for (what, answer, expected) in cases {
        let source = raw(answer).await;
        for streams in [ONE, FOUR] {
            let headers = [("Source", source.as_str()), ("Credential", "none"), streams];
            let answer = b.ask("COPY", "/f", &headers, "").await;
            assert!(answer.last_word().starts_with("failure: "), "{what}: {}", answer.text());
            nothing_of(&b, &answer, &[expected]).await;
        }
    }
}
