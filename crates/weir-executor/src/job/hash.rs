//! The name of a token.

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};

/// SHA-256 of a token: its name in the store. Written as hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TokenHash(pub [u8; 32]);

impl AsRef<[u8]> for TokenHash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex(&hash.0)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "a hash has 64 hexadecimal digits";
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() || !text.is_ascii() {
            return Err(WRONG);
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| WRONG)?;
        }
        Ok(Self(hash))
    }
}

impl TokenHash {
    /// The value of `src_token_id`: 16 hex digits.
    pub fn short(&self) -> String {
        hex(&self.0[..8])
    }
}

/// The name of a token in the store: its SHA-256.
pub fn hash_of(token: &str) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    TokenHash(hash)
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
