//! Records of TLS 1.3 (RFC 8446 section 5), sealed and opened where they lie.

use std::io::IoSlice;

use aws_lc_rs::{
    aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    error::Unspecified,
};
use rustls::{AlertDescription, ConnectionTrafficSecrets, Error};

use super::{
    layout::{BEYOND, HEADER, PLAIN, TAG},
    outgoing::Outgoing,
    pieces::Pieces,
};

pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;

/// An error, with the alert for the other side.
#[derive(Debug)]
pub(super) struct Fault {
    /// None: it is gone.
    pub(super) alert: Option<AlertDescription>,
    pub(super) error: Error,
}

impl Fault {
    pub(super) fn new(alert: AlertDescription, text: &str) -> Self {
        Self {
            alert: Some(alert),
            error: Error::General(text.to_owned()),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self {
            alert: Some(AlertDescription::InternalError),
            error,
        }
    }
}

/// A key of one direction, and how many records it has seen.
pub(super) struct RecordKey {
    cipher: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl RecordKey {
    pub(super) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("a cipher that is not known here".to_owned())),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| Error::EncryptError)?;
        let mut own = [0; 12];
        own.copy_from_slice(iv.as_ref());
        Ok(Self {
            cipher: LessSafeKey::new(key),
            iv: own,
            sequence,
        })
    }

    /// Records that it has sealed or opened.
    pub(super) fn used(&self) -> u64 {
        self.sequence
    }

    #[cfg(test)]
    pub(super) fn set_used(&mut self, records: u64) {
        self.sequence = records;
    }

    /// The next nonce (section 5.3). None is ever given twice.
    fn nonce(&mut self) -> Result<Nonce, Error> {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence = self.sequence.checked_add(1).ok_or(Error::EncryptError)?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Appends a record of this type to `into`, with the next `length` bytes of `plain`, at most [`PLAIN`]. On an error
    /// nothing is appended: unencrypted bytes must not be sent.
    pub(super) fn seal(
        &mut self,
        kind: u8,
        plain: &mut Pieces<'_>,
        length: usize,
        into: &mut Outgoing,
    ) -> Result<(), Error> {
        let sealed = u16::try_from(length + 1 + TAG).map_err(|_| Error::EncryptError)?;
        let [high, low] = sealed.to_be_bytes();
        let header = [DATA, 3, 3, high, low];
        let nonce = self.nonce()?;
        let record = into.extend(length + BEYOND);
        let (head, rest) = record.split_at_mut(HEADER);
        let (inner, behind) = rest.split_at_mut(length);
        head.copy_from_slice(&header);
        let aad = Aad::from(header);
        let sealed = if let Some(plain) = plain.together(length) {
            self.cipher
                .seal_out_of_place_scatter(nonce, aad, plain, inner, &[kind], behind)
        } else if plain.copy(inner) == length {
            self.cipher.seal_in_place_scatter(nonce, aad, inner, &[kind], behind)
        } else {
            Err(Unspecified)
        };
        sealed.map_err(|Unspecified| {
            into.shorten(length + BEYOND);
            Error::EncryptError
        })
    }

    /// The same with a message that is no data.
    pub(super) fn seal_message(&mut self, kind: u8, message: &[u8], into: &mut Outgoing) -> Result<(), Error> {
        let slices = [IoSlice::new(message)];
        self.seal(kind, &mut Pieces::new(&slices), message.len(), into)
    }

    /// Opens a whole record where it lies: its type, and how many bytes behind the header are its plaintext.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(u8, usize), Fault> {
        let nonce = self.nonce()?;
        let (header, sealed) = record.split_at_mut(HEADER);
        let opened = self.cipher.open_in_place(nonce, Aad::from(&*header), sealed);
        let inner = opened.map_err(|_| Fault {
            alert: Some(AlertDescription::BadRecordMac),
            error: Error::DecryptError,
        })?;
        // Zeros behind the type are padding (section 5.4).
        let Some(length) = inner.iter().rposition(|byte| *byte != 0) else {
            return Err(Fault::new(
                AlertDescription::UnexpectedMessage,
                "a record without a type",
            ));
        };
        if length > PLAIN {
            return Err(too_long());
        }
        Ok((inner[length], length))
    }
}

/// The length of the record that `bytes` begin with, header included; none if it is not known yet.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    // The version means nothing (section 5.1).
    let [kind, _, _, high, low] = *header;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if kind != DATA {
        let text = "a record that is not encrypted";
        return Err(Fault::new(AlertDescription::UnexpectedMessage, text));
    }
    if length > PLAIN + 256 {
        return Err(too_long());
    }
    // Shorter ones cannot be opened, which is found out there.
    Ok(Some(HEADER + length))
}

fn too_long() -> Fault {
    Fault {
        alert: Some(AlertDescription::RecordOverflow),
        error: Error::PeerSentOversizedRecord,
    }
}
