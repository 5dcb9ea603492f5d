//! The creator of a file.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};

/// The user who wrote a file, as a hash: users can be told apart, but no name is stored with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creator([u8; 16]);

impl Creator {
    /// The subject of a token, of this issuer.
    pub fn of_token(issuer: &str, subject: &str) -> Self {
        Self::of(&["token", issuer, subject])
    }

    /// The holder of a certificate.
    pub fn of_certificate(name: &str) -> Self {
        Self::of(&["certificate", name])
    }

    fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut creator = [0; 16];
        creator.copy_from_slice(&hash.finalize()[..16]);
        Self(creator)
    }
}

impl fmt::Display for Creator {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Creator {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = (text.len() == 32)
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten();
        number.map(|number| Self(number.to_be_bytes())).ok_or(())
    }
}
