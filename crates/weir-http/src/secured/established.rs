//! A TLS 1.3 connection after its handshake: records with keys of our own, and the few later messages.

use std::ops::Range;

use rustls::{AlertDescription, Error, PeerMisbehaved, kernel::KernelConnection};

use super::{
    layout::{BEYOND, HEADER, PLAIN},
    outgoing::Outgoing,
    pieces::Pieces,
    records::{ALERT, DATA, Fault, HANDSHAKE, RecordKey, length},
    role::Role,
};

const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// `KeyUpdate` with `update_not_requested` (RFC 8446 section 4.6.3).
const UPDATE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Records under one key: AES-GCM bears 2^24.5 of full size (RFC 8446 section 5.5).
pub(super) const RECORDS_OF_A_KEY: u64 = 1 << 24;

/// New keys in a row without any data between them: as many as rustls takes.
pub(super) const UPDATES: u8 = 32;

/// Records in a row that say nothing: as many as rustls takes.
pub(super) const EMPTY: u8 = 32;

/// A ticket has at most some 64 KiB, and as many of extensions (section 4.6.1).
const MESSAGE: usize = 4 + (1 << 17);

/// A received item.
pub(super) enum Came {
    /// Plaintext, at this place of the given bytes.
    Data(Range<usize>),
    /// The other side has nothing more to say.
    End,
    /// No whole record is there.
    Part,
}

pub(super) struct Established<S: Role> {
    kernel: KernelConnection<S::Data>,
    opener: RecordKey,
    sealer: RecordKey,
    /// The beginning of an incomplete message.
    message: Vec<u8>,
    /// The other side wants a new key of ours.
    owes_update: bool,
    updates_left: u8,
    empty_left: u8,
}

impl<S: Role> Established<S> {
    /// Takes over from rustls, whose handshake is complete and has nothing left to send.
    pub(super) fn new(connection: S::Connection) -> Result<Self, Error> {
        let (secrets, kernel) = S::keys(connection)?;
        Ok(Self {
            kernel,
            opener: RecordKey::new(secrets.rx)?,
            sealer: RecordKey::new(secrets.tx)?,
            message: Vec::new(),
            owes_update: false,
            updates_left: UPDATES,
            empty_left: EMPTY,
        })
    }

    /// Opens records of `memory[unopened]` until data come.
    pub(super) fn next(&mut self, memory: &mut [u8], unopened: &mut Range<usize>) -> Result<Came, Fault> {
        while let Some(whole) = length(&memory[unopened.clone()])?.filter(|whole| *whole <= unopened.len()) {
            let start = unopened.start;
            unopened.start += whole;
            let (kind, length) = self.opener.open(&mut memory[start..start + whole])?;
            let plain = start + HEADER..start + HEADER + length;
            match kind {
                HANDSHAKE if length > 0 => self.take_messages(&memory[plain])?,
                _ if !self.message.is_empty() => return Err(unexpected("another record within a message")),
                DATA if length > 0 => {
                    (self.updates_left, self.empty_left) = (UPDATES, EMPTY);
                    return Ok(Came::Data(plain));
                }
                ALERT if alert(&memory[plain])? => return Ok(Came::End),
                DATA | ALERT => self.says_nothing()?,
                _ => return Err(unexpected("a record of another type")),
            }
        }
        Ok(Came::Part)
    }

    /// Each costs a decryption, and nothing comes of it.
    fn says_nothing(&mut self) -> Result<(), Fault> {
        let left = self.empty_left.checked_sub(1);
        self.empty_left = left.ok_or_else(|| unexpected("records without end that say nothing"))?;
        Ok(())
    }

