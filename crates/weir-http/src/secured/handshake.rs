//! A connection whose records rustls makes and reads: the handshake, and all of TLS 1.2.

use bytes::BytesMut;
use rustls::{
    Error,
    unbuffered::{ConnectionState, EncodeError, EncryptError},
};

use super::{incoming::Incoming, layout::HEADER, outgoing::Outgoing, role::Role};

/// Largest write that is passed to rustls.
const PIECE: usize = 64 << 10;

pub(super) struct Handshaking<S: Role> {
    pub(super) connection: S::Connection,
    gives_keys: bool,
    /// The other side has nothing more to say.
    pub(super) ended: bool,
    /// Received bytes at the front that rustls has seen. During the handshake these are whole records, one more each
    /// time: bytes after the last message of a handshake of TLS 1.3 must not be touched. The last message ends a record (RFC 8446 section 5.1).
    seen: usize,
    failed: Option<Error>,
}

impl<S: Role> Handshaking<S> {
    /// Whether its records may be taken over is said by its configuration.
    pub(super) fn new(connection: S::Connection, gives_keys: bool) -> Self {
        Self {
            connection,
            gives_keys,
            ended: false,
            seen: 0,
            failed: None,
        }
    }

    /// Processes received bytes: appends their plaintext to `plain`, and encrypts as much of the pending write as
    /// possible; returns its number of bytes. Appends bytes to send to `out`, also on an error.
    pub(super) fn turn(
        &mut self,
        (incoming, plain): (&mut Incoming, &mut BytesMut),
        write: Write<'_>,
        out: &mut Outgoing,
    ) -> Result<usize, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.work(incoming, plain, write, out).inspect_err(|error| {
            self.failed = Some(error.clone());
            self.last_words(incoming, out);
        })
    }

    fn work(
        &mut self,
        incoming: &mut Incoming,
        plain: &mut BytesMut,
        mut write: Write<'_>,
        out: &mut Outgoing,
    ) -> Result<usize, Error> {
        loop {
            let shakes = self.connection.is_handshaking();
            if !shakes && !self.leaves_the_rest() {
                self.seen = incoming.unopened().len();
            }
            let status = S::process(&mut self.connection, &mut incoming.unopened()[..self.seen]);
            let mut discard = status.discard;
            let mut written = None;
            let state = match status.state {
                Ok(state) => state,
                Err(error) => {
                    incoming.discard(discard);
                    self.seen -= discard;
                    return Err(error);
                }
            };
            let waits = shakes
                && matches!(
                    state,
                    ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)
                );
            match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(|into| data.encode(into), out)?,
                // It is in `out`, which is sent before anything else.
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) if shakes => {}
                ConnectionState::WriteTraffic(mut traffic) => {
                    written = Some(match write {
                        Write::Nothing => 0,
                        Write::Data(bytes) => {
                            let bytes = &bytes[..bytes.len().min(PIECE)];
                            append(|into| traffic.encrypt(bytes, into), out)?;
                            bytes.len()
                        }
                        Write::End => {
                            append(|into| traffic.queue_close_notify(into), out)?;
                            0
                        }
                    });
                    write = Write::Nothing;
                }
                ConnectionState::BlockedHandshake => written = Some(0),
                ConnectionState::PeerClosed => self.ended = true,
                ConnectionState::Closed => {
                    self.ended = true;
                    written = Some(0);
                }
                _ => return Err(Error::General("early data, which was not allowed".to_owned())),
            }
            incoming.discard(discard);
            self.seen -= discard;
            if let Some(written) = written {
                return Ok(written);
            }
            if waits && !self.see_more(incoming) {
                return Ok(0);
            }
        }
    }

    /// Whether records of this connection are taken over when hands are shaken.
    pub(super) fn leaves_the_rest(&self) -> bool {
        self.gives_keys && self.connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
    }

    /// Shows rustls one more record, if one is there as a whole.
    fn see_more(&mut self, incoming: &mut Incoming) -> bool {
        let unseen = &incoming.unopened()[self.seen..];
        let more = match *unseen {
            [20..=23, _, _, high, low, ..] => HEADER + usize::from(u16::from_be_bytes([high, low])),
            // No record of TLS: rustls says so.
            [_, _, _, _, _, ..] => unseen.len(),
            _ => return false,
        };
        let there = more <= unseen.len();
        if there {
            self.seen += more;
        }
        there
    }

    /// After an error rustls has an alert for the other side, and nothing before it: all else is written already. Asked
    /// once more it would go on with the following bytes.
    fn last_words(&mut self, incoming: &mut Incoming, out: &mut Outgoing) {
        let status = S::process(&mut self.connection, &mut incoming.unopened()[..self.seen]);
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state {
            // An alert that cannot be encoded is not sent.
            let _ = encode(|into| data.encode(into), out);
        }
    }
}

/// A pending write.
#[derive(Clone, Copy)]
pub(super) enum Write<'a> {
    Nothing,
    Data(&'a [u8]),
    /// Nothing more will be.
    End,
}

fn encode(mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>, out: &mut Outgoing) -> Result<(), Error> {
    fit(out, |into| match encode(into) {
        Err(EncodeError::InsufficientSize(size)) => Err(Some(size.required_size)),
        other => other.map_err(|_| None),
    })
}

fn append(mut encrypt: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>, out: &mut Outgoing) -> Result<(), Error> {
    fit(out, |into| match encrypt(into) {
        Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
        other => other.map_err(|_| None),
    })
}

/// Appends a write once its size is known.
fn fit(out: &mut Outgoing, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> Result<(), Error> {
    let mut room = 0;
    loop {
        let outcome = write(out.extend(room));
        out.shorten(room - *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(_) => return Ok(()),
            Err(Some(required)) if required > room => room = required,
            Err(_) => return Err(Error::EncryptError),
        }
    }
}
