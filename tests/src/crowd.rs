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
use openssl::ssl::{SslConnector, SslMethod, SslStream};
use socket2::{Domain, Socket, Type};

use crate::wait_for;

/// How long a peer may take for a handshake, or to read a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// What each connection of a crowd does after it has sent its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It sends one byte now and then, at this interval.
    Trickles(Duration),
    /// It neither sends nor reads.
    Waits,
}

/// Connections to one door, from one address. Those that the door closes come again. Dropped, all of them end.
#[derive(Debug)]
pub struct Crowd {
    stop: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Opens `count` connections from `from` to `door` (`https://address:port`), each of which sends `begin`, and waits until the door
    /// takes no more of them.
    ///
    /// # Errors
    /// If none of them is taken.
    pub fn gather(
        door: &str,
        authority: &Path,
        from: Ipv4Addr,
        count: usize,
        begin: &str,
        habit: Habit,
    ) -> Result<Self> {
        let to: SocketAddr = door.trim_start_matches("https://").parse()?;
        let mut connector = SslConnector::builder(SslMethod::tls_client())?;
        connector.set_ca_file(authority)?;
        let member = Member {
            connector: connector.build(),
            to,
            from,
            begin: begin.to_owned(),
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
    connector: SslConnector,
    to: SocketAddr,
    from: Ipv4Addr,
    begin: String,
}

type Connection = SslStream<TcpStream>;

impl Member {
    fn connect(&self) -> Result<Connection> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(IpAddr::V4(self.from), 0).into())?;
        socket.connect_timeout(&self.to.into(), PATIENCE)?;
        let tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        tcp.set_nodelay(true)?;
        let name = self.to.ip().to_string();
        let mut stream = self.connector.connect(&name, tcp)?;
        stream.write_all(self.begin.as_bytes())?;
        Ok(stream)
    }

    fn crowd(&self, count: usize, habit: Habit, stop: &AtomicBool, open: &AtomicUsize, rounds: &AtomicUsize) {
        let mut all: Vec<Connection> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            all.retain_mut(|connection| goes_on(connection, habit));
            let mut refused = 0;
            while all.len() < count && refused < 3 && !stop.load(Ordering::Relaxed) {
                match self.connect() {
                    Ok(connection) => all.push(connection),
                    Err(_) => refused += 1,
                }
            }
            open.store(all.len(), Ordering::Relaxed);
            rounds.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(match habit {
                Habit::Trickles(interval) => interval,
                Habit::Waits => Duration::from_millis(500),
            });
        }
    }
}

/// Does what it does, and tells whether the door still holds it.
fn goes_on(connection: &mut Connection, habit: Habit) -> bool {
    match habit {
        Habit::Trickles(_) => {
            let sent = connection.write_all(b"a").is_ok();
            let tcp = connection.get_ref();
            if !sent || tcp.set_nonblocking(true).is_err() {
                return false;
            }
            // An answer, or an end: either way this one has no more to gain.
            let waits = match connection.read(&mut [0; 1024]) {
                Ok(_) => false,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            };
            waits && connection.get_ref().set_nonblocking(false).is_ok()
        }
        Habit::Waits => {
            let mut look = [std::mem::MaybeUninit::uninit(); 1];
            let socket = socket2::SockRef::from(connection.get_ref());
            let _ = socket.set_nonblocking(true);
            let closed = matches!(socket.peek(&mut look), Ok(0)) || matches!(socket.take_error(), Ok(Some(_)) | Err(_));
            let _ = socket.set_nonblocking(false);
            !closed
        }
    }
}
