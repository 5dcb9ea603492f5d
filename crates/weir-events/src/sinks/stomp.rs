//! A STOMP 1.2 broker, such as ActiveMQ. The last message of a batch asks for a receipt: with it the broker has them all.
//!
//! As FTS3 sends them since 3.6: a text of JSON that ends with a space, the VO in the header `vo`, persistent, with a time to live. <https://stomp.github.io/stomp-specification-1.2.html>

use std::{fmt::Write as _, io, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufStream},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use weir_auth::Secret;
use weir_http::TrustRoots;

use super::{SinkError, Undelivered, secret};
use crate::lines::Message;
use weir_service::time;

use crate::config::StompSinkConfig;

/// Limit for connecting, and for each answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A frame of the broker, at most: it has nothing long to tell us.
const FRAME_MAX: usize = 64 << 10;

/// MessageKind of the error that a frame `ERROR` becomes; nothing else has it here.
const REFUSED: io::ErrorKind = io::ErrorKind::InvalidInput;

/// A connection that has rested for so long is made anew: the broker may have dropped it without a word.
const REST_MAX: Duration = Duration::from_secs(60);

trait Wire: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Wire for T {}

struct Connection {
    wire: BufStream<Box<dyn Wire>>,
    used: tokio::time::Instant,
}

pub(super) struct Stomp {
    address: String,
    host: String,
    tls: Option<TlsConnector>,
    login: Option<(String, Option<Secret>)>,
    destinations: [String; 3],
    time_to_live: Duration,
    connection: Option<Connection>,
    receipts: u64,
}

impl Stomp {
    pub(super) fn new(config: &StompSinkConfig, roots: &TrustRoots) -> Result<Self, SinkError> {
        let tls = if config.tls {
            Some(TlsConnector::from(weir_http::client_config(roots)?))
        } else {
            None
        };
        let password = config.password_file.as_deref().map(secret).transpose()?;
        let login = config.user.clone().map(|user| (user, password.map(Secret::new)));
        let host = config
            .address
            .rsplit_once(':')
            .map_or(config.address.as_str(), |(host, _)| host);
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            address: config.address.clone(),
            tls,
            login,
            destinations: [&config.start, &config.complete, &config.state].map(Clone::clone),
            time_to_live: config.time_to_live,
            connection: None,
            receipts: 0,
        })
    }

    pub(super) async fn deliver(&mut self, batch: &[Message<'_>]) -> Result<(), Undelivered> {
        let Some((last, others)) = batch.split_last() else {
            return Ok(());
        };
        self.receipts += 1;
        let receipt = format!("weir-{}", self.receipts);
        let expires = expiry(self.time_to_live);
        let mut frames = Vec::new();
        for message in others {
            self.frame(&mut frames, message, expires, None);
        }
        self.frame(&mut frames, last, expires, Some(&receipt));
        let usable = |held: &Connection| held.used.elapsed() < REST_MAX;
        let mut connection = if let Some(held) = self.connection.take().filter(usable) {
            held
        } else {
            let connected = self.connect().await;
            connected.map_err(|error| Undelivered::Later(self.told(&error)))?
        };
        let exchange = async {
            connection.wire.write_all(&frames).await?;
            connection.wire.flush().await?;
            loop {
                let frame = Frame::read(&mut connection.wire).await?;
                match frame.command.as_str() {
                    "RECEIPT" if frame.header("receipt-id") == Some(&receipt) => return Ok(()),
                    "ERROR" => return Err(refused(&frame)),
                    _ => {}
                }
            }
        };
        let outcome = timeout(PATIENCE, exchange).await;
        let outcome = outcome.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no receipt came")));
        if let Err(error) = outcome {
            let why = self.told(&error);
            return Err(if is_about_messages(&error) {
                Undelivered::Refused(why)
            } else {
                Undelivered::Later(why)
            });
        }
        connection.used = tokio::time::Instant::now();
        self.connection = Some(connection);
        Ok(())
    }

    fn told(&self, error: &io::Error) -> String {
        format!("broker {}: {}", self.address, weir_auth::error_chain(error))
    }

    async fn connect(&self) -> io::Result<Connection> {
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
            wire.write_all(&self.greeting()).await?;
            wire.flush().await?;
            let frame = Frame::read(&mut wire).await?;
            if frame.command != "CONNECTED" {
                return Err(refused(&frame));
            }
            Ok(wire)
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the broker does not answer");
        let wire = timeout(PATIENCE, attempt).await.map_err(|_| late())??;
        Ok(Connection {
            wire,
            used: tokio::time::Instant::now(),
        })
    }

    fn greeting(&self) -> Vec<u8> {
        let mut frame = format!("CONNECT\naccept-version:1.2,1.1\nhost:{}\nheart-beat:0,0\n", self.host);
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

    fn frame(&self, out: &mut Vec<u8>, message: &Message<'_>, expires: u128, receipt: Option<&str>) {
        let destination = &self.destinations[message.kind as usize];
        let length = message.json.len() + 1;
        let mut head = format!(
            "SEND\ndestination:{}\npersistent:true\nexpires:{expires}\ncontent-type:application/json\nvo:{}\n",
            escape(destination),
            escape(message.vo),
        );
        if let Some(receipt) = receipt {
            let _ = writeln!(head, "receipt:{receipt}");
        }
        // ActiveMQ makes a text of a message without a length, as FTS3's are, and bytes of one with; a text has no NUL in it.
        if message.json.contains(&0) {
            let _ = writeln!(head, "content-length:{length}");
        }
        out.extend_from_slice(head.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(message.json);
        out.extend_from_slice(b" \0");
    }
}

/// Whether a broker's error may be about what was sent: not about who we are, and not of the network.
fn is_about_messages(error: &io::Error) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    let ours = ["auth", "permi", "denied", "login", "credential", "access"];
    error.kind() == REFUSED && !ours.iter().any(|word| text.contains(word))
}

fn expiry(time_to_live: Duration) -> u128 {
    u128::try_from(time::now()).unwrap_or_default() + time_to_live.as_millis()
}

/// Headers may not hold their own separators.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\r', "\\r")
        .replace('\n', "\\n")
        .replace(':', "\\c")
}

fn refused(frame: &Frame) -> io::Error {
    let why = frame.header("message").unwrap_or(&frame.command);
    io::Error::new(REFUSED, format!("the broker refused: {why}"))
}

/// What a broker says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    command: String,
    headers: Vec<(String, String)>,
}

impl Frame {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads one frame. Its body is passed over: what is meant for programs is in the headers.
    async fn read(wire: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Self> {
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
                let mut body = vec![0; length + 1];
                wire.read_exact(&mut body).await?;
            }
            Some(_) => return Err(too_long()),
            None => {
                let mut body = Vec::new();
                (&mut *wire).take(left as u64).read_until(0, &mut body).await?;
                if body.last() != Some(&0) {
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

/// What a broker may say: frames, one after the other, each within its limits.
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
        assert!(read(b"CONNECTED\n\n\0").is_ok());
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
        fn whatever_comes_is_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
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
