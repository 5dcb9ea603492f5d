//! A relay: passes TCP connections on, as a path or a server with faults would.
//!
//! It stands in front of a door, at the address that everybody knows, and understands nothing of what it passes: TLS stays
//! between the two ends. [`Rule`]s say what becomes of the bytes: a rate that connections share, a rate of each, a delay, a
//! stop, damage. Rules may change at any time, also for connections that are open. A rule may be for some peers only, by
//! the address that they connect from.
//!
//! A connection without traffic costs two tasks that sleep, and no buffer.

mod bucket;
mod figures;
mod pump;
mod rules;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use bucket::Bucket;
use figures::Figures;
pub use figures::Passed;
use pump::{Line, pump};
use rules::Rules;
pub use rules::{Damage, DamageKind, Direction, Rule};

/// A relay that runs until it is dropped; its connections end with it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    figures: Arc<Figures>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Takes connections at a listener and passes them on to the door behind. `seed` draws what is drawn.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(listener: TcpListener, behind: SocketAddr, seed: u64) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let rules = watch::Sender::new(Rules::default());
        let figures = Arc::new(Figures::default());
        let accepting = tokio::spawn(accept(listener, behind, rules.clone(), figures.clone(), seed));
        Ok(Self {
            address,
            rules,
            figures,
            accepting,
        })
    }

    /// The address at which it takes connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts other rules into force, for open connections too.
    pub fn set(&self, rules: Vec<Rule>) {
        self.rules.send_replace(Arc::new(rules));
    }

    /// Its activity so far.
    pub fn passed(&self) -> Passed {
        self.figures.passed()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    behind: SocketAddr,
    rules: watch::Sender<Rules>,
    figures: Arc<Figures>,
    seed: u64,
) {
    // Connections end with the relay.
    let mut open = tokio::task::JoinSet::new();
    let mut number = 0_u64;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
        };
        let Ok((client, peer)) = accepted else {
            // Out of open files: others end meanwhile.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        number += 1;
        figures.connections.fetch_add(1, Ordering::Relaxed);
        let line = Line {
            peer: peer.ip(),
            rules: rules.subscribe(),
            figures: figures.clone(),
            seed: seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        open.spawn(pass(client, behind, line));
    }
}

/// Connects to the door behind. On one machine the connection comes from the client's own address, by which the door tells
/// its clients apart.
async fn connect(client: IpAddr, behind: SocketAddr) -> io::Result<TcpStream> {
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (client, behind.ip())
        && from.is_loopback()
        && to.is_loopback()
    {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        if socket.bind(SocketAddr::new(client, 0)).is_ok() {
            return socket.connect(behind).await;
        }
    }
    TcpStream::connect(behind).await
}

/// Passes one connection on.
async fn pass(client: TcpStream, behind: SocketAddr, mut line: Line) {
    // Where nothing answers, nothing is asked.
    line.wait_while(|effect| effect.is_cut, Direction::Up).await;
    let Ok(server) = connect(line.peer, behind).await else {
        line.figures.unreachable.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let bursts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let up = pump(from_client, to_server, Direction::Up, line.clone(), bursts.clone());
    let down = pump(from_server, to_client, Direction::Down, line, bursts);
    // A reset of one direction ends both.
    let _ends = tokio::try_join!(up, down);
}

#[cfg(test)]
mod tests;
