//! TLS over TCP: rustls does the handshake; records of TLS 1.3 are encrypted and decrypted here, in place.
//!
//! rustls copies each record three times on its way in and allocates for it in both directions, a sixth of
//! the CPU of a third-party copy between two endpoints. It hands out its keys for such uses (`rustls::kernel`), and
//! continues to derive new ones and to take session tickets. TLS 1.2, and the handshake, stay with it.

mod buffer_cache;
mod established;
mod handshake;
mod incoming;
mod layout;
mod outgoing;
mod pieces;
mod records;
mod role;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use rustls::{
    AlertDescription,
    client::UnbufferedClientConnection,
    pki_types::{CertificateDer, ServerName},
    server::UnbufferedServerConnection,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::{
    established::{Came, Established},
    handshake::{Handshaking, Write},
    incoming::Incoming,
    layout::PLAIN,
    outgoing::Outgoing,
    pieces::Pieces,
    records::Fault,
    role::Role,
};
use crate::{Buffers, buffers::AdjustableAhead, tcp::Tcp, tls::SEALED_AHEAD};

pub(crate) use self::role::{ClientSide, ServerSide};

/// A connection over TLS.
pub(crate) struct Secured<S: Role> {
    tcp: Tcp,
    records: Records<S>,
    incoming: Incoming,
    /// Plaintext from rustls that has not been read.
    plain: BytesMut,
    outgoing: Outgoing,
    buffers: Buffers,
    /// Bytes that may be sealed and not sent.
    ahead: usize,
    certificates: Option<Vec<CertificateDer<'static>>>,
    end: End,
}

/// The maker of records.
enum Records<S: Role> {
    Handshaking(Box<Handshaking<S>>),
    Established(Box<Established<S>>),
    /// Neither: it failed for this.
    Broken(rustls::Error),
}

/// How far the end of the connection is told.
struct End {
    /// The other side has said it.
    heard: bool,
    /// We have.
    said: bool,
}

impl Secured<ServerSide> {
    /// Accepts a client's handshake.
    ///
    /// # Errors
    /// Of kind `InvalidData`, with a [`rustls::Error`], for errors of TLS.
    pub(crate) async fn accept(tcp: Tcp, config: Arc<rustls::ServerConfig>) -> io::Result<Self> {
        let gives_keys = config.enable_secret_extraction;
        Self::shake(
            tcp,
            UnbufferedServerConnection::new(config).map_err(invalid)?,
            gives_keys,
        )
        .await
    }
}

impl Secured<ClientSide> {
    /// Shakes hands with a server of this name.
    ///
    /// # Errors
    /// As [`Secured::accept`].
    pub(crate) async fn connect(
        tcp: Tcp,
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let gives_keys = config.enable_secret_extraction;
        Self::shake(
            tcp,
            UnbufferedClientConnection::new(config, name).map_err(invalid)?,
            gives_keys,
        )
        .await
    }
}

impl<S: Role> Secured<S> {
    async fn shake(mut tcp: Tcp, connection: S::Connection, gives_keys: bool) -> io::Result<Self> {
        let buffers = tcp.hand_over_buffers();
        let mut shaking = Handshaking::<S>::new(connection, gives_keys);
        let (mut incoming, mut plain, mut outgoing) = (Incoming::default(), BytesMut::new(), Outgoing::default());
        poll_fn(|cx| poll_shake(cx, &mut shaking, &mut tcp, (&mut incoming, &mut plain), &mut outgoing)).await?;
        let certificates = shaking.connection.peer_certificates();
        let certificates = certificates.map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect());
        let end = End {
            heard: shaking.ended,
            said: false,
        };
        let records = if shaking.leaves_the_rest() {
            Records::Established(Box::new(Established::new(shaking.connection).map_err(invalid)?))
        } else {
            Records::Handshaking(Box::new(shaking))
        };
        Ok(Self {
            tcp,
            records,
            incoming,
            plain,
            outgoing,
            buffers,
            ahead: SEALED_AHEAD,
            certificates,
            end,
        })
    }

