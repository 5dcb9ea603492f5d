//! Socket options of a connection, and its TCP figures.

mod kernel;
mod ledger;

use std::{
    fmt, io,
    num::NonZeroU64,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::net::sockopt;

pub(crate) use kernel::Watched;
pub(crate) use ledger::Entry;
pub use ledger::{TcpGroup, TcpLedger, TcpTotals};

/// How the kernel is to run connections. All `None`, the default, leaves everything to the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketSettings {
    /// Congestion control by the kernel's name, such as `bbr` or `cubic`. Without root, only those in
    /// `net.ipv4.tcp_allowed_congestion_control` may be used.
    pub congestion: Option<String>,
    /// The highest rate of each connection, bytes per second, headers included (`SO_MAX_PACING_RATE`). Packets leave evenly
    /// spaced instead of in bursts that shallow buffers drop.
    pub pacing: Option<NonZeroU64>,
    /// Receive buffer in bytes, which bounds the window that the other side sees. It ends the kernel's own sizing, which
    /// grows to `net.ipv4.tcp_rmem`; the kernel takes at most `net.core.rmem_max` and doubles it for its book-keeping.
    pub receive_buffer: Option<usize>,
    /// Send buffer in bytes, as above with `tcp_wmem` and `wmem_max`.
    pub send_buffer: Option<usize>,
}

impl SocketSettings {
    /// Whether all is left to the system.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the settings to a socket, before it listens or connects: buffers bound the scale of the window, which is
    /// negotiated with the first packets. Settings of a listening socket apply to the connections that it accepts.
    ///
    /// # Errors
    /// Names the setting that the kernel refused, and the remedy.
    pub(crate) fn apply(&self, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd();
        if let Some(name) = &self.congestion {
            sockopt::set_tcp_congestion(socket, name).map_err(|errno| refused_congestion(name, errno))?;
        }
        if let Some(rate) = self.pacing {
            let told = kernel::set_pacing(socket, rate.get());
            told.map_err(|error| named(&format!("a pacing rate of {rate} bytes/s"), &error))?;
        }
        if let Some(size) = self.receive_buffer {
            let told = sockopt::set_socket_recv_buffer_size(socket, size);
            told.map_err(|errno| named(&format!("a receive buffer of {size} bytes"), &errno.into()))?;
        }
        if let Some(size) = self.send_buffer {
            let told = sockopt::set_socket_send_buffer_size(socket, size);
            told.map_err(|errno| named(&format!("a send buffer of {size} bytes"), &errno.into()))?;
        }
        Ok(())
    }

    /// Tries the settings on an unused socket, so that a service can refuse them when it starts.
    ///
    /// # Errors
    /// If the kernel refuses one of them; the error names it.
    pub fn check(&self) -> io::Result<()> {
        self.apply(socket2::Socket::new(
            socket2::Domain::IPV4,
            socket2::Type::STREAM,
            None,
        )?)
    }
}

fn refused_congestion(name: &str, errno: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(errno);
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => format!("the kernel has no such module; `modprobe tcp_{name}` may load it"),
        io::ErrorKind::PermissionDenied => {
            "add it to net.ipv4.tcp_allowed_congestion_control (sysctl), or run as root".to_owned()
        }
        _ => error.to_string(),
    };
    io::Error::new(
        error.kind(),
        format!("congestion control {name:?} was refused: {remedy}"),
    )
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the kernel refused {what}: {error}"))
}

/// TCP figures of a connection at one moment (`struct tcp_info`, `linux/tcp.h`). A figure that an older kernel lacks is
/// zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpFigures {
    /// The congestion control in use.
    pub congestion: String,
    /// Smoothed round-trip time.
    pub round_trip: Duration,
    /// The shortest round trip seen; zero if none was measured.
    pub least_round_trip: Duration,
    /// Congestion window in bytes: the most bytes in flight.
    pub window: u64,
    /// The window that the other side offers, bytes.
    pub peer_window: u64,
    /// Largest segment that is sent, bytes.
    pub segment: u32,
    /// Segments that were sent again, in all.
    pub retransmits: u32,
    /// Bytes that were sent, repeated ones included.
    pub sent: u64,
    /// Bytes that the other side has acknowledged.
    pub acknowledged: u64,
    /// Bytes that came in order.
    pub received: u64,
    /// The rate at which the other side has lately taken bytes, bytes per second.
    pub delivery_rate: u64,
    /// The rate at which the kernel spaces packets, bytes per second; `None`: unlimited.
    pub pacing_rate: Option<u64>,
    /// How long there was something to send.
    pub busy: Duration,
    /// How much of that the other side's window held it back.
    pub held_by_peer: Duration,
    /// How much of it our own send buffer was too small for the path.
    pub held_by_buffer: Duration,
}

/// The part of `struct tcp_info` that is read.
const TCP_INFO: usize = 232;

impl TcpFigures {
    fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut bytes = [0; TCP_INFO];
        kernel::tcp_info(socket, &mut bytes)?;
        let congestion = sockopt::tcp_congestion(socket).unwrap_or_default();
        Ok(Self::read(&bytes, congestion))
    }

    fn read(bytes: &[u8; TCP_INFO], congestion: String) -> Self {
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(value)
        };
        let micros = |at: usize| Duration::from_micros(number(at).into());
        // A minimum that was never measured is all ones.
        let least = match number(148) {
            u32::MAX => Duration::ZERO,
            least => Duration::from_micros(least.into()),
        };
        Self {
            congestion,
            round_trip: micros(68),
            least_round_trip: least,
            window: u64::from(number(80)) * u64::from(number(16)),
            peer_window: number(228).into(),
            segment: number(16),
            retransmits: number(100),
            sent: long(200),
            acknowledged: long(120),
            received: long(128),
            delivery_rate: long(160),
            pacing_rate: Some(long(104)).filter(|rate| *rate != u64::MAX),
            busy: Duration::from_micros(long(168)),
            held_by_peer: Duration::from_micros(long(176)),
            held_by_buffer: Duration::from_micros(long(184)),
        }
    }
}

/// Asks the kernel about a connection for as long as it is open. Clones ask about the same one.
#[derive(Clone)]
pub struct SocketWatch(kernel::Watch);

impl SocketWatch {
    pub(crate) fn on(stream: &Watched) -> Self {
        Self(stream.watch())
    }

    /// The current TCP figures; `None` once it is closed, and where the kernel does not provide them.
    pub fn figures(&self) -> Option<TcpFigures> {
        self.0.with(|socket| TcpFigures::of(socket).ok()).flatten()
    }
}

/// Bytes that the other side of an open connection has acknowledged; 0 where the kernel does not say.
pub(crate) fn acknowledged(socket: impl AsFd) -> u64 {
    TcpFigures::of(socket.as_fd()).map_or(0, |figures| figures.acknowledged)
}

impl fmt::Debug for SocketWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocketWatch")
    }
}
