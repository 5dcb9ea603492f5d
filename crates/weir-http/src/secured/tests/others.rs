//! rustls as it stands at the other end, over sockets.

use std::{
    future::poll_fn,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    pin::Pin,
    sync::Arc,
    task::Poll,
    thread::JoinHandle,
};

use rustls::{ClientConnection, HandshakeKind, ServerConnection, StreamOwned};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};

use super::{
    super::{ClientSide, Records, Role, Secured, ServerSide, layout::WHOLE},
    SUITES, configs,
};
use crate::{Buffers, buffers::AdjustableAhead as _, tcp::Tcp};

const LENGTH: usize = 300_000;

fn bytes() -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 31 % 251) as u8).collect()
}

/// Another's end in a thread: reads everything, says it back with a new key amid, and ends.
fn echo<C, D>(tcp: TcpStream, connection: C, renew: impl Fn(&mut C) + Send + 'static) -> JoinHandle<C>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<D>> + Send + 'static,
    D: rustls::SideData + 'static,
{
    std::thread::spawn(move || {
        let mut stream = StreamOwned::new(connection, tcp);
        let mut heard = vec![0; LENGTH];
        stream.read_exact(&mut heard).unwrap();
        stream.write_all(&heard[..LENGTH / 2]).unwrap();
        renew(&mut stream.conn);
        stream.write_all(&heard[LENGTH / 2..]).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        // The other side ends too, by the rules.
        assert_eq!(stream.read(&mut heard).unwrap(), 0);
        stream.conn
    })
}

async fn talk<S: Role>(stream: &mut Secured<S>) {
    let said = bytes();
    stream.write_all(&said).await.unwrap();
    stream.flush().await.unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.unwrap();
    assert!(heard == said);
    // It would wait for ever for an answer to its new key.
    stream.shutdown().await.unwrap();
}

fn sockets() -> (TcpStream, Tcp) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    far.set_nonblocking(true).unwrap();
    (near, Tcp::new(tokio::net::TcpStream::from_std(far).unwrap(), None))
}

async fn serve(
    config: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
) -> (Secured<ServerSide>, ClientConnection) {
    let (near, far) = sockets();
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let other = echo(near, client, |connection| {
        if connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) {
            connection.refresh_traffic_keys().unwrap();
        }
    });
    let mut stream = Secured::accept(far, config).await.unwrap();
    talk(&mut stream).await;
    let other = tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap();
    (stream, other)
}

async fn ask(
    config: Arc<rustls::ClientConfig>,
    server: Arc<rustls::ServerConfig>,
) -> (Secured<ClientSide>, ServerConnection) {
    let (near, far) = sockets();
    let other = echo(near, ServerConnection::new(server).unwrap(), |connection| {
        if connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) {
            connection.refresh_traffic_keys().unwrap();
        }
    });
    let mut stream = Secured::connect(far, config, "localhost".try_into().unwrap())
        .await
        .unwrap();
    talk(&mut stream).await;
    let other = tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap();
    (stream, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_and_a_server_of_rustls_understand_us() {
    for suite in SUITES {
        let (server, client) = configs(Some(suite), &rustls::version::TLS13);
        let (stream, _) = serve(server.clone(), client.clone()).await;
        assert!(matches!(stream.records, Records::Established(_)));
        let (stream, _) = ask(client, server).await;
        assert!(matches!(stream.records, Records::Established(_)));
        assert_eq!(stream.peer_certificates().unwrap().len(), 1);
    }
}

/// CentOS 7 and Java 8 still ask for it.
#[tokio::test(flavor = "multi_thread")]
async fn tls_1_2_is_left_to_rustls() {
    let (server, client) = configs(None, &rustls::version::TLS12);
    let (stream, _) = serve(server.clone(), client.clone()).await;
    assert!(matches!(stream.records, Records::Handshaking(_)));
    let (stream, _) = ask(client, server).await;
    assert!(matches!(stream.records, Records::Handshaking(_)));
}

/// A ticket that is lost costs each connection a signature.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_taken_up_again() {
    let (server, client) = configs(None, &rustls::version::TLS13);
    let (_, first) = ask(client.clone(), server.clone()).await;
    assert_eq!(first.handshake_kind(), Some(HandshakeKind::Full));
    let (_, second) = ask(client.clone(), server.clone()).await;
    assert_eq!(second.handshake_kind(), Some(HandshakeKind::Resumed));
    let (_, first) = serve(server.clone(), client.clone()).await;
    let (_, second) = serve(server, client).await;
    assert_eq!(first.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(second.handshake_kind(), Some(HandshakeKind::Resumed));
}

/// A reader that cannot tell the end from a cut cable takes half a file for a whole one.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_without_a_word_is_an_error() {
    let (server, client) = configs(None, &rustls::version::TLS13);
    let (near, far) = sockets();
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let other = std::thread::spawn(move || {
        let mut stream = StreamOwned::new(client, near);
        stream.write_all(b"half").unwrap();
        stream.flush().unwrap();
        stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
        // Bytes left unread when a socket closes reset the connection.
        let _ = stream.sock.read_to_end(&mut Vec::new());
    });
    let mut stream = Secured::accept(far, server).await.unwrap();
    let mut heard = Vec::new();
    let error = stream.read_to_end(&mut heard).await.unwrap_err();
    assert_eq!(
        (error.kind(), &heard[..]),
        (std::io::ErrorKind::UnexpectedEof, &b"half"[..])
    );
    drop(stream);
    other.join().unwrap();
}

