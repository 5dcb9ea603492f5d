//! Peers that misbehave, as a storage, a broken network or a firewall may.

use std::{
    io::{Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
};

use anyhow::Result;

/// The behaviour of a peer towards its clients.
#[derive(Debug, Clone, Copy)]
pub enum Peer {
    /// Takes the connection and never says a word.
    Silent,
    /// Takes the connection and closes it.
    Closing,
    /// Passes so many bytes of each connection's answers on, then nothing.
    StallsAfter(SocketAddr, usize),
    /// Passes so many bytes of each connection's answers on, then closes.
    BreaksAfter(SocketAddr, usize),
}

impl Peer {
    /// Starts it on a free port, on a thread of its own that ends with the test's process; gives its address.
    pub fn start(self, ip: IpAddr) -> Result<SocketAddr> {
        let listener = TcpListener::bind((ip, 0))?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming().filter_map(Result::ok) {
                match self {
                    Self::Silent => kept.push(stream),
                    Self::Closing => drop(stream),
                    Self::StallsAfter(behind, limit) => kept.extend(relay(stream, behind, limit, false)),
                    Self::BreaksAfter(behind, limit) => kept.extend(relay(stream, behind, limit, true)),
                }
            }
        });
        Ok(address)
    }
}

/// Passes bytes on in both directions; answers only up to a limit. Returns a handle that keeps the connection open.
fn relay(client: TcpStream, behind: SocketAddr, limit: usize, breaks: bool) -> Option<TcpStream> {
    let server = TcpStream::connect(behind).ok()?;
    let kept = client.try_clone().ok()?;
    let (mut asking, mut asked) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ended = std::io::copy(&mut asking, &mut asked);
        let _closed = asked.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let (mut from, mut to, mut left) = (server, client, limit);
        let mut buffer = [0; 16_384];
        while left > 0 {
            let room = left.min(buffer.len());
            match from.read(&mut buffer[..room]) {
                Ok(0) | Err(_) => return to.shutdown(Shutdown::Write),
                Ok(count) => {
                    to.write_all(&buffer[..count])?;
                    left -= count;
                }
            }
        }
        if breaks {
            to.shutdown(Shutdown::Both)
        } else {
            // Neither an end nor a byte until the client gives up.
            while from.read(&mut buffer)? > 0 {}
            Ok(())
        }
    });
    Some(kept)
}
