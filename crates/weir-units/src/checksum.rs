//! Checksums as the grid's protocols write them.
//!
//! Forms: `adler32:0a1b2c3d` in FTS and in URLs; `Digest: adler32=0a1b2c3d,md5=<base64>` (RFC 3230, registry of
//! RFC 5843); `Repr-Digest: sha-256=:<base64>:` (RFC 9530).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::GeneralPurposeConfig;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A checksum algorithm of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Adler-32 (RFC 1950); the field's default.
    Adler32,
    /// CRC-32C, Castagnoli's polynomial (RFC 3720, appendix B.4).
    Crc32c,
    /// MD5 (RFC 1321).
    Md5,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

impl Algorithm {
    /// Every algorithm, in order.
    pub const ALL: [Algorithm; 4] = [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha256];

    /// Gives the name in lower case, as FTS and Rucio write it: `adler32`, `crc32c`, `md5`, `sha256`.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Adler32 => "adler32",
            Algorithm::Crc32c => "crc32c",
            Algorithm::Md5 => "md5",
            Algorithm::Sha256 => "sha256",
        }
    }

    /// Gives the name used in `Digest` and `Want-Digest` headers: as [`Algorithm::as_str`], but `sha-256`.
    pub fn digest_name(self) -> &'static str {
        if self == Algorithm::Sha256 {
            "sha-256"
        } else {
            self.as_str()
        }
    }

    /// Gives the length of a value in bytes.
    pub fn length(self) -> usize {
        match self {
            Algorithm::Adler32 | Algorithm::Crc32c => 4,
            Algorithm::Md5 => 16,
            Algorithm::Sha256 => 32,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = ChecksumError;

    /// Reads a name in any case, with or without the dash: `ADLER32`, `adler`, `crc32c`, `md5`, `sha-256`, `SHA256`.
    fn from_str(text: &str) -> Result<Algorithm, ChecksumError> {
        const NAMES: [(&str, Algorithm); 6] = [
            ("adler32", Algorithm::Adler32),
            ("crc32c", Algorithm::Crc32c),
            ("md5", Algorithm::Md5),
            ("sha256", Algorithm::Sha256),
            ("adler", Algorithm::Adler32),
            ("sha-256", Algorithm::Sha256),
        ];
        let found = NAMES.iter().find(|(name, _)| text.trim().eq_ignore_ascii_case(name));
        found
            .map(|(_, algorithm)| *algorithm)
            .ok_or_else(|| ChecksumError::UnknownAlgorithm { name: shorten(text) })
    }
}

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Algorithm, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Says why a text is not a checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// The algorithm is none of ours.
    #[error("unknown checksum algorithm \"{name}\": use adler32, crc32c, md5 or sha256")]
    UnknownAlgorithm {
        /// The name as it was read, cut to 40 characters.
        name: String,
    },
    /// There is no colon between algorithm and value.
    #[error("\"{text}\" is not a checksum: write it as adler32:0a1b2c3d")]
    NoColon {
        /// The text as it was read, cut to 40 characters.
        text: String,
    },
    /// The value is not of the length or the alphabet of its algorithm.
    #[error("\"{value}\" is not a value of {algorithm}")]
    BadValue {
        /// The algorithm that was named.
        algorithm: Algorithm,
        /// The value as it was read, cut to 40 characters.
        value: String,
    },
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A checksum: an algorithm and its value.
///
/// `value` is big endian and [`Algorithm::length`] bytes long. Prints as `adler32:0a1b2c3d`, zero padded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The value, most significant byte first.
    pub value: ChecksumValue,
}

/// The bytes of a checksum's value. They lie in place: checksums are read and written with every small file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChecksumValue {
    /// Zeros behind the value.
    bytes: [u8; LONGEST],
    length: u8,
}

/// Of SHA-256.
const LONGEST: usize = 32;

impl ChecksumValue {
    /// Copies a value; none if it is longer than any algorithm's.
    pub fn new(value: &[u8]) -> Option<ChecksumValue> {
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(ChecksumValue {
            bytes,
            length: value.len() as u8,
        })
    }

    fn of_number(value: u32) -> ChecksumValue {
        let mut bytes = [0; LONGEST];
        bytes[..4].copy_from_slice(&value.to_be_bytes());
        ChecksumValue { bytes, length: 4 }
    }
}

impl std::ops::Deref for ChecksumValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for ChecksumValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Checksum {
    /// Makes an Adler-32 checksum of its number.
    pub fn adler32(value: u32) -> Checksum {
        Checksum {
            algorithm: Algorithm::Adler32,
            value: ChecksumValue::of_number(value),
        }
    }

    /// Makes a CRC-32C checksum of its number.
    pub fn crc32c(value: u32) -> Checksum {
        Checksum {
            algorithm: Algorithm::Crc32c,
            value: ChecksumValue::of_number(value),
        }
    }

