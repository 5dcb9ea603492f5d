//! Real sockets and real TLS on loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use weir_http::{
    AddressFilter, Body, CertificateError, ChainCheck, Client, ClientConfig, ClientError, ConnectedTo, ConnectionInfo,
    Identity, RunningServer, ServerLimits, TrustRoots, bind, body, client_config, serve, server_config,
};

struct Authority {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
    file: tempfile::NamedTempFile,
}

fn authority() -> Authority {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), issuer.pem()).unwrap();
    Authority { issuer, file }
}

impl Authority {
    fn identity(&self, name: &str) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        Identity {
            chain_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    fn client(&self) -> Client {
        Client::new(config(TrustRoots::file(self.file.path()))).unwrap()
    }
}

fn config(roots: TrustRoots) -> ClientConfig {
    let mut config = ClientConfig::new(roots);
    config.connect_timeout = Duration::from_secs(5);
    config
}

fn start<F, R>(identity: &Identity, handler: F) -> RunningServer
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let service = tower::service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    serve(
        listener,
        Some(server_config(identity).unwrap()),
        ServerLimits::default(),
        service,
    )
    .unwrap()
}

fn uri(address: SocketAddr, scheme: &str) -> String {
    format!("{scheme}://{address}/x")
}

async fn read(response: Response<Incoming>) -> Bytes {
    body::read_limited(response.into_body(), 1 << 20, Duration::from_secs(5))
        .await
        .unwrap()
}

/// An address in a certificate would not be trusted, or the peer address would be lost.
#[tokio::test]
async fn tls_by_address_carries_a_request_and_names_both_ends() {
    let authority = authority();
    let server = start(&authority.identity("127.0.0.1"), |request| async move {
        let info = request.extensions().get::<ConnectionInfo>().unwrap().clone();
        Response::new(body::full(format!("{} {}", info.tls, info.peer.ip())))
    });
    let request = Request::get(uri(server.address(), "davs")).body(body::empty()).unwrap();
    let response = authority.client().send(request).await.unwrap();
    assert_eq!(
        response.extensions().get::<ConnectedTo>().map(|to| to.peer),
        Some(server.address())
    );
    assert_eq!(read(response).await, "true 127.0.0.1");
    server.shutdown().await;
}

/// A server that dies during the handshake would look like one with a wrong certificate, which nobody tries again.
#[tokio::test]
async fn a_handshake_that_is_broken_off_is_no_tls_error() {
    let ours = authority();
    for reset in [true, false] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            // Unread bytes or no time to linger make the kernel send a reset, else it says goodbye in good order.
            if reset {
                socket2::SockRef::from(&stream)
                    .set_linger(Some(std::time::Duration::ZERO))
                    .unwrap();
            } else {
                let _ = tokio::io::AsyncReadExt::read(&mut { stream }, &mut [0; 4096]).await;
            }
        });
        let request = Request::get(uri(address, "https")).body(body::empty()).unwrap();
        let error = ours.client().send(request).await.unwrap_err();
        assert!(matches!(error, ClientError::Connect { .. }), "reset {reset}: {error:?}");
    }
}

/// Takes no server, or every one; remembers what it was shown.
#[derive(Debug)]
struct Judge {
    refuses: bool,
    seen: Mutex<Vec<usize>>,
}

impl ChainCheck for Judge {
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        self.seen.lock().push(chain.len());
        if self.refuses {
            Err(CertificateError::ApplicationVerificationFailure)
        } else {
            Ok(())
        }
    }
}

/// A server would be told what was meant for another, or a check of its own would replace the usual one.
#[tokio::test]
async fn a_server_can_be_judged_beyond_the_usual() {
    let authority = authority();
    let asked = Arc::new(AtomicBool::new(false));
    let was_asked = asked.clone();
    let server = start(&authority.identity("127.0.0.1"), move |_| {
        was_asked.store(true, Ordering::Relaxed);
        async { Response::new(body::full("hello")) }
    });
    let judge = |refuses| {
        Arc::new(Judge {
            refuses,
            seen: Mutex::default(),
        })
    };
    let send = async |client: &Client, check: &Arc<Judge>| {
        let client = client.judging(check.clone()).unwrap();
        let request = Request::get(uri(server.address(), "https"));
        client.send(request.body(body::empty()).unwrap()).await
    };
    let strict = judge(true);
    let error = send(&authority.client(), &strict).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    assert!(!asked.load(Ordering::Relaxed), "the request went out");
    assert_eq!(*strict.seen.lock(), [1]);

    let lenient = judge(false);
    assert_eq!(
        send(&authority.client(), &lenient).await.unwrap().status(),
        StatusCode::OK
    );
    assert_eq!(*lenient.seen.lock(), [1]);

    let stranger = judge(false);
    let error = send(&self::authority().client(), &stranger).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    assert!(stranger.seen.lock().is_empty(), "asked about a stranger");
    let nobody = Client::new(config(TrustRoots::default())).unwrap();
    let unasked = judge(false);
    let error = send(&nobody, &unasked).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    assert!(unasked.seen.lock().is_empty(), "asked where no authority is trusted");
}

