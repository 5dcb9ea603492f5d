//! A sender and a receiver that speak TLS and nothing else.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use weir_auth::ca::{CertificateAuthority, San};
use weir_http::{TrustRoots, client_config, server_config};

const BLOCK: usize = 512 << 10;

/// Bytes per second, and processor seconds of both ends per GB, over so many connections with two threads each.
pub(super) fn pair(connections: usize) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let authority = CertificateAuthority::create(folder.path())?;
    let identity = authority.issue(&[San::Ip([127, 0, 0, 1].into())], "limit")?;
    let server = server_config(&identity)?;
    let client = client_config(&TrustRoots::file(authority.file()))?;
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
    let (seconds, used) = (start.elapsed().as_secs_f64(), super::process_seconds() - used);
    for sender in senders {
        sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    }
    Ok((bytes / seconds, used / (bytes / 1e9)))
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