    /// Reads a value in hexadecimal, in any case; leading zeros may be missing for the 32-bit algorithms, as some
    /// servers drop them.
    ///
    /// # Errors
    /// A value of the wrong length or alphabet.
    pub fn from_hex(algorithm: Algorithm, hex: &str) -> Result<Checksum, ChecksumError> {
        let bad = || ChecksumError::BadValue {
            algorithm,
            value: shorten(hex),
        };
        let digits = 2 * algorithm.length();
        let short_allowed = algorithm.length() == 4;
        let length_fits = hex.len() == digits || (short_allowed && (1..digits).contains(&hex.len()));
        if !length_fits {
            return Err(bad());
        }
        let mut value = ChecksumValue {
            bytes: [0; LONGEST],
            length: algorithm.length() as u8,
        };
        // Zeros are missing at the front.
        let missing = digits - hex.len();
        for (place, digit) in hex.bytes().enumerate() {
            let digit = char::from(digit).to_digit(16).ok_or_else(bad)? as u8;
            let place = missing + place;
            value.bytes[place / 2] |= if place.is_multiple_of(2) { digit << 4 } else { digit };
        }
        Ok(Checksum { algorithm, value })
    }

    /// Reads a value in base64, padded or not.
    ///
    /// # Errors
    /// A value of the wrong length or alphabet.
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Result<Checksum, ChecksumError> {
        let decoded = LENIENT.decode(text).ok();
        let value = decoded.filter(|value| value.len() == algorithm.length());
        let value = value.and_then(|value| ChecksumValue::new(&value));
        value
            .map(|value| Checksum { algorithm, value })
            .ok_or_else(|| ChecksumError::BadValue {
                algorithm,
                value: shorten(text),
            })
    }

    /// Gives the value in lower-case hexadecimal, zero padded.
    pub fn hex(&self) -> String {
        let mut hex = String::with_capacity(2 * self.value.len());
        self.push_hex(&mut hex);
        hex
    }

    fn push_hex(&self, text: &mut String) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in &*self.value {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }

    /// Gives the value in base64 with padding.
    pub fn base64(&self) -> String {
        STANDARD.encode(&*self.value)
    }

    /// Gives the form of RFC 3230's `Digest`: hexadecimal for the 32-bit algorithms, base64 for the others.
    pub fn digest_header(&self) -> String {
        let mut text = String::with_capacity(64);
        text.push_str(self.algorithm.digest_name());
        text.push('=');
        match self.algorithm {
            Algorithm::Adler32 | Algorithm::Crc32c => self.push_hex(&mut text),
            Algorithm::Md5 | Algorithm::Sha256 => STANDARD.encode_string(&*self.value, &mut text),
        }
        text
    }

    /// Gives the form of RFC 9530's `Repr-Digest`, a byte sequence of structured fields: `sha-256=:<base64>:`.
    pub fn repr_digest(&self) -> String {
        let name = if self.algorithm == Algorithm::Adler32 {
            "adler"
        } else {
            self.algorithm.digest_name()
        };
        format!("{name}=:{}:", self.base64())
    }
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.algorithm, self.hex()))
    }
}

impl FromStr for Checksum {
    type Err = ChecksumError;

    /// Reads `algorithm:hex`, in any case; see [`Checksum::from_hex`].
    fn from_str(text: &str) -> Result<Checksum, ChecksumError> {
        let Some((algorithm, value)) = text.trim().split_once(':') else {
            return Err(ChecksumError::NoColon { text: shorten(text) });
        };
        Checksum::from_hex(algorithm.parse()?, value.trim())
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Checksum, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Reads the checksums of a `Digest` header (RFC 3230) or a `Repr-Digest` header (RFC 9530).
///
/// Servers differ, so a value may be hexadecimal or base64 for every algorithm; where both readings fit, hexadecimal
/// wins. Unknown algorithms and values that fit neither form are left out, as both RFCs ask. The result keeps the
/// header's order and may be empty.
pub fn parse_digest_header(header: &str) -> Vec<Checksum> {
    header.split(',').filter_map(parse_instance_digest).collect()
}

fn parse_instance_digest(item: &str) -> Option<Checksum> {
    let (name, value) = item.split_once('=')?;
    let algorithm: Algorithm = name.parse().ok()?;
    let value = value.split(';').next()?.trim().trim_matches('"').trim();
    if let Some(sequence) = value.strip_prefix(':').and_then(|v| v.strip_suffix(':')) {
        return Checksum::from_base64(algorithm, sequence).ok();
    }
    Checksum::from_hex(algorithm, value)
        .or_else(|_| Checksum::from_base64(algorithm, value))
        .ok()
}