/// A certificate for somebody else, or from a stranger, would be accepted.
#[tokio::test]
async fn wrong_name_and_unknown_authority_are_tls_errors() {
    let (ours, strange) = (authority(), authority());
    let server = start(&ours.identity("storage.example"), |_| async {
        Response::new(body::empty())
    });
    let request = || {
        Request::get(uri(server.address(), "https"))
            .body(body::empty())
            .unwrap()
    };
    let wrong_name = ours.client().send(request()).await.unwrap_err();
    assert!(matches!(wrong_name, ClientError::Tls { .. }), "{wrong_name:?}");
    let untrusted = strange.client().send(request()).await.unwrap_err();
    assert!(matches!(untrusted, ClientError::Tls { .. }), "{untrusted:?}");
    assert!(untrusted.before_request());
}

/// A refused upload would still push its body through.
#[tokio::test]
async fn a_body_that_waits_for_the_word_is_not_sent_when_refused() {
    let authority = authority();
    let server = start(&authority.identity("127.0.0.1"), |request| async move {
        if request.headers().contains_key("x-refuse") {
            return Response::builder()
                .status(StatusCode::FORBIDDEN)
                .body(body::empty())
                .unwrap();
        }
        let got = body::read_limited(request.into_body(), 1 << 20, Duration::from_secs(5))
            .await
            .unwrap();
        Response::new(body::full(got))
    });
    for (refuse, status) in [(true, StatusCode::FORBIDDEN), (false, StatusCode::OK)] {
        let touched = Arc::new(AtomicBool::new(false));
        let flag = touched.clone();
        let stream = futures_util::stream::once(async move {
            flag.store(true, Ordering::SeqCst);
            Ok(Bytes::from_static(b"data"))
        });
        let mut request = Request::put(uri(server.address(), "https"))
            .body(body::stream(stream))
            .unwrap();
        if refuse {
            request.headers_mut().insert("x-refuse", "1".parse().unwrap());
        }
        let minute = Duration::from_secs(60);
        let response = authority
            .client()
            .send_expecting(request, minute, minute)
            .await
            .unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(touched.load(Ordering::SeqCst), !refuse);
        assert_eq!(read(response).await, if refuse { "" } else { "data" });
    }
}

/// A filter would see the name and not the address, or a refused address would look like a broken network.
#[tokio::test]
async fn a_refused_address_is_never_connected_to() {
    let authority = authority();
    let server = start(&authority.identity("127.0.0.1"), |_| async {
        Response::new(body::empty())
    });
    let mut config = config(TrustRoots::file(authority.file.path()));
    let request = || {
        let request = Request::get(uri(server.address(), "https"));
        request.body(body::empty()).unwrap()
    };
    // Also not on a connection that is open because somebody else may.
    let free = Client::new(config.clone()).unwrap();
    read(free.send(request()).await.unwrap()).await;
    let bound = free.within(AddressFilter::default());
    config.filter = Some(AddressFilter::default());
    for client in [
        bound.clone(),
        bound.presenting(client_config(&config.roots).unwrap()),
        Client::new(config).unwrap(),
    ] {
        let error = client.send(request()).await.unwrap_err();
        assert!(matches!(error, ClientError::Forbidden { .. }), "{error:?}");
        assert!(error.to_string().contains("127.0.0.1, a loopback address"), "{error}");
    }
    let allowed = free.within(AddressFilter::allowing(&["127.0.0.0/8".parse().unwrap()]));
    assert!(allowed.send(request()).await.is_ok());
}

