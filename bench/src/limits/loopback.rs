//! Bytes over loopback TCP without any protocol.

use std::{
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::Instant,
};

use anyhow::{Context, Result};

const BLOCK: usize = 1 << 20;

/// How a sender hands bytes to the kernel: from its own memory, or by naming a file in memory, which the kernel does not copy.
#[derive(Clone, Copy)]
enum Way {
    Write,
    SendFile,
}

/// Bytes per second of the fastest of both ways, on one connection and on four.
pub(super) fn fastest() -> Result<f64> {
    let mut fastest: f64 = 0.0;
    for way in [Way::Write, Way::SendFile] {
        for connections in [1, 4] {
            fastest = fastest.max(rate(connections, way)?);
        }
    }
    Ok(fastest)
}

fn rate(connections: usize, way: Way) -> Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let start = Instant::now();
    let senders: Vec<_> = (0..connections)
        .map(|_| {
            let listener = listener.try_clone();
            thread::spawn(move || send(&listener?.accept()?.0, way))
        })
        .collect();
    let receivers: Vec<_> = (0..connections)
        .map(|_| thread::spawn(move || receive(TcpStream::connect(address)?)))
        .collect();
    let mut bytes = 0.0;
    for receiver in receivers {
        bytes += receiver.join().ok().context("the receiver panicked")??;
    }
    let seconds = start.elapsed().as_secs_f64();
    for sender in senders {
        sender.join().ok().context("the sender panicked")??;
    }
    Ok(bytes / seconds)
}

fn send(mut stream: &TcpStream, way: Way) -> Result<()> {
    let block = vec![0_u8; BLOCK];
    let mut file: File = tempfile::tempfile_in("/dev/shm")?;
    file.write_all(&block)?;
    file.rewind()?;
    let start = Instant::now();
    while start.elapsed() < super::WINDOW {
        match way {
            Way::Write => stream.write_all(&block)?,
            Way::SendFile => {
                let mut from = 0;
                while from < BLOCK as u64 {
                    let left = BLOCK - from as usize;
                    rustix::fs::sendfile(stream, &file, Some(&mut from), left)?;
                }
            }
        }
    }
    Ok(())
}

fn receive(mut stream: TcpStream) -> Result<f64> {
    let (mut block, mut bytes) = (vec![0_u8; BLOCK], 0.0);
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(bytes),
            read => bytes += read as f64,
        }
    }
}
