//! STOMP 1.2, from a client's side: connections and frames. <https://stomp.github.io/stomp-specification-1.2.html>

use std::{fmt::Write as _, io, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufStream},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use weir_auth::Secret;
use weir_http::{TlsError, TrustRoots};

/// Limit for connecting.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest frame of a broker that is read.
const FRAME_MAX: usize = 64 << 10;

/// The kind of the error that a frame `ERROR` becomes; nothing else has it here.
pub(crate) const REFUSED: io::ErrorKind = io::ErrorKind::InvalidInput;

pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Wire for T {}

/// A connection that is logged in.
pub(crate) type Connected = BufStream<Box<dyn Wire>>;

/// The address of a broker, and the login.
pub(crate) struct Broker {
    address: String,
    host: String,
    tls: Option<TlsConnector>,
    login: Option<(String, Option<Secret>)>,
}

impl Broker {
    /// The broker at `host:port`; over TLS if it is to be checked against authorities.
    pub(crate) fn new(
        address: &str,
        roots: Option<&TrustRoots>,
        login: Option<(String, Option<Secret>)>,
    ) -> Result<Self, TlsError> {
        let tls = roots.map(|roots| weir_http::client_config(roots).map(TlsConnector::from));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            address: address.to_owned(),
            tls: tls.transpose()?,
            login,
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Connects and logs in. `heart_beat` is the interval offered to the broker and requested of it (STOMP 1.2,
    /// "Heart-beating").
    pub(crate) async fn connect(&self, heart_beat: &str) -> io::Result<Connected> {
        let attempt = async {
            let tcp = TcpStream::connect(&self.address).await?;
            tcp.set_nodelay(true)?;
            let wire: Box<dyn Wire> = match &self.tls {
                None => Box::new(tcp),
                Some(tls) => {
                    let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                    Box::new(tls.connect(name, tcp).await?)
                }
            };
            let mut wire = BufStream::new(wire);
            wire.write_all(&self.greeting(heart_beat)).await?;
            wire.flush().await?;
            let frame = Frame::read(&mut wire).await?;
            if frame.command != "CONNECTED" {
                return Err(refused(&frame));
            }
            Ok(wire)
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the broker does not answer");
        timeout(PATIENCE, attempt).await.map_err(|_| late())?
    }

    fn greeting(&self, heart_beat: &str) -> Vec<u8> {
        let mut frame = format!(
            "CONNECT\naccept-version:1.2,1.1\nhost:{}\nheart-beat:{heart_beat}\n",
            self.host
        );
        if let Some((user, password)) = &self.login {
            // Headers of CONNECT are not escaped, by the specification.
            let _ = writeln!(frame, "login:{user}");
            if let Some(password) = password {
                let _ = writeln!(frame, "passcode:{}", password.expose());
            }
        }
        frame.push_str("\n\0");
        frame.into_bytes()
    }
}

/// Headers may not hold their own separators.
pub(crate) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\r', "\\r")
        .replace('\n', "\\n")
        .replace(':', "\\c")
}

pub(crate) fn refused(frame: &Frame) -> io::Error {
    let why = frame.header("message").unwrap_or(&frame.command);
    io::Error::new(REFUSED, format!("the broker refused: {why}"))
}

/// A frame of a broker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) command: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads one frame.
    pub(crate) async fn read(wire: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Self> {
        let mut left = FRAME_MAX;
        let mut frame = Self::default();
        loop {
            let line = read_line(wire, &mut left).await?;
            match (line.is_empty(), frame.command.is_empty()) {
                // Line breaks between frames are heart-beats.
                (true, true) => {}
                (true, false) => break,
                (false, true) => frame.command = line,
                (false, false) => {
                    if let Some((key, value)) = line.split_once(':') {
                        frame.headers.push((key.to_owned(), unescape(value)));
                    }
                }
            }
        }
        let length: Option<usize> = frame.header("content-length").and_then(|text| text.parse().ok());
        match length {
            Some(length) if length < left => {
                frame.body = vec![0; length + 1];
                wire.read_exact(&mut frame.body).await?;
                frame.body.pop();
            }
            Some(_) => return Err(too_long()),
            None => {
                (&mut *wire).take(left as u64).read_until(0, &mut frame.body).await?;
                if frame.body.pop() != Some(0) {
                    return Err(too_long());
                }
            }
        }
        Ok(frame)
    }
}

async fn read_line(wire: &mut (impl AsyncBufRead + Unpin), left: &mut usize) -> io::Result<String> {
    let mut line = Vec::new();
    let taken = (&mut *wire).take(*left as u64).read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        return Err(if taken == 0 && *left > 0 {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed the connection")
        } else {
            too_long()
        });
    }
    *left -= taken;
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the broker's frame is no UTF-8"))
}

fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the broker's frame is cut off, or longer than 64 KiB",
    )
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            _ => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('c') => out.push(':'),
                Some(other) => out.push(other),
                None => {}
            },
        }
    }
    out
}

/// Reads bytes as frames of a broker, one after the other, each within its limits.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    use futures_util::FutureExt as _;
    let mut wire = data;
    // All bytes are there: nothing has to be waited for.
    while let Ok(frame) = Frame::read(&mut wire).now_or_never().expect("it does not wait") {
        assert!(!frame.command.is_empty());
        for (key, value) in &frame.headers {
            assert!(!key.contains([':', '\n']));
            assert_eq!(&unescape(&escape(value)), value);
        }
        let _ = refused(&frame).to_string();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Frame> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Frame::read(&mut { bytes }))
    }

    #[test]
    fn a_frame_is_read_past_heart_beats_and_body() {
        let frame = read(b"\n\r\nERROR\r\nmessage:no\\cway\r\ncontent-length:4\r\n\r\nab\0d\0rest").unwrap();
        assert_eq!(
            (frame.command.as_str(), frame.header("message")),
            ("ERROR", Some("no:way"))
        );
        assert_eq!(frame.body, b"ab\0d");
        assert!(read(b"CONNECTED\n\n\0").is_ok());
        assert_eq!(read(b"MESSAGE\n\n{} \0").unwrap().body, b"{} ");
    }

    #[test]
    fn a_frame_without_end_is_an_error() {
        for bytes in [
            &b""[..],
            b"RECEIPT",
            b"RECEIPT\n\n",
            b"RECEIPT\ncontent-length:99999999999\n\n",
            b"RECEIPT\ncontent-length:10\n\nab\0",
            &vec![b'\n'; FRAME_MAX + 1],
            &[b"E\n".to_vec(), vec![b'x'; 2 * FRAME_MAX]].concat(),
        ] {
            assert!(read(bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn a_header_comes_back_as_it_went(text in "\\PC*[\n\r:\\\\]\\PC*") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['\n', '\r', ':']));
            prop_assert_eq!(unescape(&escaped), text);
        }
    }
}
