//! Streaming checksums: the hot path of every upload.
//!
//! Cost on one core of an EPYC: adler32 runs at 41 GB/s and crc32c at 53 GB/s with SIMD. Together they run at 25 GB/s, a small part of the
//! cost of TLS. sha256 runs at 2 GB/s with the CPU's instructions, md5 at 0.6 GB/s.

use std::collections::BTreeMap;

use crc_fast::{CrcAlgorithm, Digest};
use md5::Digest as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::checksum::{Algorithm, Checksum, ChecksumValue};

/// Piece of data that every algorithm processes before the next piece is read.
///
/// 256 KiB stays in a level-2 cache, so the second algorithm reads what the first one has loaded. Smaller pieces lose more to starting and
/// ending a checksum. adler32 and crc32c together on one core of an EPYC: 11 GB/s with 16 KiB, 16 GB/s with 64 KiB, 19 GB/s with 256 KiB.
const PIECE: usize = 256 << 10;

/// Takes several checksums of one stream in one pass.
///
/// ```
/// use weir_units::{Algorithm, Hasher};
/// let mut hasher = Hasher::new(&[Algorithm::Adler32, Algorithm::Crc32c]);
/// hasher.update(b"1234");
/// hasher.update(b"56789");
/// assert_eq!(hasher.finish().get(Algorithm::Crc32c).unwrap().to_string(), "crc32c:e3069283");
/// ```
#[derive(Clone)]
pub struct Hasher {
    states: Vec<State>,
}

#[derive(Clone)]
enum State {
    Adler32(simd_adler32::Adler32),
    Crc32c(Digest),
    Md5(md5::Md5),
    Sha256(sha2::Sha256),
}

impl State {
    fn new(algorithm: Algorithm) -> State {
        match algorithm {
            Algorithm::Adler32 => State::Adler32(simd_adler32::Adler32::new()),
            Algorithm::Crc32c => State::Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Md5 => State::Md5(md5::Md5::new()),
            Algorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
        }
    }

    fn update(&mut self, data: &[u8]) {
        match self {
            State::Adler32(state) => state.write(data),
            State::Crc32c(state) => state.update(data),
            State::Md5(state) => state.update(data),
            State::Sha256(state) => state.update(data),
        }
    }

    fn finish(self) -> Checksum {
        match self {
            State::Adler32(state) => Checksum::adler32(state.finish()),
            State::Crc32c(state) => Checksum::crc32c(state.finalize() as u32),
            State::Md5(state) => long(Algorithm::Md5, &state.finalize()),
            State::Sha256(state) => long(Algorithm::Sha256, &state.finalize()),
        }
    }
}

fn long(algorithm: Algorithm, value: &[u8]) -> Checksum {
    let value = ChecksumValue::new(value).expect("no algorithm has a longer value");
    Checksum { algorithm, value }
}

impl Hasher {
    /// Starts one checksum per algorithm; an algorithm named twice is taken once, none at all is allowed.
    pub fn new(algorithms: &[Algorithm]) -> Hasher {
        let unique: std::collections::BTreeSet<_> = algorithms.iter().copied().collect();
        Hasher {
            states: unique.into_iter().map(State::new).collect(),
        }
    }

    /// Adds the next bytes of the stream; pieces may be of any length, also empty.
    pub fn update(&mut self, data: &[u8]) {
        if let [only] = self.states.as_mut_slice() {
            return only.update(data);
        }
        for piece in data.chunks(PIECE) {
            for state in &mut self.states {
                state.update(piece);
            }
        }
    }

    /// Gives the checksums of everything added.
    pub fn finish(self) -> Checksums {
        self.states.into_iter().map(State::finish).collect()
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hasher of {} algorithms", self.states.len())
    }
}

/// The checksums of one file, at most one per algorithm.
///
/// In serde it is a map from algorithm to hexadecimal value, in the order of [`Algorithm`]'s names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checksums([Option<Checksum>; Algorithm::ALL.len()]);

impl Checksums {
    /// Gives the checksum of one algorithm.
    pub fn get(&self, algorithm: Algorithm) -> Option<&Checksum> {
        self.0[algorithm as usize].as_ref()
    }

    /// Adds a checksum, in place of an earlier one of the same algorithm.
    pub fn insert(&mut self, checksum: Checksum) {
        let place = checksum.algorithm as usize;
        self.0[place] = Some(checksum);
    }

    /// Lists the checksums in the order of their algorithms.
    pub fn iter(&self) -> impl Iterator<Item = &Checksum> {
        self.0.iter().flatten()
    }

    /// Says whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Counts the checksums.
    pub fn len(&self) -> usize {
        self.iter().count()
    }
}

impl FromIterator<Checksum> for Checksums {
    fn from_iter<I: IntoIterator<Item = Checksum>>(items: I) -> Checksums {
        let mut all = Checksums::default();
        items.into_iter().for_each(|checksum| all.insert(checksum));
        all
    }
}

impl Serialize for Checksums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|checksum| (checksum.algorithm, checksum.hex())))
    }
}

impl<'de> Deserialize<'de> for Checksums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Checksums, D::Error> {
        let map = BTreeMap::<Algorithm, String>::deserialize(deserializer)?;
        let read = |(algorithm, hex): (Algorithm, String)| Checksum::from_hex(algorithm, &hex);
        map.into_iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map_err(de::Error::custom)
    }
}

/// Gives the checksum of A followed by B from the checksums of A and of B, and B's length in bytes.
///
/// `None` if the two differ in algorithm, or the algorithm cannot be combined (md5, sha256).
pub fn combine(a: &Checksum, b: &Checksum, len_b: u64) -> Option<Checksum> {
    if a.algorithm != b.algorithm {
        return None;
    }
    let (first, second) = (number(a)?, number(b)?);
    match a.algorithm {
        Algorithm::Adler32 => Some(Checksum::adler32(combine_adler32(first, second, len_b))),
        Algorithm::Crc32c => {
            let whole =
                crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, u64::from(first), u64::from(second), len_b);
            Some(Checksum::crc32c(whole as u32))
        }
        Algorithm::Md5 | Algorithm::Sha256 => None,
    }
}

fn number(checksum: &Checksum) -> Option<u32> {
    (*checksum.value).try_into().ok().map(u32::from_be_bytes)
}

/// Largest prime below 2^16, the modulus of Adler-32 (RFC 1950, section 9).
const ADLER_BASE: u64 = 65_521;

/// With sums s1 (of bytes, starting at 1) and s2 (of the s1), B behind A adds `s1(A) - 1` to each of B's `len_b` sums.
fn combine_adler32(a: u32, b: u32, len_b: u64) -> u32 {
    let (low_a, high_a) = (u64::from(a & 0xffff), u64::from(a >> 16));
    let (low_b, high_b) = (u64::from(b & 0xffff), u64::from(b >> 16));
    let low_a_less_one = (low_a + ADLER_BASE - 1) % ADLER_BASE;
    let low = (low_a_less_one + low_b) % ADLER_BASE;
    let high = (high_a + high_b + (len_b % ADLER_BASE) * low_a_less_one) % ADLER_BASE;
    ((high << 16) | low) as u32
}