    /// The certificates of the other side.
    pub(crate) fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.certificates.as_deref()
    }

    /// Decrypts the received bytes; returns whether there is plaintext, or never will be.
    fn open(&mut self) -> io::Result<bool> {
        let Self {
            records,
            incoming,
            plain,
            ..
        } = self;
        let fault = match records {
            Records::Handshaking(shaking) => {
                if let Err(error) = shaking.turn((incoming, &mut *plain), Write::Nothing, &mut self.outgoing) {
                    Fault::from(error)
                } else {
                    self.end.heard |= shaking.ended;
                    return Ok(self.end.heard || !plain.is_empty());
                }
            }
            Records::Established(keyed) => {
                let (memory, unopened) = incoming.parts();
                match keyed.next(memory, unopened) {
                    Ok(Came::Data(plain)) => {
                        incoming.opened(plain);
                        return Ok(true);
                    }
                    Ok(Came::Part) => return Ok(false),
                    Ok(Came::End) => {
                        self.end.heard = true;
                        return Ok(true);
                    }
                    Err(fault) => fault,
                }
            }
            Records::Broken(error) => return Err(invalid(error.clone())),
        };
        self.alert(fault.alert);
        self.records = Records::Broken(fault.error.clone());
        Err(invalid(fault.error))
    }

    /// Sends an alert to the other side; rustls has done so already. An alert that cannot even be encrypted is not
    /// sent.
    fn alert(&mut self, alert: Option<AlertDescription>) {
        if let (Records::Established(keyed), Some(alert)) = (&mut self.records, alert) {
            let _ = keyed.alert(alert, &mut self.outgoing);
        }
        self.end.said = true;
    }

    /// Hands out at most so many bytes of plaintext that is there; whether there were any.
    fn take(&mut self, buffer: &mut ReadBuf<'_>, most: usize) -> bool {
        if self.plain.is_empty() {
            return self.incoming.take(buffer, most);
        }
        let length = self.plain.len().min(most);
        buffer.put_slice(&self.plain[..length]);
        self.plain.advance(length);
        length > 0
    }

    /// Encrypts as much of `pieces` as the write-ahead allows; returns the number of bytes.
    fn seal(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        // Whole records, if there are so many bytes.
        let room = (self.ahead.saturating_sub(self.outgoing.waiting()) / PLAIN).max(1) * PLAIN;
        let out = &mut self.outgoing;
        let sealed = match &mut self.records {
            Records::Established(keyed) => {
                let length = all.min(room);
                keyed.seal(Pieces::new(pieces), length, out).map(|()| length)
            }
            Records::Handshaking(shaking) => {
                let first = pieces.iter().find(|piece| !piece.is_empty());
                let first: &[u8] = first.map_or(&[], |piece| piece);
                shaking.turn((&mut self.incoming, &mut self.plain), Write::Data(first), out)
            }
            Records::Broken(error) => return Err(invalid(error.clone())),
        };
        if let Ok(0) = sealed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        sealed.map_err(|error| {
            self.records = Records::Broken(error.clone());
            invalid(error)
        })
    }

    /// Says that nothing more comes from here.
    fn say_end(&mut self) {
        if std::mem::replace(&mut self.end.said, true) {
            return;
        }
        let out = &mut self.outgoing;
        let told = match &mut self.records {
            Records::Established(keyed) => keyed.alert(AlertDescription::CloseNotify, out),
            Records::Handshaking(shaking) => {
                let turned = shaking.turn((&mut self.incoming, &mut self.plain), Write::End, out);
                turned.map(|_| ())
            }
            Records::Broken(_) => Ok(()),
        };
        if let Err(error) = told {
            self.records = Records::Broken(error);
        }
    }
}

fn poll_shake<S: Role>(
    cx: &mut Context<'_>,
    shaking: &mut Handshaking<S>,
    tcp: &mut Tcp,
    (incoming, plain): (&mut Incoming, &mut BytesMut),
    outgoing: &mut Outgoing,
) -> Poll<io::Result<()>> {
    loop {
        let turned = shaking.turn((incoming, plain), Write::Nothing, outgoing);
        // An alert too is sent before anything is said of an error.
        let sent = ready!(outgoing.poll_send(cx, tcp, 0));
        turned.map_err(invalid)?;
        sent?;
        if !shaking.connection.is_handshaking() {
            return Poll::Ready(Ok(()));
        }
        if !ready!(incoming.poll_fill(cx, tcp, (Buffers::LEAST, 0)))? {
            let text = "the other side ended the connection within the handshake";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: Role> AsyncRead for Secured<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let bound = this.buffers.get();
        // hyper doubles its buffer when a read fills it: by this it stays at the bound.
        let most = if bound < Buffers::MOST { bound - 1 } else { usize::MAX };
        let mut left = buffer.remaining().min(most);
        let asked = left;
        loop {
            while left > 0 {
                let before = buffer.filled().len();
                if !this.take(buffer, left) {
                    break;
                }
                left -= buffer.filled().len() - before;
            }
            if left == 0 || this.end.heard {
                return Poll::Ready(Ok(()));
            }
            let there = match this.open() {
                // Earlier plaintext is handed out first.
                Err(_) if left < asked => return Poll::Ready(Ok(())),
                Err(_) if !this.plain.is_empty() => continue,
                Err(error) => {
                    // The alert is worth sending, and not worth waiting for.
                    let _ = this.outgoing.poll_send(cx, &mut this.tcp, 0);
                    return Poll::Ready(Err(error));
                }
                Ok(there) => there,
            };
            if there {
                continue;
            }
            if left < asked {
                return Poll::Ready(Ok(()));
            }
            if !ready!(this.incoming.poll_fill(cx, &mut this.tcp, (bound, asked)))? {
                let text = "the connection ended without a word";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
            }
        }
    }
}

impl<S: Role> AsyncWrite for Secured<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        if this.end.said && !matches!(this.records, Records::Broken(_)) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // At least half is encrypted at a time: pending bytes are moved for that.
        let leave = this.ahead.saturating_sub(PLAIN).min(this.ahead / 2);
        ready!(this.outgoing.poll_send(cx, &mut this.tcp, leave))?;
        let sealed = this.seal(pieces);
        // Bytes that the socket does not take now are sent before the next, or with a flush.
        let sent = this.outgoing.poll_send(cx, &mut this.tcp, 0);
        let sealed = sealed?;
        if let Poll::Ready(Err(error)) = sent {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(sealed))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.outgoing.poll_send(cx, &mut this.tcp, 0))?;
        Pin::new(&mut this.tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.say_end();
        ready!(this.outgoing.poll_send(cx, &mut this.tcp, 0))?;
        Pin::new(&mut this.tcp).poll_shutdown(cx)
    }
}

impl<S: Role> AdjustableAhead for Secured<S> {
    fn seal_ahead(&mut self, bytes: usize) {
        self.ahead = bytes;
    }

    fn read_ahead(&mut self, may: bool) {
        self.incoming.read_ahead(may);
    }

    fn holds_much(&self) -> bool {
        self.incoming.holds_much()
    }
}
