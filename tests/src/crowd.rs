//! Clients that take places and give nothing: as many connections as they may have, each of which sends or takes as little as it can.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, Result};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use socket2::{Domain, Socket, Type};
use weir_http::TrustRoots;

use crate::wait_for;

/// How long a peer may take for a handshake, or to read a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The behaviour of each connection of a crowd after its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It sends one byte now and then, at this interval.
    Trickles(Duration),
    /// It reads the first bytes of an answer that is no refusal, and nothing more. After a refusal it comes again.
    Stalls,
}

/// Connections to one door, from one address. Those that the door closes come again. Dropped, all of them end.
#[derive(Debug)]
pub struct Crowd {
    stop: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Opens `count` connections from `from` to `door` (`https://address:port`), each of which sends what `begin` gives for its number, and
    /// waits until the door takes no more of them.
    ///
    /// # Errors
    /// If none of them is taken.
    pub fn gather(
        door: &str,
        authority: &Path,
        from: Ipv4Addr,
        count: usize,
        begin: impl Fn(usize) -> String + Send + 'static,
        habit: Habit,
    ) -> Result<Self> {
        let to: SocketAddr = door.trim_start_matches("https://").parse()?;
        let member = Member {
            config: weir_http::client_config(&TrustRoots::file(authority))?,
            to,
            from,
            begin: Box::new(begin),
        };
        let (stop, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let rounds = Arc::new(AtomicUsize::new(0));
        let thread = std::thread::spawn({
            let (stop, open, rounds) = (stop.clone(), open.clone(), rounds.clone());
            move || member.crowd(count, habit, &stop, &open, &rounds)
        });
        let crowd = Self {
            stop,
            open,
            thread: Some(thread),
        };
        let gathered = || Ok((rounds.load(Ordering::Relaxed) > 0).then_some(()));
        wait_for(Duration::from_secs(120), gathered).context("the crowd did not gather")?;
        anyhow::ensure!(crowd.open() > 0, "no connection was taken");
        Ok(crowd)
    }

    /// How many connections are open, as far as is known.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Member {
    config: Arc<ClientConfig>,
    to: SocketAddr,
    from: Ipv4Addr,
    begin: Box<dyn Fn(usize) -> String + Send>,
}

struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    /// An answer has begun that is no refusal.
    answered: bool,
}

impl Member {
    fn connect(&self, number: usize) -> Result<Connection> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Else the kernel takes megabytes of an answer before its writer notices that nobody reads.
        socket.set_recv_buffer_size(16 * 1024)?;
        socket.bind(&SocketAddr::new(IpAddr::V4(self.from), 0).into())?;
        socket.connect_timeout(&self.to.into(), PATIENCE)?;
        let tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.to.ip().into());
        let mut stream = StreamOwned::new(ClientConnection::new(self.config.clone(), name)?, tcp);
        stream.write_all((self.begin)(number).as_bytes())?;
        Ok(Connection {
            stream,
            answered: false,
        })
    }

    fn crowd(&self, count: usize, habit: Habit, stop: &AtomicBool, open: &AtomicUsize, rounds: &AtomicUsize) {
        let (mut all, mut number): (Vec<Connection>, usize) = (Vec::new(), 0);
        while !stop.load(Ordering::Relaxed) {
            all.retain_mut(|connection| goes_on(connection, habit));
            let mut refused = 0;
            while all.len() < count && refused < 3 && !stop.load(Ordering::Relaxed) {
                number += 1;
                match self.connect(number) {
                    Ok(connection) => all.push(connection),
                    Err(_) => refused += 1,
                }
            }
            open.store(all.len(), Ordering::Relaxed);
            rounds.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(match habit {
                Habit::Trickles(interval) => interval,
                Habit::Stalls => Duration::from_millis(500),
            });
        }
    }
}

/// Does what it does, and tells whether the door still holds it.
fn goes_on(connection: &mut Connection, habit: Habit) -> bool {
    let sent = match habit {
        Habit::Trickles(_) => connection.stream.write_all(b"a").is_ok(),
        Habit::Stalls if connection.answered => return true,
        Habit::Stalls => true,
    };
    let mut said = [0; 64];
    let _ = connection.stream.sock.set_nonblocking(true);
    let read = connection.stream.read(&mut said);
    let _ = connection.stream.sock.set_nonblocking(false);
    match read {
        Ok(length) if habit == Habit::Stalls => {
            connection.answered = said[..length].starts_with(b"HTTP/1.1 2");
            sent && connection.answered
        }
        // An answer, or an end: either way this one has no more to gain.
        Ok(_) => false,
        Err(error) => sent && error.kind() == std::io::ErrorKind::WouldBlock,
    }
}