/// A closed port and a silent server would be told apart by nobody, or waited for without end.
#[tokio::test]
async fn refusal_and_silence_have_names() {
    let authority = authority();
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = config(TrustRoots::file(authority.file.path()));
    config.connect_timeout = Duration::from_millis(300);
    let client = Client::new(config).unwrap();
    let request = || Request::get(uri(address, "https")).body(body::empty()).unwrap();
    let silent = client.send(request()).await.unwrap_err();
    assert!(
        matches!(silent, ClientError::Timeout { phase: "handshake", .. }),
        "{silent:?}"
    );
    drop(listener);
    let refused = client.send(request()).await.unwrap_err();
    assert!(matches!(refused, ClientError::Connect { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("/x"), "paths stay out of errors");
}

/// A query with a token in it would end up in an error text.
#[tokio::test]
async fn errors_show_neither_path_nor_query() {
    let client = authority().client();
    let request = Request::get("ftp://host/secret?authz=token")
        .body(body::empty())
        .unwrap();
    let error = client.send(request).await.unwrap_err();
    assert!(
        !format!("{error:?}").contains("secret") && !format!("{error:?}").contains("token"),
        "{error:?}"
    );
}

/// Work in hand would be cut by a graceful stop.
#[tokio::test]
async fn shutdown_lets_a_request_end() {
    let authority = authority();
    let (entered, mut inside) = tokio::sync::mpsc::channel(1);
    let release = Arc::new(tokio::sync::Notify::new());
    let gate = release.clone();
    let server = start(&authority.identity("127.0.0.1"), move |_| {
        let (entered, gate) = (entered.clone(), gate.clone());
        async move {
            entered.send(()).await.unwrap();
            gate.notified().await;
            Response::new(body::full("done"))
        }
    });
    let request = Request::get(uri(server.address(), "https"))
        .body(body::empty())
        .unwrap();
    let client = authority.client();
    let answer = tokio::spawn(async move { read(client.send(request).await.unwrap()).await });
    inside.recv().await.unwrap();
    let stopping = tokio::spawn(server.shutdown());
    release.notify_one();
    assert_eq!(answer.await.unwrap(), "done");
    stopping.await.unwrap();
}

/// A body without end would fill the memory.
#[tokio::test]
async fn bodies_are_bounded() {
    let endless = body::stream(futures_util::stream::repeat_with(|| Ok(Bytes::from_static(&[0; 1024]))));
    let error = body::read_limited(endless, 4096, Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(error, weir_http::BodyError::TooLarge { limit: 4096 }));
}

/// XRootD would see requests without a token and copies without a source: it compares names letter by letter.
#[tokio::test]
async fn header_names_go_out_as_the_field_writes_them() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            text.push(char::from(socket.read_u8().await.unwrap()));
        }
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        text
    });
    let names = [
        "Authorization",
        "Source",
        "Want-Digest",
        "TransferHeaderAuthorization",
        "X-Number-Of-Streams",
        "SciTag",
    ];
    let mut request = Request::builder().method("COPY").uri(uri(address, "http"));
    for name in names {
        request = request.header(name, "x");
    }
    let client = authority().client();
    client.send(request.body(body::empty()).unwrap()).await.unwrap();
    let text = seen.await.unwrap();
    for name in names {
        assert!(text.contains(&format!("\r\n{name}: x\r\n")), "{name} in {text}");
    }
}

/// Endpoints on one host could not be told apart by their peers.
#[tokio::test]
async fn a_client_speaks_from_the_address_it_is_given() {
    let authority = authority();
    let server = start(&authority.identity("127.0.0.1"), |request| async move {
        let peer = request.extensions().get::<ConnectionInfo>().unwrap().peer.ip();
        Response::new(body::full(peer.to_string()))
    });
    let config = ClientConfig {
        local_address: Some([127, 0, 7, 9].into()),
        ..config(TrustRoots::file(authority.file.path()))
    };
    let client = Client::new(config).unwrap();
    let request = Request::get(uri(server.address(), "https"))
        .body(body::empty())
        .unwrap();
    assert_eq!(read(client.send(request).await.unwrap()).await, "127.0.7.9");
}

/// A stranger's connection would take the memory that bodies want: half a megabyte for a head that never ends.
#[tokio::test]
async fn heads_are_limited_and_bodies_are_not() {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let service = tower::service_fn(|request: Request<Incoming>| async {
        let length = request.into_body().collect().await.unwrap().to_bytes().len();
        Ok::<_, Infallible>(Response::new(body::full(length.to_string())))
    });
    let server = serve(listener, None, ServerLimits::default(), service).unwrap();
    let connect = || tokio::net::TcpStream::connect(server.address());
    let answer = async |stream: &mut tokio::net::TcpStream| {
        let mut buffer = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer));
        let length = read.await.expect("the server says something").unwrap_or(0);
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let head = |length: usize| format!("PUT / HTTP/1.1\r\nhost: x\r\nx: {}", "a".repeat(length));
    let mut stream = connect().await.unwrap();
    // As much as several tokens, and a body behind it that is larger than any head; twice on one connection.
    for _ in 0..2 {
        let request = format!("{}\r\ncontent-length: 1000000\r\n\r\n", head(60_000));
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(&vec![1; 1_000_000]).await.unwrap();
        assert!(answer(&mut stream).await.ends_with("1000000"));
    }
    for mut stream in [stream, connect().await.unwrap()] {
        // The connection may break while the rest is on its way.
        let _ = stream.write_all(head(2_000_000).as_bytes()).await;
        assert_eq!(answer(&mut stream).await, "");
    }
}
