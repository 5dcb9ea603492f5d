//! Senders and receivers over TLS that read and write memory and nothing else: with rustls's own records, and with Weir's.

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{future::try_join_all, stream};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use weir_auth::ca::{CertificateAuthority, San};
use weir_http::{
    Client, ClientConfig, Identity, ServerLimits, TrustRoots, bind, body, client_config, serve, server_config,
};

const BLOCK: usize = 512 << 10;

/// Rate and cost of a sender and a receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Bytes per second.
    pub(super) rate: f64,
    /// Processor seconds of both ends per GB.
    pub(super) cpu: f64,
}

impl Pair {
    fn of(bytes: f64, start: Instant, used: f64) -> Self {
        Self {
            rate: bytes / start.elapsed().as_secs_f64(),
            cpu: (super::process_seconds() - used) / (bytes / 1e9),
        }
    }
}

fn identity() -> Result<(Identity, TrustRoots, tempfile::TempDir)> {
    let folder = tempfile::tempdir()?;
    let authority = CertificateAuthority::create(folder.path())?;
    let identity = authority.issue(&[San::Ip([127, 0, 0, 1].into())], "limit")?;
    Ok((identity, TrustRoots::file(authority.file()), folder))
}

/// Weir's own records, over so many connections, each with the answer to one request.
pub(super) fn own_records(connections: usize) -> Result<Pair> {
    let (identity, roots, _folder) = identity()?;
    let runtime = |name: &str| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(connections.min(2))
            .thread_name(name)
            .enable_all()
            .build()
    };
    let (near, far) = (runtime("receiver")?, runtime("sender")?);
    let server = {
        let _inside = far.enter();
        let answer = tower::service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(blocks())) });
        let listener = bind("127.0.0.1:0".parse()?)?;
        serve(
            listener,
            Some(server_config(&identity)?),
            ServerLimits::default(),
            answer,
        )?
    };
    let uri = format!("https://{}/", server.address());
    let pair = near.block_on(async {
        let client = Client::new(ClientConfig::new(roots))?;
        let (start, used) = (Instant::now(), super::process_seconds());
        let each = (0..connections).map(|_| tokio::spawn(take(client.clone(), uri.clone())));
        let bytes: Result<Vec<f64>> = try_join_all(each).await?.into_iter().collect();
        anyhow::Ok(Pair::of(bytes?.iter().sum(), start, used))
    })?;
    far.block_on(server.shutdown());
    Ok(pair)
}

/// The same block, for as long as is measured.
fn blocks() -> weir_http::Body {
    let (block, start) = (Bytes::from(vec![7_u8; BLOCK]), Instant::now());
    body::stream(stream::iter(
        std::iter::repeat_with(move || Ok(block.clone())).take_while(move |_| start.elapsed() < super::WINDOW),
    ))
}

async fn take(client: Client, uri: String) -> Result<f64> {
    let mut body = client.send(Request::get(uri).body(body::empty())?).await?.into_body();
    let mut bytes = 0.0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len) as f64;
    }
    Ok(bytes)
}

/// rustls's own records, over so many connections with two threads each.
pub(super) fn rustls(connections: usize) -> Result<Pair> {
    let (identity, roots, _folder) = identity()?;
    let server = server_config(&identity)?;
    let client = client_config(&roots)?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let senders: Vec<_> = (0..connections)
        .map(|_| {
            let (listener, server) = (listener.try_clone(), server.clone());
            thread::spawn(move || send(&listener?, server))
        })
        .collect();
    let (start, used) = (Instant::now(), super::process_seconds());
    let receivers: Vec<_> = (0..connections)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || receive(TcpStream::connect(address)?, client))
        })
        .collect();
    let mut bytes = 0.0;
    for receiver in receivers {
        bytes += receiver
            .join()
            .map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    }
    let pair = Pair::of(bytes, start, used);
    for sender in senders {
        sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    }
    Ok(pair)
}

fn send(listener: &TcpListener, config: Arc<rustls::ServerConfig>) -> Result<()> {
    let (tcp, _) = listener.accept()?;
    let mut connection = ServerConnection::new(config)?;
    connection.set_buffer_limit(Some(BLOCK));
    let mut stream = StreamOwned::new(connection, tcp);
    let block = vec![7_u8; BLOCK];
    let start = Instant::now();
    while start.elapsed() < super::WINDOW {
        stream.write_all(&block)?;
    }
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(())
}

fn receive(tcp: TcpStream, config: Arc<rustls::ClientConfig>) -> Result<f64> {
    let name = "127.0.0.1".try_into().context("no name")?;
    let mut stream = StreamOwned::new(ClientConnection::new(config, name)?, tcp);
    let (mut block, mut bytes) = (vec![0_u8; BLOCK], 0.0);
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(bytes),
            read => bytes += read as f64,
        }
    }
}
