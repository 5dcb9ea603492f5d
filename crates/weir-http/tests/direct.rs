//! Parts of files in place of bytes, over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{collections::VecDeque, convert::Infallible, io::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weir_http::{
    Body, Client, ClientConfig, Direct, RunningServer, SentFile, ServerLimits, TrustRoots, WINDOW, bind, body, serve,
};

/// The parts of an answer.
#[derive(Clone, Copy)]
enum Piece {
    Bytes(usize),
    /// Of the file, from here on.
    File(usize, usize),
    /// A copy of a stand-in, which stands for nothing.
    Copied(usize),
}

const FILE: usize = 3 << 20;

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 | 1
    };
    (0..length).map(|_| next()).collect()
}

fn expected(pieces: &[Piece]) -> Vec<u8> {
    let (file, bytes) = (noise(FILE, 7), noise(WINDOW, 9));
    let part = |piece: &Piece| match *piece {
        Piece::Bytes(length) | Piece::Copied(length) => bytes[..length].to_vec(),
        Piece::File(at, length) => file[at..at + length].to_vec(),
    };
    pieces.iter().flat_map(part).collect()
}

/// Gives its pieces one by one, as a body that reads a file would.
struct Pieces {
    left: VecDeque<Piece>,
    file: SentFile,
    direct: Direct,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = body::Cause;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let piece = self.left.pop_front().map(|piece| match piece {
            Piece::Bytes(length) => Bytes::from(noise(WINDOW, 9)).slice(..length),
            Piece::File(at, length) => self.direct.stand_in(self.file.clone(), at as u64, length),
            Piece::Copied(length) => Bytes::from(self.direct.stand_in(self.file.clone(), 0, length).to_vec()),
        });
        std::task::Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece))))
    }
}

/// Each path `/n` is answered with the n-th list of pieces.
fn start(answers: Vec<Vec<Piece>>) -> RunningServer {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&noise(FILE, 7)).unwrap();
    let (file, answers): (SentFile, Arc<_>) = (Arc::new(file), Arc::new(answers));
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let which: usize = request.uri().path()[1..].parse().unwrap();
        let pieces = &answers[which];
        let length: usize = expected(pieces).len();
        let body = Pieces {
            left: pieces.iter().copied().collect(),
            file: file.clone(),
            direct: request.extensions().get::<Direct>().unwrap().clone(),
        };
        let answer = Response::builder().header("content-length", length);
        let answer = answer.body(body.boxed_unsync()).unwrap();
        async move { Ok::<Response<Body>, Infallible>(answer) }
    });
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    serve(listener, None, ServerLimits::default(), service).unwrap()
}

fn answers() -> Vec<Vec<Piece>> {
    let mut state = 3_u64;
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut piece = move || {
        let most = [10, 5_000, WINDOW - 1][draw(3)];
        let length = 1 + draw(most);
        if draw(3) == 0 {
            Piece::Bytes(length)
        } else {
            Piece::File(draw(FILE - length), length)
        }
    };
    let mut answers: Vec<Vec<Piece>> = (1..20).map(|count| (0..count % 9).map(|_| piece()).collect()).collect();
    answers.push(vec![
        Piece::File(0, WINDOW),
        Piece::File(WINDOW, WINDOW),
        Piece::File(2 * WINDOW, WINDOW),
    ]);
    answers
}

/// A byte of another part, or a zero in place of one, and a file arrives damaged.
#[tokio::test]
async fn parts_of_files_and_bytes_come_in_their_order() {
    let answers = answers();
    let server = start(answers.clone());
    let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
    for round in 0..2 {
        for (which, pieces) in answers.iter().enumerate() {
            let uri = format!("http://{}/{which}", server.address());
            let request = Request::get(uri).body(body::empty()).unwrap();
            let got = client
                .send(request)
                .await
                .unwrap()
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes();
            assert!(got == expected(pieces), "answer {which} of round {round}");
        }
    }
    server.shutdown().await;
}

/// The bytes of one answer would come in another, where requests come before the answers have gone.
#[tokio::test]
async fn pipelined_requests_of_a_slow_reader_are_answered_in_their_order() {
    let answers = answers();
    let server = start(answers.clone());
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut stream = socket.connect(server.address()).await.unwrap();
    for which in 0..answers.len() {
        let close = if which + 1 == answers.len() {
            "connection: close\r\n"
        } else {
            ""
        };
        let request = format!("GET /{which} HTTP/1.1\r\nhost: x\r\n{close}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
    }
    let mut got = Vec::new();
    let mut buffer = vec![0; 7_919];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        if read == 0 {
            break;
        }
        got.extend_from_slice(&buffer[..read]);
        if got.len() % 13 == 0 {
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    }
    let mut rest = &got[..];
    for (which, pieces) in answers.iter().enumerate() {
        let head = rest.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let expected = expected(pieces);
        assert!(rest[head..head + expected.len()] == expected, "answer {which}");
        rest = &rest[head + expected.len()..];
    }
    assert!(rest.is_empty());
    server.shutdown().await;
}

/// Zeros would arrive as a file's content.
#[tokio::test]
async fn a_stand_in_that_was_copied_ends_the_connection_and_is_never_sent() {
    let server = start(vec![vec![Piece::Bytes(10), Piece::Copied(5_000), Piece::Bytes(10)]]);
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /0 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got).await;
    assert!(!got.contains(&0), "{} bytes came", got.len());
    assert!(got.len() < 5_000);
    server.shutdown().await;
}