/// The other side gets an alert, so that its log names the cause; earlier data are not lost.
#[tokio::test(flavor = "multi_thread")]
async fn faults_are_told_to_the_other_side() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let (server, client) = configs(None, version);
        let (near, far) = sockets();
        let mut raw = near.try_clone().unwrap();
        let (sent, all_there) = tokio::sync::oneshot::channel();
        let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
        let other = std::thread::spawn(move || {
            let mut stream = StreamOwned::new(client, near);
            stream.write_all(b"good").unwrap();
            stream.flush().unwrap();
            raw.write_all(&[23, 3, 3, 0, 40]).unwrap();
            raw.write_all(&[0; 40]).unwrap();
            sent.send(()).unwrap();
            stream.read(&mut [0; 10]).unwrap_err().to_string()
        });
        let mut stream = Secured::accept(far, server).await.unwrap();
        // Both records are there: bytes written over loopback can be read.
        all_there.await.unwrap();
        let mut heard = Vec::new();
        let error = stream.read_to_end(&mut heard).await.unwrap_err();
        assert_eq!(
            (error.kind(), &heard[..]),
            (std::io::ErrorKind::InvalidData, &b"good"[..])
        );
        // It stays an error.
        for _ in 0..2 {
            let again = stream.read(&mut [0; 10]).await.unwrap_err();
            assert_eq!(again.kind(), std::io::ErrorKind::InvalidData);
        }
        assert!(stream.write(b"more").await.is_err());
        let told = other.join().unwrap();
        assert!(told.contains("BadRecordMac"), "{told}");
    }
}

/// Ten thousand of them would fill any machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_has_no_file_kept_for_it() {
    let (server, client) = configs(None, &rustls::version::TLS13);
    let (near, far) = sockets();
    socket2::SockRef::from(&near).set_recv_buffer_size(16 << 10).unwrap();
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let other = std::thread::spawn(move || {
        let mut stream = StreamOwned::new(client, near);
        let (mut heard, mut all, said) = (vec![0; 20_000], 0, bytes().repeat(2));
        while all < 64 * LENGTH {
            let read = stream.read(&mut heard).unwrap();
            assert!(read > 0);
            assert!(heard[..read] == said[all % LENGTH..][..read], "{read} bytes at {all}");
            all += read;
        }
    });
    let mut stream = Secured::accept(far, server).await.unwrap();
    let (block, mut all) = (bytes().repeat(2), 0);
    while all < 64 * LENGTH {
        let next = &block[all % LENGTH..][..LENGTH.min(64 * LENGTH - all)];
        all += stream.write(next).await.unwrap();
        assert!(stream.outgoing.held() < 300_000, "{}", stream.outgoing.held());
    }
    stream.flush().await.unwrap();
    assert_eq!(stream.outgoing.held(), 0);
    other.join().unwrap();
}