    fn take_messages(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut messages = std::mem::take(&mut self.message);
        messages.extend_from_slice(bytes);
        let mut taken = 0;
        while let Some(head) = messages[taken..].first_chunk::<4>() {
            let [kind, length @ ..] = *head;
            let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            // Before it is waited for.
            match kind {
                KEY_UPDATE if length == 1 => {}
                NEW_SESSION_TICKET if S::TICKETS && length <= MESSAGE => {}
                _ => return Err(unexpected("a message that was not asked for")),
            }
            let (start, end) = (taken + 4, taken + 4 + length);
            let Some(body) = messages.get(start..end) else {
                break;
            };
            taken = end;
            if kind == NEW_SESSION_TICKET {
                S::ticket(&mut self.kernel, body).map_err(|error| Fault {
                    alert: Some(AlertDescription::DecodeError),
                    error,
                })?;
            } else if taken == messages.len() {
                self.update(body)?;
            } else {
                // Bytes behind it in the same record would be under the old key (section 5.1).
                return Err(unexpected("a message behind a new key"));
            }
        }
        messages.drain(..taken);
        self.message = messages;
        Ok(())
    }

    /// The other side goes on with a new key.
    fn update(&mut self, body: &[u8]) -> Result<(), Fault> {
        let [asked @ (0 | 1)] = *body else {
            return Err(Fault::new(
                AlertDescription::IllegalParameter,
                "a new key of another kind",
            ));
        };
        let left = self.updates_left.checked_sub(1);
        self.updates_left = left.ok_or_else(|| Fault {
            alert: Some(AlertDescription::UnexpectedMessage),
            error: PeerMisbehaved::TooManyKeyUpdateRequests.into(),
        })?;
        self.opener = RecordKey::new(self.kernel.update_rx_secret()?)?;
        self.owes_update |= asked == 1;
        Ok(())
    }

    /// Appends so many bytes of `pieces` to `into`, in records.
    pub(super) fn seal(&mut self, mut pieces: Pieces<'_>, mut length: usize, into: &mut Outgoing) -> Result<(), Error> {
        into.reserve(length + BEYOND * length.div_ceil(PLAIN));
        while length > 0 {
            self.renew(into)?;
            let take = length.min(PLAIN);
            self.sealer.seal(DATA, &mut pieces, take, into)?;
            length -= take;
        }
        Ok(())
    }

    /// Goes on with a new key if the other side wants it, or the old one has done enough.
    fn renew(&mut self, into: &mut Outgoing) -> Result<(), Error> {
        if !self.owes_update && self.sealer.used() < RECORDS_OF_A_KEY {
            return Ok(());
        }
        self.sealer.seal_message(HANDSHAKE, &UPDATE, into)?;
        self.sealer = RecordKey::new(self.kernel.update_tx_secret()?)?;
        self.owes_update = false;
        Ok(())
    }

    /// Appends an alert; `close_notify` is a warning, all others are fatal.
    pub(super) fn alert(&mut self, alert: AlertDescription, into: &mut Outgoing) -> Result<(), Error> {
        let level = if alert == AlertDescription::CloseNotify { 1 } else { 2 };
        self.sealer.seal_message(ALERT, &[level, alert.into()], into)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
impl<S: Role> Established<S> {
    pub(super) fn sealer(&mut self) -> &mut RecordKey {
        &mut self.sealer
    }

    pub(super) fn opener(&mut self) -> &mut RecordKey {
        &mut self.opener
    }

    pub(super) fn renew_sealer(&mut self) {
        self.sealer = RecordKey::new(self.kernel.update_tx_secret().unwrap()).unwrap();
    }
}

/// Whether an alert ends the other side's data; an error if it reports one.
fn alert(bytes: &[u8]) -> Result<bool, Fault> {
    let [_, description] = *bytes else {
        return Err(Fault::new(AlertDescription::DecodeError, "an alert that is none"));
    };
    match AlertDescription::from(description) {
        AlertDescription::CloseNotify => Ok(true),
        AlertDescription::UserCanceled => Ok(false),
        other => Err(Fault {
            alert: None,
            error: Error::AlertReceived(other),
        }),
    }
}

fn unexpected(text: &str) -> Fault {
    Fault::new(AlertDescription::UnexpectedMessage, text)
}