/// A message of 64 KiB in records of a byte each takes six times as much; with padding, any amount.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_cut_into_crumbs_is_given_up() {
    let (server, _) = configs(None, &rustls::version::TLS13);
    let (mut near, far) = sockets();
    let other = std::thread::spawn(move || {
        let mut crumbs = Vec::new();
        for byte in [1, 0, 0xff, 0xff].into_iter().chain(std::iter::repeat_n(0, 60_000)) {
            crumbs.extend([22, 3, 1, 0, 1, byte]);
        }
        // It is cut off on the way.
        let _ = near.write_all(&crumbs);
        near
    });
    let outcome = Secured::accept(far, server).await;
    assert_eq!(outcome.err().unwrap().kind(), std::io::ErrorKind::InvalidData);
    drop(other.join().unwrap());
}

/// A connection of ten thousand that waits must hold next to nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_has_no_buffer() {
    let (server, client) = configs(None, &rustls::version::TLS13);
    let (near, far) = sockets();
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let mut stream = StreamOwned::new(client, near);
        stream.write_all(&bytes()).unwrap();
        stream.flush().unwrap();
        wait.recv().unwrap();
        stream.write_all(b"few").unwrap();
        wait.recv().unwrap();
    });
    let mut stream = Secured::accept(far, server).await.unwrap();
    let mut heard = vec![0; LENGTH];
    stream.read_exact(&mut heard).await.unwrap();
    assert!(heard == bytes());
    // As it is waited for the next head.
    let waits = poll_fn(|cx| {
        let mut few = ReadBuf::new(&mut heard[..4096]);
        Poll::Ready(Pin::new(&mut stream).poll_read(cx, &mut few).is_pending())
    });
    assert!(waits.await);
    assert_eq!(stream.incoming.held(), 0);
    go.send(()).unwrap();
    stream.read_exact(&mut heard[..3]).await.unwrap();
    assert_eq!(stream.incoming.held() + stream.outgoing.held(), 0);
    go.send(()).unwrap();
    other.join().unwrap();
}

/// Strangers would have 128 KiB each read ahead of heads that never end, which no bound of heads sees.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_a_record_is_held_of_heads() {
    let (server, client) = configs(None, &rustls::version::TLS13);
    let (near, far) = sockets();
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let other = std::thread::spawn(move || {
        let mut stream = StreamOwned::new(client, near);
        stream.write_all(&bytes()).unwrap();
        stream.flush().unwrap();
        stream
    });
    let mut stream = Secured::accept(far, server).await.unwrap();
    stream.read_ahead(false);
    let (mut heard, mut read) = (vec![0; LENGTH], 0);
    let mut most_of_a_body = 0;
    while read < LENGTH {
        let is_body = (LENGTH / 3..LENGTH / 2).contains(&read);
        stream.read_ahead(is_body);
        let end = LENGTH.min(read + 4096);
        read += stream.read(&mut heard[read..end]).await.unwrap();
        if is_body {
            most_of_a_body = most_of_a_body.max(stream.incoming.held());
        } else if stream.holds_much() {
            // Received body bytes stay until they are read.
            assert!((LENGTH / 2..LENGTH / 2 + (128 << 10)).contains(&read), "{read}");
        } else {
            assert!(stream.incoming.held() <= WHOLE, "{} at {read}", stream.incoming.held());
        }
    }
    assert!(heard == bytes());
    assert!(
        most_of_a_body > 2 * WHOLE,
        "a body would be read in small pieces: {most_of_a_body}"
    );
    assert_eq!(stream.incoming.held(), 0);
    drop(other.join().unwrap());
}

/// A socket that is read up to the bound gives a record in two reads: its plaintext alone is as long as the least bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_bound_is_one_of_plaintext() {
    let (server, client) = configs(None, &rustls::version::TLS13);
    let (near, far) = sockets();
    let bound = far.buffers();
    let client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let other = std::thread::spawn(move || {
        let mut stream = StreamOwned::new(client, near);
        stream.write_all(&bytes()).unwrap();
        stream
    });
    let mut stream = Secured::accept(far, server).await.unwrap();
    let _all_is_there = other.join().unwrap();
    bound.bound(Buffers::LEAST);
    let (mut heard, mut read) = (vec![0; LENGTH], 0);
    while read < LENGTH {
        let now = stream.read(&mut heard[read..]).await.unwrap();
        assert!(now < Buffers::LEAST, "{now}");
        read += now;
    }
    assert!(heard == bytes());
    assert_eq!(stream.tcp.buffers().get(), Buffers::MOST);
}
